"""Attempts that take too long, end late, or are still running when their driver has gone."""

import asyncio
import threading

import pytest

from drive.scenes import Killed, agent_of, kinds, results
from midstride import Runs, tool
from midstride.core.journal import Decided, Entry
from midstride.core.steps import Start
from midstride.drive import Draft
from midstride.stores import MemoryStore, SqliteStore
from patience import SECONDS
from standing import Standing

SOON = 0.02
"""Seconds until a tool has run out of time; attempts are timed by the real clock."""


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request, tmp_path):
    store = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "runs.db")
    yield store
    store.close()


@pytest.fixture
def gate():
    """What a slow tool waits for; opened at the end, so that no thread outlives its test."""
    gate = threading.Event()
    yield gate
    gate.set()
    join("send", "late")


def join(*names):
    """Wait for the threads of these names to end, one name after the other: the first may start the second."""
    for name in names:
        for thread in threading.enumerate():
            if thread.name == f"midstride {name}":
                thread.join(SECONDS)


def slow_tool(gate, **terms):
    @tool(timeout=SOON, **terms)
    def send(to: str) -> str:
        """Send a letter, slowly."""
        assert gate.wait(SECONDS)
        return f"sent to {to}"

    return send


SEND = [("send", {"to": "ann"})]


# ---- a tool that runs out of time


def test_a_tool_in_a_thread_that_runs_out_of_time_is_still_alive_and_its_outcome_unknown(drive, store, gate):
    agent = agent_of([SEND, "Done."], [slow_tool(gate)], store=store)
    drive(agent)
    ((content, is_error),) = results(agent)
    assert content.startswith('Outcome unknown: send({"to": "ann"}) may or may not have taken effect')
    assert "It did not end within 0.02 s. It is still running." in content
    assert is_error


def test_a_live_attempt_is_neither_repeated_nor_looked_up(drive, store, gate, monkeypatch):
    started, ran = [], []
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(lambda: len(ran) >= len(started)))

    def watch(event):
        if isinstance(event, Start):
            started.append(event)

    def act(to: str) -> str:
        """Send a letter, slowly."""
        ran.append(to)
        assert gate.wait(SECONDS)
        return "sent"

    def find():
        ran.append("looked")

    again = tool.idempotent(name="again", key_life=60, timeout=SOON)(act)
    looked = tool.verifiable(name="looked", timeout=SOON)(act)
    looked.verify(find)
    agent = agent_of([[("again", {"to": "ann"})], [("looked", {"to": "bob"})], "Done."], [again, looked], store=store)
    drive(agent, watch=watch)
    told = [content for content, _ in results(agent)]
    assert ran == ["ann", "bob"]
    assert ["It is still running." in content for content in told] == [True, True]
    gate.set()
    join("again", "looked", "late")


def test_a_deed_that_is_still_running_is_not_begun_again(drive, store, gate):
    agent = agent_of([SEND, SEND, "Done."], [slow_tool(gate, key=lambda to: to)], store=store)
    drive(agent)
    assert "and it is still running. It was not begun a second time." in results(agent)[1][0]


def test_a_read_that_runs_out_of_time_has_definitely_failed(drive, store, gate):
    @tool.read_only(timeout=SOON)
    def send() -> str:
        """Read, slowly."""
        assert gate.wait(SECONDS)
        return "text"

    agent = agent_of([[("send", {})], "Done."], [send], store=store)
    drive(agent)
    assert results(agent) == [("Failed: It did not end within 0.02 s. It is still running.", True)]


def test_a_coroutine_tool_that_runs_out_of_time_is_cancelled(store, monkeypatch):
    begun, ended = threading.Event(), []
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(begun.is_set))

    @tool(timeout=SOON)
    async def send() -> str:
        """Send, slowly."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "sent"

    agent = agent_of([[("send", {})], "Done."], [send], store=store)
    asyncio.run(agent.run_async("go", "run"))
    ((content, is_error),) = results(agent)
    assert (ended, is_error) == (["cancelled"], True)
    assert "It did not end within 0.02 s. Nothing tells whether it took effect." in content


def test_a_coroutine_tool_that_finishes_while_it_is_cancelled_has_its_real_result(store, monkeypatch):
    begun = threading.Event()
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(begun.is_set))

    @tool(timeout=SOON)
    async def send() -> str:
        """Send, and do not stop half way."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "sent all the same"
        return "sent"

    agent = agent_of([[("send", {})], "Done."], [send], store=store)
    asyncio.run(agent.run_async("go", "run"))
    assert results(agent) == [("sent all the same", False)]


def test_other_calls_go_on_beside_one_that_hangs(drive, store, gate):
    @tool.read_only
    def read() -> str:
        """Read."""
        return "text"

    agent = agent_of([[*SEND, ("read", {})], "Done."], [slow_tool(gate), read], store=store)
    drive(agent)
    assert [is_error for _, is_error in results(agent)] == [True, False]


# ---- a result that comes late


def test_a_late_result_is_recorded_as_the_tools_word_and_told_with_the_next_request(drive, store, gate):
    def script(request, number):
        if number == 1:
            gate.set()
            join("send")
        return [SEND, [("read", {})], "Done."][number]

    @tool.read_only
    def read() -> str:
        """Read."""
        return "text"

    agent = agent_of(script, [slow_tool(gate), read], store=store)
    assert drive(agent).doubts == ()
    told = agent.model.requests[2]["messages"]
    assert told[:3] == agent.model.requests[1]["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "user", "assistant", "user", "user"]
    assert told[-1]["content"].startswith('About the earlier call send({"to": "ann"}) with id toolu_1_0')
    assert told[-1]["content"].endswith("Its result: sent to ann")
    assert [e.body.by for e in store.read("run") if isinstance(e.body, Decided)] == ["tool"]


def test_a_result_that_comes_when_nobody_drives_is_recorded_all_the_same(drive, store, gate):
    agent = agent_of([SEND, "Done."], [slow_tool(gate)], store=store)
    assert [call.id for call in drive(agent).doubts] == ["toolu_1_0"]
    gate.set()
    join("send", "late")
    assert kinds(store)[-1] == "decided"
    assert Runs(store).doubts("run") == []
    assert drive(agent).status == "done"
    Runs(store).say("run", "Well?")
    told = agent_of([SEND, "Done.", "Yes."], [slow_tool(gate)], store=store)
    assert drive(told).answer == "Yes."
    assert [message["content"][:5] for message in told.model.requests[0]["messages"][-2:]] == ["About", "Well?"]


def test_a_late_result_finds_a_store_that_its_agent_has_closed(drive, tmp_path, gate):
    url = f"sqlite:{tmp_path}/runs.db"
    drive(agent_of([SEND, "Done."], [slow_tool(gate)], store=url))
    gate.set()
    join("send", "late")
    runs = Runs(url)
    assert runs.doubts("run") == []
    runs.close()


def test_a_person_who_was_quicker_than_the_tool_is_not_contradicted(drive, store, gate):
    agent = agent_of([SEND, "Done."], [slow_tool(gate)], store=store)
    drive(agent)
    Runs(store).decide("run", "toolu_1_0", "happened", "She has it.")
    gate.set()
    join("send", "late")
    words = [e.body.by for e in store.read("run") if isinstance(e.body, Decided)]
    assert words[0] == "a person"
    assert drive(agent).status == "done"


# ---- a driver that is gone while its tools go on


def test_a_tool_that_outlives_its_driver_is_waited_for_and_not_run_again(drive, store, gate):
    ran = []

    @tool
    def send(to: str) -> str:
        """Send a letter when the gate opens."""
        ran.append(to)
        assert gate.wait(SECONDS)
        return f"sent to {to}"

    @tool.read_only
    def crash() -> str:
        """Crash the driver, once."""
        if not crashed:
            crashed.append(True)
            raise Killed
        return "read"

    def open_the_gate(event):
        if isinstance(event, Entry) and event.body.kind == "taken":
            gate.set()

    crashed = []
    agent = agent_of([[*SEND, ("crash", {})], "Done."], [send, crash], store=store)
    with pytest.raises(Killed):
        drive(agent)
    drive(agent, watch=open_the_gate)
    assert (results(agent), ran) == ([("sent to ann", False), ("read", False)], ["ann"])


def test_a_result_that_came_between_two_drivers_is_not_lost(drive, store, gate):
    @tool
    def send(to: str) -> str:
        """Send a letter when the gate opens."""
        assert gate.wait(SECONDS)
        return f"sent to {to}"

    @tool.read_only
    def crash() -> str:
        """Crash the driver, once."""
        if not crashed:
            crashed.append(True)
            raise Killed
        return "read"

    crashed = []
    agent = agent_of([[*SEND, ("crash", {})], "Done."], [send, crash], store=store)
    with pytest.raises(Killed):
        drive(agent)
    gate.set()
    join("send", "late")
    drive(agent)
    assert results(agent) == [("sent to ann", False), ("read", False)]


# ---- cancellation of the asynchronous driver


async def cancelled_when(begun, agent, *, before_waiting=lambda: None, times=1):
    """Start the agent, wait for *begun* (an event of threads), and cancel it."""
    task = asyncio.create_task(agent.run_async("go", "run"))
    await asyncio.to_thread(begun.wait, SECONDS)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    before_waiting()
    with pytest.raises(asyncio.CancelledError):
        await task


class SlowToSave(MemoryStore):
    """A store whose save of one kind of entry waits until it is told."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.begun, self.go_on, self.ended = kind, threading.Event(), threading.Event(), threading.Event()

    def append(self, run_id, entries, **more):
        if any(entry.body.kind == self.kind for entry in entries):
            self.begun.set()
            assert self.go_on.wait(SECONDS)
        super().append(run_id, entries, **more)
        if self.begun.is_set():
            self.ended.set()


@pytest.mark.parametrize("kind", ["started", "responded", "intended", "settled"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_save_that_is_cancelled_is_done_wholly(kind, times):
    ran = []

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        ran.append(to)
        return f"sent to {to}"

    store = SlowToSave(kind)
    agent = agent_of([SEND, "Done."], [send], store=store)
    asyncio.run(cancelled_when(store.begun, agent, before_waiting=store.go_on.set, times=times))
    assert store.ended.wait(SECONDS)
    assert kind in kinds(store)
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert len(ran) == (0 if kind == "intended" else 1)
    assert len(results(agent)) == 1


def test_a_tool_in_a_thread_goes_on_when_its_driver_is_cancelled_and_is_waited_for(store, gate):
    begun, ran = threading.Event(), []

    @tool
    def send(to: str) -> str:
        """Send a letter when the gate opens."""
        ran.append(to)
        begun.set()
        assert gate.wait(SECONDS)
        return f"sent to {to}"

    agent = agent_of([SEND, "Done."], [send], store=store)
    asyncio.run(cancelled_when(begun, agent))
    gate.set()
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert (results(agent), ran) == ([("sent to ann", False)], ["ann"])


def test_a_coroutine_tool_is_cancelled_with_its_driver_and_its_outcome_unknown(store):
    begun = threading.Event()

    @tool
    async def send(to: str) -> str:
        """Send a letter, slowly."""
        begun.set()
        await asyncio.Event().wait()
        return "sent"

    agent = agent_of([SEND, "Done."], [send], store=store)
    asyncio.run(cancelled_when(begun, agent))
    assert kinds(store)[-1] == "intended"
    asyncio.run(agent.run_async("go", "run"))
    ((content, is_error),) = results(agent)
    assert content.startswith("Outcome unknown: ")
    assert is_error


def test_a_coroutine_read_that_was_cancelled_with_its_driver_is_read_again(store):
    begun, reads = threading.Event(), []

    @tool.read_only
    async def send(to: str) -> str:
        """Read, slowly the first time."""
        reads.append(to)
        if len(reads) == 1:
            begun.set()
            await asyncio.Event().wait()
        return "text"

    agent = agent_of([SEND, "Done."], [send], store=store)
    asyncio.run(cancelled_when(begun, agent))
    asyncio.run(agent.run_async("go", "run"))
    assert results(agent) == [("text", False)]


def test_a_run_that_is_cancelled_while_the_model_speaks_asks_again(store):
    begun = threading.Event()

    class Silent:
        api, params, facts, takes_prefill, server_tools = "anthropic", {}, {}, False, ()

        async def ask_async(self, request, draft, handle=None):
            draft("an event")
            begun.set()
            await asyncio.Event().wait()

    heard = []
    agent = agent_of(["Done."], store=store)
    silent = type(agent)(Silent(), store=store)

    async def go():
        task = asyncio.create_task(silent.run_async("go", "run", watch=heard.append))
        await asyncio.to_thread(begun.wait, SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert Draft("an event") in heard
    assert asyncio.run(agent.run_async("go", "run")).turns == 2
