"""One driver after another in one process, while an attempt of the first still goes on: nothing falls in between."""

import asyncio
import gc
import os
import threading
import time
import weakref
from contextlib import closing

import pytest

from cases.stage import forked
from drive.scenes import Killed, agent_of, kinds, results, uses
from midstride import AsyncRun, Run, Runs, tool
from midstride.core.journal import Entry
from midstride.core.steps import Ended, Start
from midstride.drive.attempts import Attempts
from midstride.errors import NotAllowed, StoreError, TaskDiffers
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore
from midstride.threads import in_thread
from patience import SECONDS

SEND, READ = ("send", {"to": "ann"}), ("read", {})
KINDS = {"memory": lambda _: MemoryStore(), "sqlite": SqliteStore, "checkpoint": CheckpointStore}


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    with closing(KINDS[request.param](tmp_path / "runs")) as store:
        yield store


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()
    join()


def join():
    """Wait for the tool's thread, and then for the one that records what it gave."""
    for name in ("midstride send", "midstride read", "midstride late"):
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join(SECONDS)


class Letters(list):
    """Letters, sent when the gate opens; the driver leaves when the read behind them is to start."""

    def __init__(self, gate):
        self.gate = gate

    def agent(self, store):
        @tool
        def send(to: str) -> str:
            """Send a letter when the gate opens."""
            self.append(to)
            assert self.gate.wait(SECONDS)
            return f"sent to {to}"

        @tool.read_only
        def read() -> str:
            """Read."""
            return "text"

        return agent_of([[SEND, READ], "Done."], [send, read], store=store)

    def watch(self, error, first=lambda: None):
        def watch(event):
            if isinstance(event, Start) and event.call.name == "read":
                first()
                raise error

        return watch

    def left(self, drive, store, error=Killed, first=lambda: None):
        """Drive until the driver leaves by *error*, the letter being written still."""
        with pytest.raises(error if isinstance(error, type) else type(error)):
            drive(self.agent(store), watch=self.watch(error, first))


@pytest.fixture
def letters(gate):
    return Letters(gate)


def taken(store):
    return [entry.body for entry in store.read("run") if entry.body.kind == "taken"]


def settled(store):
    return [entry.body.content for entry in store.read("run") if entry.body.kind == "settled"]


# ---- whether the last driver ended in order


def test_a_crash_over_a_kept_lease_counts(drive, store, letters):
    letters.left(drive, store, Killed)
    letters.left(drive, store, RuntimeError("in order"))
    assert [one.clean for one in taken(store)] == [True, False]


def test_a_driver_that_ends_in_order_does_not_count_the_crash_before_it_again(drive, tmp_path, letters):
    store = SqliteStore(tmp_path / "runs")
    in_a_process_that_dies(lambda: drive(letters.agent(store), watch=at("responded", lambda: os._exit(9))))
    letters.left(drive, store, RuntimeError("in order"))
    for _ in range(5):
        with pytest.raises(RuntimeError):
            drive(letters.agent(store), watch=at("taken", end_in_order))
    assert [one.clean for one in taken(store)] == [True, False, *[True] * 5]
    letters.gate.set()
    assert drive(letters.agent(store)).status == "done"
    store.close()


def at(kind, act):
    def watch(event):
        if isinstance(event, Entry) and event.body.kind == kind:
            act()

    return watch


def end_in_order():
    raise RuntimeError("in order")


def in_a_process_that_dies(work):
    assert forked(work) == 9


# ---- the lease that is kept


@pytest.mark.parametrize("make", [SqliteStore, CheckpointStore])
def test_a_closed_store_keeps_the_lease_of_an_attempt_that_goes_on(drive, tmp_path, letters, make):
    store = make(tmp_path / "runs")
    letters.left(drive, store)
    store.close()
    with closing(make(tmp_path / "runs")) as other:
        assert other.holder("run").pid == os.getpid()
        letters.gate.set()
        join()
        assert (other.holder("run"), settled(other)) == (None, ["sent to ann"])
    store.close()


def test_a_look_at_a_run_takes_nothing_from_its_driver(drive, store, letters):
    letters.left(drive, store)
    runs = Runs(store)
    assert runs.status("run")[0] == "working"
    runs.close()
    assert store.holder("run").pid == os.getpid()
    letters.gate.set()
    join()
    assert settled(store) == ["sent to ann"]


def test_a_look_loses_no_result_that_ends_while_nobody_drives(drive, store, letters):
    """The look is a run that is opened and left at once, by a program that then finds the run about another task."""
    letters.left(drive, store)
    with pytest.raises(TaskDiffers):
        drive(letters.agent(store), task="another")
    letters.gate.set()
    join()
    assert (settled(store), store.holder("run")) == (["sent to ann"], None)


# ---- a result between two drivers


def test_a_result_that_its_driver_never_heard_is_saved_before_the_run_is_let_go(drive, store, letters):
    def let_it_end():
        letters.gate.set()
        for thread in threading.enumerate():
            if thread.name == "midstride send":
                thread.join(SECONDS)

    letters.left(drive, store, first=let_it_end)
    assert (settled(store), store.holder("run")) == (["sent to ann"], None)


class FailsOnce:
    """A store whose disk is full when an entry of one kind is first saved."""

    def __init__(self, inner, kind):
        self.inner, self.kind = inner, kind

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, run_id, entries, **more):
        if self.kind in [entry.body.kind for entry in entries]:
            self.kind = None
            raise StoreError("the disk is full")
        self.inner.append(run_id, entries, **more)


def test_a_result_that_could_not_be_saved_is_given_back_and_saved_when_the_driver_leaves(drive, store, letters):
    letters.gate.set()
    with pytest.raises(StoreError):
        drive(letters.agent(FailsOnce(store, "settled")))
    join()  # on a slow machine the letter is still being sent when the driver leaves
    assert "sent to ann" in settled(store)
    agent = letters.agent(store)
    drive(agent)
    assert (letters, results(agent)) == (["ann"], [("sent to ann", False), ("text", False)])


def test_a_late_result_is_recorded_though_the_last_driver_left_before_it_was_taken_up(drive, store, letters):
    """Its own token was never saved: the newest one of this process is the first driver's."""
    failing = FailsOnce(store, None)
    letters.left(drive, failing)
    failing.kind = "taken"
    with pytest.raises(StoreError):
        drive(letters.agent(failing))
    letters.gate.set()
    join()
    assert (settled(store), store.holder("run")) == (["sent to ann"], None)


class EndsInBetween:
    """A store with which the letter is sent between the new driver's two looks at the run."""

    def __init__(self, inner, letters):
        self.inner, self.letters, self.armed = inner, letters, False

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def read(self, run_id, after=0, limit=None):
        entries = self.inner.read(run_id, after, limit)
        if after and self.armed:
            self.armed = False
            self.letters.gate.set()
            join()
        return entries


def test_a_result_that_comes_while_the_next_driver_takes_the_run_up_is_its_own(drive, store, letters):
    between = EndsInBetween(store, letters)
    letters.left(drive, between)
    between.armed = True
    agent = letters.agent(between)
    drive(agent)
    assert (letters, results(agent)) == (["ann"], [("sent to ann", False), ("text", False)])
    assert (kinds(store).count("decided"), store.holder("run")) == (0, None)


def test_a_late_result_of_a_call_that_is_settled_leaves_nothing_behind(drive, store, gate):
    @tool.read_only(timeout=0.02)
    def read() -> str:
        """Read, slowly."""
        assert gate.wait(SECONDS)
        return "text"

    agent = agent_of([[READ], "Done."], [read], store=store)
    drive(agent)
    run = Run(store, "run", "go", tools=[read])
    with run:
        attempts = run._shell.attempts
        assert attempts.alive == {(1, 0)}
    gate.set()
    join()
    assert attempts.idle


def test_who_waits_hears_of_a_result_that_could_not_be_recorded():
    """It was taken out to be recorded when the next driver began to wait; put back, it must wake that one."""
    attempts, gate, entered, waits = Attempts(), threading.Event(), threading.Event(), threading.Event()
    sent = Ended((1, 0), "returned", "sent")

    async def hears():
        loop = asyncio.get_running_loop()

        def late(ended):
            entered.set()
            assert waits.wait(SECONDS)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(SECONDS)  # by then it waits
            return False

        attempts.late = late
        gate.set()
        assert await asyncio.to_thread(entered.wait, SECONDS)
        assert attempts.drain() == ()
        waits.set()
        async with asyncio.timeout(SECONDS):
            await attempts.wait_async(None)
        return attempts.drain()

    attempts.start_thread((1, 0), lambda: gate.wait(SECONDS) and sent, None, "send")
    assert asyncio.run(hears()) == (sent,)


# ---- a driver that is ended in the middle


def test_a_thread_that_cannot_be_made_leaves_no_attempt(monkeypatch):
    def none_left(thread):
        raise RuntimeError("can't start new thread")

    attempts = Attempts()
    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(RuntimeError, match="new thread"):
        attempts.start_thread((1, 0), lambda: Ended((1, 0), "returned", "x"), None, "send", effect=True)
    assert attempts.idle


def test_what_is_done_in_a_thread_is_waited_for_however_often_its_task_is_cancelled():
    gate = threading.Event()

    async def go():
        task = asyncio.create_task(in_thread(gate.wait, SECONDS))
        for _ in range(5):
            await asyncio.sleep(0)
            task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())


def test_an_asynchronous_step_that_was_ended_by_a_crash_is_not_done_again():

    sent = []

    @tool
    def send(to: str) -> str:
        """Send, and crash."""
        sent.append(to)
        raise Killed

    async def go():
        async with AsyncRun(MemoryStore(), "run", "go", tools=[send]) as run:
            turn = await anext(run)
            await turn.respond(uses(SEND))
            with pytest.raises(Killed):
                await anext(run)
            with pytest.raises(NotAllowed, match="ended in the middle of a step"):
                await anext(run)

    asyncio.run(go())
    assert sent == ["ann"]


def test_a_driver_that_is_cancelled_again_while_it_closes_gives_the_run_back(store):
    begun, closing_down = threading.Event(), []

    async def go():
        free = asyncio.Event()

        @tool
        async def send(to: str) -> str:
            """Send, and do not stop half way."""
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                closing_down.append("asked")
                await free.wait()
            return f"sent to {to}"

        agent = agent_of([[SEND], "Done."], [send], store=store)
        task = asyncio.create_task(agent.run_async("go", "run"))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        task.cancel()
        while not closing_down:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert store.holder("run").pid == os.getpid()  # the letter is still being written
        free.set()
        while any(other is not asyncio.current_task() for other in asyncio.all_tasks()):
            await asyncio.sleep(0)

    asyncio.run(go())
    join()
    assert (settled(store), store.holder("run")) == (["sent to ann"], None)


# ---- what stays of a run that is over here


def is_let_go(gone):
    """Tell whether nobody has it any more, once the thread that worked for it last has let go of its work."""
    until = time.monotonic() + SECONDS
    while gone() is not None and time.monotonic() < until:
        gc.collect()
        os.sched_yield()
    return gone() is None


def test_a_run_that_is_over_stays_in_no_table(drive, gate):
    store = MemoryStore()
    gone = weakref.ref(store)
    drive(agent_of(["Done."], store=store))
    del store
    assert is_let_go(gone)


def test_a_run_whose_last_result_came_late_stays_in_no_table_either(drive, gate):
    store, letters = MemoryStore(), Letters(gate)
    gone = weakref.ref(store)
    letters.left(drive, store)
    gate.set()
    join()
    assert settled(store) == ["sent to ann"]
    del store
    assert is_let_go(gone)
