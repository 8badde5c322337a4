"""A process that dies in thought leaves what a killed one leaves, and nothing of it goes on."""

import asyncio
import os
import signal
import threading

import pytest

from midstride import Agent, models, tool
from midstride.core.journal import Taken
from midstride.drive.attempts import LATE, Attempts
from midstride.drive.attempts_here import _attempts
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore
from midstride.testing import Killed, Process, SettableClock
from midstride.testing.conformance import process as forked
from patience import SECONDS

KINDS = {"sqlite": lambda f: SqliteStore(f / "runs.db"), "checkpoint": lambda f: CheckpointStore(f / "checkpoint.json")}
POINTS = ["take after", "append 1 after", "ask after", "append 2 after", "send 1.0 after", "release"]


def send_in(outbox):
    @tool
    def send(n: int) -> str:
        """Send."""
        outbox.append(n)
        return f"sent {n}"

    return send


def agent_with(*tools, script=None):
    return Agent(models.Scripted(script or [[("send", {"n": 1})], "Done."]), tools)


def dies(store, at, *tools, script=None):
    """Let a process die, and return it."""
    process = Process(store, SettableClock(), at)
    with pytest.raises(Killed):
        process.agent(agent_with(*tools, script=script)).run("go", "run")
    process.end()
    return process


def lives(store, *tools):
    process = Process(store, SettableClock())
    result = process.agent(agent_with(*tools)).run("go", "run")
    process.end()
    return result


def trace(store, folder):
    """Return what a death left: the lease, the journal, the files."""
    kinds = [entry.body.kind for entry in store.read("run")]
    holder = store.holder("run")
    lease = store.lease("run")
    clean = lease.after_clean
    lease.release()
    return kinds, holder, clean, sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("at", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_death_in_thought_leaves_what_sigkill_leaves(kind, at, tmp_path):
    traces = []
    for name in ("thought", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "thought":
            process = dies(KINDS[kind](folder), at, send_in([]))
        else:
            with forked(lambda folder=folder: stop_at(KINDS[kind](folder), at)) as pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        store = KINDS[kind](folder)
        traces.append(trace(store, folder))
        store.close()
        if name == "thought":
            process.clean_up()
    assert traces[0] == traces[1]
    assert traces[0][1:3] == (None, False)


def stop_at(store, at):
    """Come to a point and stand still there, with the lease held: the test then kills the whole process."""
    process = Process(store, SettableClock(), at)
    agent = process.agent(agent_with(send_in([])))
    arrived = threading.Event()
    reach = process.fuse.reach

    def reach_and_stay(point):
        if point == at:
            arrived.set()
            threading.Event().wait()
        reach(point)

    process.fuse.reach = reach_and_stay
    threading.Thread(target=agent.run, args=("go", "run"), daemon=True).start()
    arrived.wait()


def test_a_death_is_counted_by_whoever_takes_the_run_up():
    store = MemoryStore()
    for _ in range(2):
        dies(store, "append 1 after", send_in([]))
    lives(store, send_in([]))
    assert [e.body.clean for e in store.read("run") if isinstance(e.body, Taken)] == [True, False, False]


@pytest.mark.parametrize("at", ["append 2 after", "append 3 before", "ask before"])
def test_the_dead_use_their_store_no_more(at):
    process = dies(MemoryStore(), at, send_in([]))
    store = process.store
    acts = [
        lambda: store.read("run"),
        store.runs,
        lambda: store.append("run", [], token=1),
        lambda: store.lease("run"),
        lambda: store.holder("run"),
        lambda: store.foreign("run"),
        lambda: store.transaction("run").__enter__(),
    ]
    for act in acts:
        with pytest.raises(Killed):
            act()


def test_a_tool_in_another_thread_ends_before_the_death_and_its_result_is_lost():
    looking, dying, seen = threading.Event(), threading.Event(), []

    @tool.read_only
    def look(n: int) -> str:
        """Look."""
        looking.set()
        assert dying.wait(60)
        seen.append(n)
        return f"saw {n}"

    @tool.read_only
    def die(n: int) -> str:
        """Die."""
        assert looking.wait(60)
        return "behind this it dies"

    store = MemoryStore()
    process = Process(store, SettableClock(), "die 1.1 after")
    script = [[("look", {"n": 1}), ("die", {"n": 2})], "Done."]
    with pytest.raises(Killed):
        process.agent(agent_with(look, die, script=script)).run("go", "run")
    assert seen == []
    threading.Timer(0, dying.set).start()
    process.end()
    assert seen == [1]
    assert [entry.body.kind for entry in store.read("run")] == ["started", "taken", "requested", "responded"]
    assert store.holder("run") is None


def test_a_coroutine_of_the_dead_is_never_resumed_not_even_to_clean_up():
    undone = []

    @tool
    async def send(n: int) -> str:
        """Send."""
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            undone.append(n)
        return "sent"

    @tool.read_only
    async def die(n: int) -> str:
        """Die."""
        await waiting.wait()
        return "behind this it dies"

    waiting = asyncio.Event()
    process = Process(MemoryStore(), SettableClock(), "die 1.1 after")
    script = [[("send", {"n": 1}), ("die", {"n": 2})], "Done."]
    with pytest.raises(Killed):
        asyncio.run(process.agent(agent_with(send, die, script=script)).run_async("go", "run"))
    process.end()
    assert undone == []
    process.clean_up()
    assert undone == [1]


def test_no_attempt_of_the_dead_is_found_by_the_next_process():
    before = set(_attempts)
    store = MemoryStore()
    dies(store, "append 3 after", send_in([]))
    assert lives(store, send_in([])).status == "done"
    assert set(_attempts) <= before  # what other tests have left may go meanwhile


def test_a_program_that_makes_something_of_its_death_is_dead_all_the_same(crash_everywhere):
    from midstride.testing import Scene

    def scene(folder):
        outbox = []

        def program(process):
            agent = process.agent(agent_with(send_in(outbox)))
            try:
                return agent.run("go", "run")
            except BaseException:
                return agent.run("go", "run")

        return Scene(program, effects=lambda: outbox)

    assert crash_everywhere(scene, deaths=1).plans[1] > 15


def test_a_result_that_comes_behind_a_death_is_lost_without_a_word(monkeypatch):
    """Its thread reports to nobody and ends; pytest hears of each that an exception ends, and fails the test."""
    looked, undriven, threads = threading.Event(), threading.Event(), []
    end, let_go = Attempts._end, Attempts._let_go

    def end_behind_the_death(attempts, key, ended):
        if key == (1, 0):
            looked.set()
            threads.append(threading.current_thread())
            assert undriven.wait(SECONDS)
        end(attempts, key, ended)
        threads.extend(attempts._reports)

    def let_go_and_say(attempts, kept):
        let_go(attempts, kept)
        undriven.set()

    @tool.read_only
    def die(n: int) -> str:
        """Die."""
        assert looked.wait(SECONDS)
        return "behind this it dies"

    monkeypatch.setattr(Attempts, "_end", end_behind_the_death)
    monkeypatch.setattr(Attempts, "_let_go", let_go_and_say)
    look, store = tool.read_only(send_in([]).function), MemoryStore()
    dies(store, "die 1.1 after", look, die, script=[[("send", {"n": 1}), ("die", {"n": 2})], "Done."])
    for thread in threads:  # the tool's, and then the one that it has started
        thread.join()
    assert LATE in [thread.name for thread in threads]
    assert [entry.body.kind for entry in store.read("run")] == ["started", "taken", "requested", "responded"]
