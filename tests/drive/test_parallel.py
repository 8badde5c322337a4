"""Calls that go on at once: how many, and what one that hangs, crashes or is interrupted costs the others: nothing."""

import asyncio
import os
import select
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cases.stage import fork
from drive.scenes import agent_of, kinds, results, says
from midstride import Agent, Context, Run, Runs, threads, tool
from midstride.core.journal import Settled
from midstride.core.steps import Start
from midstride.drive import blocking, shell
from midstride.errors import DeclarationError
from midstride.models import Scripted
from midstride.stores import MemoryStore, SqliteStore
from midstride.threads import in_thread
from patience import SECONDS
from standing import Standing


@pytest.fixture
def store():
    return MemoryStore()


def reads(*names):
    return [("read", {"name": name}) for name in names]


def settled(store):
    return [(e.body.index, e.body.outcome) for e in store.read("run") if isinstance(e.body, Settled)]


# ---- how many


class Inside:
    """Counts who is inside at once; the first *meet* that come wait for each other."""

    def __init__(self, meet):
        self._barrier, self._meet, self._mutex = threading.Barrier(meet, timeout=SECONDS), meet, threading.Lock()
        self.came = self.now = self.most = 0

    def __enter__(self):
        with self._mutex:
            self.came += 1
            self.now += 1
            self.most = max(self.most, self.now)
            waits = self.came <= self._meet
        if waits:
            self._barrier.wait()

    def __exit__(self, *_):
        with self._mutex:
            self.now -= 1


class Listening(MemoryStore):
    """A store that hears when its driver waits for tools: only then does it look whether somebody has appended."""

    def __init__(self, started):
        super().__init__()
        self.started, self.waits = started, threading.Event()
        self.at_once = 0

    def read(self, run_id, after=0, limit=None):
        if self.started and not self.waits.is_set():
            self.at_once = len(self.started)
            self.waits.set()
        return super().read(run_id, after, limit)


@pytest.mark.parametrize("bound", [None, 3, 1])
def test_so_many_reads_run_at_once_and_all_are_answered(drive, bound, monkeypatch):
    monkeypatch.setattr("midstride.drive.blocking.LISTEN_SECONDS", 0.02)
    started = []
    store = Listening(started)

    def watch(event):
        if isinstance(event, Start):
            started.append(event)

    @tool.read_only
    def read(name: str) -> str:
        """Read, once the driver starts nothing more."""
        assert store.waits.wait(SECONDS)
        return f"text of {name}"

    names = [str(number) for number in range(50)]
    options = {} if bound is None else {"parallel": bound}
    agent = agent_of([reads(*names), "Done."], [read], store=store, **options)
    drive(agent, watch=watch)
    assert (store.at_once, len(started)) == (bound or 8, 50)
    assert results(agent) == [(f"text of {name}", False) for name in names]


def test_so_many_coroutines_run_at_once(store):
    inside = []

    @tool.read_only
    async def read(name: str) -> str:
        """Read."""
        inside.append(len([task for task in asyncio.all_tasks() if task.get_name() == "midstride read"]))
        await asyncio.sleep(0)
        return name

    agent = agent_of([reads(*map(str, range(50))), "Done."], [read], store=store, parallel=3)
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert (len(inside), max(inside)) == (50, 3)


def test_one_after_the_other_is_in_the_order_of_the_calls(drive, store):
    seen = []

    @tool.read_only
    def read(name: str) -> str:
        """Read."""
        seen.append(name)
        return name

    @tool
    def send(name: str) -> str:
        """Send."""
        seen.append(name)
        return name

    calls = [("read" if number % 3 else "send", {"name": str(number)}) for number in range(9)]
    drive(agent_of([calls, "Done."], [read, send], store=store, parallel=1))
    assert seen == [str(number) for number in range(9)]


@pytest.mark.parametrize("parallel", [0, -1, 1.5, "8", True, None])
def test_what_is_no_number_of_calls_is_refused(store, parallel):
    with pytest.raises(DeclarationError, match="wanted 1 or more"):
        Agent(Scripted([]), parallel=parallel)
    with pytest.raises(DeclarationError, match="wanted 1 or more"):
        Run(store, "run", "go", parallel=parallel)


def test_a_loop_of_ones_own_bounds_them_too(store):
    inside = Inside(2)

    @tool.read_only
    def read(name: str) -> str:
        """Read."""
        with inside:
            return name

    model = Scripted([reads(*"abcdef"), "Done."])
    with Run(store, "run", "go", tools=[read], parallel=2) as run:
        for turn in run:
            turn.respond(model.ask(turn.request, lambda event: None))
    assert (inside.came, inside.most) == (6, 2)


# ---- one that hangs


class Line:
    """A pipe over which a process says that something has happened."""

    def __init__(self):
        self.reader, self.writer = os.pipe()

    def say(self):
        os.write(self.writer, b"!")

    def heard(self):
        return bool(select.select([self.reader], [], [], SECONDS)[0])

    def close(self):
        os.close(self.reader)
        os.close(self.writer)


@pytest.fixture
def line():
    made = Line()
    yield made
    made.close()


@pytest.mark.parametrize("hanging", [0, 10, 19])
def test_what_has_ended_beside_a_read_that_hangs_is_not_run_again_after_a_kill(drive, tmp_path, line, hanging):
    notes, hangs = tmp_path / "notes", threading.Event()

    @tool.read_only
    def read(name: str) -> str:
        """Read, and hang the first time where it is told to."""
        with open(notes, "a") as file:
            file.write(f"{name}\n")
        if name == str(hanging) and "HANG" in os.environ:
            hangs.set()
            signal.pause()
        return name

    names = [str(number) for number in range(20)]

    def run(watch=None):
        opened = SqliteStore(tmp_path / "runs.db")
        try:
            agent = agent_of([reads(*names), "Done."], [read], store=opened)
            return drive(agent, watch=watch), agent
        finally:
            opened.close()

    def program():
        os.environ["HANG"] = "1"
        saved = []

        def watch(event):
            if isinstance(getattr(event, "body", None), Settled):
                saved.append(event)
                if len(saved) == 19:
                    assert hangs.wait(SECONDS)
                    line.say()

        run(watch)

    pid = fork(program)
    assert line.heard()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert sorted(notes.read_text().split(), key=int) == names
    notes.unlink()
    _, agent = run()
    assert notes.read_text().split() == [str(hanging)]
    assert results(agent) == [(name, False) for name in names]


def test_calls_that_fill_the_loops_own_threads_keep_no_result_from_being_saved(store):
    saved = threading.Event()

    @tool.read_only
    async def hang() -> str:
        """Wait in one of the loop's threads until the other result is saved."""
        return "saved" if await asyncio.to_thread(saved.wait, SECONDS) else "not saved"

    @tool.read_only
    async def quick() -> str:
        """Return when the threads are full."""
        await asyncio.sleep(0)
        return "quick"

    def watch(event):
        if isinstance(getattr(event, "body", None), Settled):
            saved.set()

    async def go():
        with ThreadPoolExecutor(1) as pool:
            asyncio.get_running_loop().set_default_executor(pool)
            await agent.run_async("go", "run", watch=watch)

    agent = agent_of([[("hang", {}), ("hang", {}), ("quick", {})], "Done."], [hang, quick], store=store)
    asyncio.run(go())
    assert results(agent) == [("saved", False), ("saved", False), ("quick", False)]


@pytest.mark.parametrize("coroutine", [False, True], ids=["plain", "coroutine"])
def test_a_run_that_is_cancelled_keeps_what_has_ended(drive, store, monkeypatch, coroutine):
    monkeypatch.setattr("midstride.drive.blocking.LISTEN_SECONDS", 0.02)
    monkeypatch.setattr(shell, "GRACE_SECONDS", 0.1)
    over, heard = threading.Event(), []

    def watch(event):
        if isinstance(getattr(event, "body", None), Settled):
            heard.append(event)
            if len(heard) == 3:
                Runs(store).cancel("run", "enough")

    if coroutine and drive.name == "async":

        @tool.read_only
        async def read(name: str) -> str:
            """Read."""
            if name in "bd":
                await asyncio.sleep(3600)
            return name

    else:

        @tool.read_only
        def read(name: str) -> str:
            """Read."""
            if name in "bd":
                over.wait(60)
            return name

    agent = agent_of([reads(*"abcde"), "Done."], [read], store=store)
    assert drive(agent, watch=watch).status == "cancelled"
    assert sorted(settled(store)) == [(0, "ok"), (1, "failed"), (2, "ok"), (3, "failed"), (4, "ok")]
    over.set()


def test_ctrl_c_while_five_reads_run_costs_none_that_has_ended(drive, tmp_path):
    """In a process of its own, as a person does it; the second one reads what had not ended, and nothing else."""
    notes, database = tmp_path / "notes", tmp_path / "runs.db"

    @tool.read_only
    def read(name: str) -> str:
        """Read, and hang the first time where it is told to."""
        with open(notes, "a") as file:
            file.write(f"{name}\n")
        if name in "bd" and "HANG" in os.environ:
            threading.Event().wait()
        return name

    def run(watch=None):
        opened = SqliteStore(database)
        try:
            agent = agent_of([reads(*"abcde"), "Done."], [read], store=opened)
            drive(agent, watch=watch)
            return results(agent)
        finally:
            opened.close()

    def program():
        os.environ["HANG"] = "1"
        saved = []

        def watch(event):
            if isinstance(getattr(event, "body", None), Settled):
                saved.append(event)
                if len(saved) == 3:
                    os.kill(os.getpid(), signal.SIGINT)

        run(watch)

    assert os.waitstatus_to_exitcode(os.waitpid(fork(program), 0)[1]) == 130
    notes.unlink()
    assert run() == [(name, False) for name in "abcde"]
    assert sorted(notes.read_text().split()) == ["b", "d"]


# ---- one that crashes


class Fatal(BaseException):
    """What nobody catches."""


class SlowStore(MemoryStore):
    """A store whose disk is so slow that every tool has ended before an answer is saved."""

    def append(self, run_id, entries, **more):
        super().append(run_id, entries, **more)
        if entries[0].body.kind == "settled":
            for thread in threading.enumerate():
                if thread.name == "midstride read":
                    thread.join()


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit, Fatal, asyncio.CancelledError])
def test_results_that_came_beside_a_crash_are_saved_before_it_is_told(drive, crash):
    """All end while the first result is saved: the driver hears of them and of the crash in one moment."""
    saving, ran = threading.Event(), []

    @tool.read_only
    def read(name: str) -> str:
        """Read; "c" crashes the first time."""
        ran.append(name)
        if name != "a":
            assert saving.wait(SECONDS)
        if name == "c" and ran.count("c") == 1:
            raise crash("now")
        return name

    class Store(SlowStore):
        def append(self, run_id, entries, **more):
            if entries[0].body.kind == "settled":
                saving.set()
            super().append(run_id, entries, **more)

    store = Store()
    agent = agent_of([reads(*"abcd"), "Done."], [read], store=store)
    with pytest.raises(crash):
        drive(agent)
    assert sorted(settled(store)) == [(0, "ok"), (1, "ok"), (3, "ok")]
    assert store.holder("run") is None
    drive(agent)
    assert results(agent) == [(name, False) for name in "abcd"]
    assert sorted(ran) == ["a", "b", "c", "c", "d"]


# ---- runs at once, and in each other


def test_two_runs_in_one_process_share_nothing(drive):
    """Six reads of two runs meet, each run bounded by three; the first run's interrupt is not the second's."""
    together = threading.Barrier(6, timeout=SECONDS)
    stores, told = {name: MemoryStore() for name in "xy"}, {}

    def work(name):
        @tool.read_only
        def read(name: str) -> str:
            """Read."""
            together.wait()
            return f"{name} of {owner}"

        owner = name
        agent = agent_of([reads(*"abc"), "Done."], [read], store=stores[name], parallel=3)
        told[name] = (drive(agent).answer, results(agent))

    threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {name: ("Done.", [(f"{read} of {name}", False) for read in "abc"]) for name in "xy"}
    assert [kinds(store).count("settled") for store in stores.values()] == [3, 3]


def test_a_run_that_crashes_leaves_another_in_the_same_loop_alone():
    met = []

    async def go():
        together = asyncio.Barrier(2)

        @tool.read_only
        async def read(name: str) -> str:
            """Read, or crash, once both runs are under way."""
            await together.wait()
            if name == "bad":
                raise Fatal
            met.append(name)
            return name

        stores = [MemoryStore(), MemoryStore()]
        agents = [
            agent_of([reads(name), "Done."], [read], store=s) for name, s in zip(("bad", "good"), stores, strict=True)
        ]
        ended = await asyncio.gather(*(agent.run_async("go", "run") for agent in agents), return_exceptions=True)
        return type(ended[0]), ended[1].answer

    assert asyncio.run(go()) == (Fatal, "Done.")
    assert met == ["good"]


@pytest.mark.parametrize("coroutine", [False, True], ids=["plain", "coroutine"])
def test_a_tool_that_runs_an_agent_never_waits_for_itself(drive, store, coroutine):
    """Four deep, two calls each, one at a time: no pool that could be full of those who wait for it."""

    def made(depth):
        def below(number):
            return agent_of(
                [[("delve", {"number": n}) for n in range(2)], "Deep."], [made(depth - 1)], store=store, parallel=1
            )

        if coroutine:

            @tool.read_only
            async def delve(number: int, context: Context) -> str:
                """Run an agent in this tool."""
                if not depth:
                    return "ground"
                return (await below(number).run_async("go", f"{context.run_id}.{number}")).answer

        else:

            @tool.read_only
            def delve(number: int, context: Context) -> str:
                """Run an agent in this tool."""
                return below(number).run("go", f"{context.run_id}.{number}").answer if depth else "ground"

        return delve

    agent = agent_of([[("delve", {"number": n}) for n in range(2)], "Done."], [made(3)], store=store, parallel=1)
    assert drive(agent).answer == "Done."
    assert results(agent) == [("Deep.", False)] * 2


def test_many_runs_in_one_loop_whose_tools_block_all_come_to_an_end(tmp_path):
    """Twelve runs over one file, each with a tool that runs an agent in its thread: more than a pool has."""
    store = SqliteStore(tmp_path / "runs.db")

    @tool
    def ask(name: str) -> str:
        """Run an agent in this tool's thread."""
        return agent_of(["Deep."], store=store).run("go", f"below {name}").answer

    async def go():
        agents = [agent_of([[("ask", {"name": str(n)})], says(f"Done {n}.")], [ask], store=store) for n in range(12)]
        return await asyncio.gather(*(agent.run_async("go", f"run {n}") for n, agent in enumerate(agents)))

    assert [result.answer for result in asyncio.run(go())] == [f"Done {n}." for n in range(12)]
    store.close()


class Locked(MemoryStore):
    """A store whose writes for some runs wait until *gate* opens, as for somebody who has locked a database."""

    def __init__(self, gate):
        super().__init__()
        self.gate, self.waiting = gate, threading.Semaphore(0)

    def append(self, run_id, entries, **more):
        if run_id.startswith("locked"):
            self.waiting.release()
            assert self.gate.wait(SECONDS)
        super().append(run_id, entries, **more)


def test_runs_that_wait_to_write_keep_no_tool_of_another_run_beyond_its_time(monkeypatch):
    monkeypatch.setattr(threads, "LANE_WIDTH", 2)
    monkeypatch.setattr(blocking, "LISTEN_SECONDS", 0.01)  # it looks at the store while the tool runs
    gate, begun, cancelled = threading.Event(), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(begun.is_set))
    store = Locked(gate)

    @tool.read_only(timeout=0.2)
    async def hang() -> str:
        """Hang."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def both():
        hanging = asyncio.ensure_future(agent_of([[("hang", {})], "Done."], [hang], store=store).run_async("go", "run"))
        async with asyncio.timeout(SECONDS):
            await begun.wait()
        names = [f"locked-{number}" for number in range(5)]
        others = [asyncio.ensure_future(agent_of(["Done."], store=store).run_async("go", name)) for name in names]
        for _ in range(threads.LANE_WIDTH):
            assert await in_thread(store.waiting.acquire, True, SECONDS)
        async with asyncio.timeout(SECONDS):
            await cancelled.wait()
        assert not gate.is_set()
        gate.set()
        return [result.status for result in await asyncio.gather(hanging, *others)]

    assert asyncio.run(both()) == ["done"] * 6
