"""A lease that is lost unseen: code in this process closed the lock file, and another process has taken the run up."""

import os
import threading
from contextlib import ExitStack, closing

import pytest

from drive.scenes import agent_of, kinds, press_ctrl_c_behind
from midstride import tool
from midstride.core.journal import Entry, Taken, head_of, seal
from midstride.errors import Fenced
from midstride.stores import SqliteStore
from midstride.testing.conformance import process
from patience import SECONDS

SEND = [("send", {"to": "ann"})]


class Place:
    """A store, and another process that takes its run from this one."""

    def __init__(self, folder):
        self.path = folder / "runs.db"
        self.store = SqliteStore(self.path)
        self.others = ExitStack()

    def lose(self):
        """Let another process have the run, and live on."""
        self.path.with_name("runs.db.lock").read_bytes()  # closing any descriptor drops a process's record locks
        self.others.enter_context(process(self._take_up))

    def _take_up(self):
        other = SqliteStore(self.path)
        other.lease("run")
        head = head_of(other.read("run"))
        other.append("run", seal([Taken(2, "host", os.getpid(), clean=False)], head, 0.0), token=2)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    with closing(place.store), place.others:
        yield place


def test_a_tool_is_not_started_by_an_intent_of_a_lease_that_is_lost(drive, place):
    sent = []

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    def lose(event):
        if isinstance(event, Entry) and event.body.kind == "intended":
            place.lose()

    with pytest.raises(Fenced):
        drive(agent_of([SEND, "Done."], [send], store=place.store), watch=lose)
    assert (sent, kinds(place.store)[-2:]) == ([], ["intended", "taken"])


def test_the_late_result_of_a_former_driver_is_not_written_into_the_run_of_another(place, monkeypatch):
    begun, gate = threading.Event(), threading.Event()
    press_ctrl_c_behind(begun, monkeypatch)

    @tool
    def send(to: str) -> str:
        """End when the gate opens, the driver being interrupted."""
        begun.set()
        assert gate.wait(SECONDS)
        return "sent"

    with pytest.raises(KeyboardInterrupt):
        agent_of([SEND, "Done."], [send], store=place.store).run("go", "run")
    place.lose()
    gate.set()
    for name in ("midstride send", "midstride late"):
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join(SECONDS)
    assert kinds(place.store)[-1] == "taken"
