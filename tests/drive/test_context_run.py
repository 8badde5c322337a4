"""A tool that runs a command: what ends its call ends the command, and the call is judged as one whose attempt did."""

import asyncio
import os
import select
import signal
import threading

import pytest

from cases.stage import fork
from drive.scenes import agent_of, kinds, results
from midstride import Context, DidNotHappen, Happened, Runs, tool
from midstride.drive import shell
from midstride.errors import StoreError
from midstride.stores import MemoryStore, SqliteStore
from patience import SECONDS
from standing import Standing


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture(autouse=True)
def _time_to_end(monkeypatch):
    """Wait as long as it takes for a tool whose command was ended: a second is little on a busy machine."""
    monkeypatch.setattr("midstride.drive.attempts.CANCEL_SECONDS", float(SECONDS))


class Fifo:
    """A FIFO that a command holds open: it ends when nothing of the command is left."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def begun(self):
        """Wait until the command has written a line."""
        assert select.select([self.reader], [], [], SECONDS)[0]
        return os.read(self.reader, 100) == b"begun\n"

    def ended(self):
        """Wait for its end."""
        return bool(select.select([self.reader], [], [], SECONDS)[0]) and os.read(self.reader, 100) == b""


@pytest.fixture
def fifo(tmp_path):
    made = Fifo(tmp_path / "fifo")
    yield made
    os.close(made.reader)


@pytest.fixture
def timed(fifo, monkeypatch):
    """The FIFO of a command whose call runs out of time, and not before the command has begun."""
    begun = threading.Event()
    hearing = threading.Thread(target=lambda: fifo.begun() and begun.set())
    hearing.start()
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(begun.is_set))
    yield fifo
    hearing.join()
    assert begun.is_set()


def tools_of(fifo, *, asynchronous=False, effect=tool, **options):
    """Return a tool that runs a command which lasts, with a child of its own."""
    line = f"exec 9> {fifo.path}; sleep 600 & echo begun >&9; sleep 600"

    if asynchronous:

        @effect(**options)
        async def make(context: Context) -> str:
            """Make it."""
            return (await context.run_async(["/bin/sh", "-c", line])).stdout

    else:

        @effect(**options)
        def make(context: Context) -> str:
            """Make it."""
            return context.run(["/bin/sh", "-c", line]).stdout

    return make


kinds_of_tool = pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "coroutine"])
SCRIPT = [[("make", {})], "Done."]


# ---- its time


@kinds_of_tool
def test_a_command_ends_with_its_calls_time_and_the_outcome_is_unknown(drive, store, timed, asynchronous):
    agent = agent_of(SCRIPT, [tools_of(timed, asynchronous=asynchronous, timeout=0.3)], store=store)
    drive(agent)
    ((content, is_error),) = results(agent)
    assert (is_error, content.startswith("Outcome unknown")) == (True, True)
    assert "It did not end within 0.3 s." in content
    assert "still running" not in content
    assert timed.ended()


def test_a_read_whose_command_ran_out_of_time_has_failed(drive, store, timed):
    agent = agent_of(SCRIPT, [tools_of(timed, effect=tool.read_only, timeout=0.3)], store=store)
    drive(agent)
    assert results(agent) == [("Failed: It did not end within 0.3 s.", True)]


def test_a_call_whose_command_was_ended_is_dead_and_can_be_looked_up(drive, store, timed):
    looked = []
    make = tools_of(timed, effect=tool.verifiable, timeout=0.3)

    @make.verify
    def look() -> Happened:
        """Look."""
        looked.append(timed.ended())
        return Happened("it is made")

    agent = agent_of(SCRIPT, [make], store=store)
    drive(agent)
    assert (results(agent), looked) == ([("it is made", False)], [True])


def test_a_tool_that_has_a_result_all_the_same_has_it_recorded(drive, store, timed):
    @tool(timeout=0.3)
    def make(context: Context) -> str:
        """Make it."""
        try:
            context.run(["/bin/sh", "-c", f"exec 9> {timed.path}; echo begun >&9; sleep 600"])
        except Exception as error:
            return f"half made: {error}"

    agent = agent_of(SCRIPT, [make], store=store)
    drive(agent)
    assert results(agent) == [("half made: the command was ended, since its call is over", False)]


def test_a_verify_runs_commands_too_and_its_time_ends_them(drive, store, timed, monkeypatch):
    monkeypatch.setattr("midstride.core.settle.VERIFY_SECONDS", 0.3)

    @tool.verifiable(timeout=0.3)
    def make() -> str:
        """Fail behind the effect."""
        raise OSError("the line broke")

    @make.verify
    def look(context: Context) -> DidNotHappen:
        """Look."""
        context.run(["/bin/sh", "-c", f"exec 9> {timed.path}; echo begun >&9; sleep 600"])
        return DidNotHappen()

    agent = agent_of(SCRIPT, [make], store=store)
    drive(agent)
    assert results(agent)[0][0].startswith("Outcome unknown")
    assert timed.ended()


def test_a_command_that_a_tool_starts_behind_its_end_does_not_begin(drive, store, tmp_path):
    contexts = []

    @tool
    def make(context: Context) -> str:
        """Keep the context."""
        contexts.append(context)
        return "made"

    drive(agent_of(SCRIPT, [make], store=store))
    with pytest.raises(Exception, match="its call is over"):
        contexts[0].run(["touch", str(tmp_path / "late")])
    assert not (tmp_path / "late").exists()


# ---- a run that is cancelled, a driver that is


@kinds_of_tool
@pytest.mark.parametrize("effect", [tool, tool.read_only], ids=["unsafe", "read"])
def test_a_run_that_is_cancelled_ends_its_commands(drive, store, fifo, asynchronous, effect, monkeypatch):
    monkeypatch.setattr("midstride.drive.blocking.LISTEN_SECONDS", 0.02)
    monkeypatch.setattr(shell, "GRACE_SECONDS", 0.1)

    def cancel():
        assert fifo.begun()
        Runs(store).cancel("run", "enough")

    person = threading.Thread(target=cancel)
    person.start()
    agent = agent_of(SCRIPT, [tools_of(fifo, asynchronous=asynchronous, effect=effect)], store=store)
    assert drive(agent).status == "cancelled"
    person.join()
    assert fifo.ended()
    (settled,) = [entry.body for entry in store.read("run") if entry.body.kind == "settled"]
    assert settled.outcome == ("unknown" if effect == tool else "failed")
    assert "run was cancelled" in settled.content


@kinds_of_tool
@pytest.mark.parametrize("effect", [tool, tool.read_only], ids=["unsafe", "read"])
def test_ctrl_c_ends_the_commands_and_frees_the_run(drive, store, fifo, asynchronous, effect):
    def press():
        assert fifo.begun()
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=press)
    person.start()
    make = tools_of(fifo, asynchronous=asynchronous, effect=effect)
    with pytest.raises(KeyboardInterrupt):
        drive(agent_of(SCRIPT, [make], store=store))
    person.join()
    assert fifo.ended()
    assert store.holder("run") is None
    ran = []

    @effect(name="make")
    def again() -> str:
        ran.append("again")
        return "made"

    agent = agent_of(SCRIPT, [again], store=store)
    drive(agent)
    ((content, is_error),) = results(agent)
    if effect != tool:
        assert (content, is_error, ran) == ("made", False, ["again"])
    else:
        assert (content.split(":")[0], is_error, ran) == ("Outcome unknown", True, [])


@kinds_of_tool
def test_a_task_that_is_cancelled_ends_its_commands(store, fifo, asynchronous):
    agent = agent_of(SCRIPT, [tools_of(fifo, asynchronous=asynchronous)], store=store)

    async def go():
        task = asyncio.create_task(agent.run_async("go", "run"))
        assert await asyncio.to_thread(fifo.begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert fifo.ended()
    assert (store.holder("run"), kinds(store)[-1]) == (None, "intended")


@pytest.mark.parametrize("error", [StoreError, OSError])
def test_a_store_that_fails_ends_the_commands_with_their_driver(drive, fifo, error):
    begun = []

    class Full(MemoryStore):
        def append(self, run_id, entries, **more):
            if entries[0].body.kind == "settled":
                assert begun or fifo.begun()
                begun.append(True)
                raise error("the disk is full")
            super().append(run_id, entries, **more)

    @tool.read_only
    def read() -> str:
        """Read."""
        return "text"

    store = Full()
    agent = agent_of([[("make", {}), ("read", {})], "Done."], [tools_of(fifo), read], store=store)
    with pytest.raises(error, match="the disk is full"):
        drive(agent)
    assert fifo.ended()
    assert store.holder("run") is None


# ---- a process that is killed


@kinds_of_tool
def test_a_process_that_is_killed_takes_its_commands_along(drive, tmp_path, fifo, asynchronous):
    def program():
        opened = SqliteStore(tmp_path / "runs.db")
        drive(agent_of(SCRIPT, [tools_of(fifo, asynchronous=asynchronous)], store=opened))

    pid = fork(program)
    assert fifo.begun()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert fifo.ended()
