"""Programs that follow one another in a run and differ in a tool's effect: the one that an attempt went by counts."""

import os
import threading
from contextlib import closing

import pytest

from drive.scenes import Killed, agent_of, press_ctrl_c_behind, results
from midstride import Context, Runs, tool
from midstride.core.journal import Intended
from midstride.stores import MemoryStore, SqliteStore
from patience import SECONDS

SEND = [("send", {"to": "ann"})]
MILDER = {
    "transactional": tool.transactional,
    "idempotent": tool.idempotent(key_life=60),
}


class Mailbox:
    """Letters, sent by a tool whose process dies behind each of them, so often."""

    def __init__(self, deaths):
        self.letters, self.deaths = [], deaths

    def tool(self, declare):
        @declare
        def send(to: str, context: Context) -> str:
            """Send a letter."""
            self.letters.append(to)
            if len(self.letters) <= self.deaths:
                raise Killed
            return f"sent to {to}"

        return send


def dies(agent, drive, **more):
    with pytest.raises(Killed):
        drive(agent, **more)


def killed_behind_the_answer(event):
    if getattr(getattr(event, "body", None), "kind", "") == "responded":
        raise Killed


@pytest.fixture
def database(tmp_path):
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        yield store


@pytest.mark.parametrize("milder", ["transactional", "idempotent"])
def test_a_tool_that_was_stricter_for_one_process_is_not_repeated_by_the_next(drive, database, milder):
    """Recorded as milder, begun as unsafe, and milder again: what the unsafe attempt left nobody can know."""
    box = Mailbox(deaths=1)
    as_recorded = agent_of([SEND, "Done."], [box.tool(MILDER[milder])], store=database)
    as_unsafe = agent_of([SEND, "Done."], [box.tool(tool)], store=database)
    dies(as_recorded, drive, watch=killed_behind_the_answer)
    dies(as_unsafe, drive)
    assert drive(as_recorded).status == "done"
    ((told, is_error),) = results(as_recorded)
    assert (box.letters, told.partition(":")[0], is_error) == (["ann"], "Outcome unknown", True)
    assert [e.body.effect for e in database.read("run") if isinstance(e.body, Intended)] == ["unsafe"]


def test_a_cancelled_call_that_was_begun_as_unsafe_is_not_told_as_not_started(drive, database):
    box = Mailbox(deaths=1)
    as_recorded = agent_of([SEND, "Done."], [box.tool(tool.transactional)], store=database)
    dies(as_recorded, drive, watch=killed_behind_the_answer)
    dies(agent_of([SEND, "Done."], [box.tool(tool)], store=database), drive)
    Runs(database).cancel("run")
    assert drive(as_recorded).status == "cancelled"
    (settled,) = (e.body for e in database.read("run") if e.body.kind == "settled")
    assert settled.content.startswith("Outcome unknown: send(")


def test_an_attempt_by_the_recorded_effect_says_no_more_than_before(drive, database):
    box = Mailbox(deaths=1)
    agent = agent_of([SEND, "Done."], [box.tool(tool.idempotent(key_life=60))], store=database)
    dies(agent, drive)
    drive(agent)
    assert [e.body.effect for e in database.read("run") if isinstance(e.body, Intended)] == [None, None]
    assert results(agent) == [("sent to ann", False)]


def test_a_call_recorded_as_unsafe_keeps_its_run_held_though_the_program_says_it_reads(tmp_path, monkeypatch):
    """The effect that counts is the call's: while the attempt goes on the run stays held, or another would judge it."""
    begun, gate = threading.Event(), threading.Event()
    press_ctrl_c_behind(begun, monkeypatch)

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        raise Killed

    @tool.read_only(name="send")
    def slow(to: str) -> str:
        """Go on while the driver is interrupted."""
        begun.set()
        assert gate.wait(SECONDS)
        return f"sent to {to}"

    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        with pytest.raises(Killed):
            agent_of([SEND, "Done."], [send], store=store).run("go", "run", watch=killed_behind_the_answer)
        with pytest.raises(KeyboardInterrupt):
            agent_of([SEND, "Done."], [slow], store=store).run("go", "run")
        assert store.holder("run").pid == os.getpid()
        gate.set()
        assert agent_of([SEND, "Done."], [slow], store=store).run("go", "run").answer == "Done."


def test_a_business_key_does_not_trust_the_verify_of_a_deed_that_was_begun_as_unsafe(drive):
    """A look tells about an attempt of a verifiable tool, and nothing of one that went by another effect."""
    store, looked = MemoryStore(), []

    def sender(declare, *, dead):
        @declare
        def send(to: str) -> str:
            """Send a letter."""
            if dead:
                raise Killed
            return f"sent to {to}"

        return send

    def verifiable():
        send = sender(tool.verifiable(timeout=30, key=lambda to: to), dead=False)
        send.verify(lambda: looked.append("looked"))
        return send

    def agent(one):
        return agent_of([SEND, SEND, "Done."], [one], store=store)

    with pytest.raises(Killed):
        drive(agent(verifiable()), watch=killed_behind_the_answer)
    with pytest.raises(Killed):
        drive(agent(sender(tool(key=lambda to: to), dead=True)))
    last = agent(verifiable())
    assert drive(last).answer == "Done."
    assert looked == []
    assert [told.partition(":")[0] for told, _ in results(last)] == ["Outcome unknown", "Not started"]
