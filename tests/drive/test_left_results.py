"""A result that the driver could not save, or had not even heard of, when it ended."""

import os
import threading
from contextlib import closing

import pytest

from drive.scenes import Killed, agent_of, kinds, results
from midstride import tool
from midstride.core.steps import Start
from midstride.errors import StoreError
from midstride.stores import SqliteStore
from patience import SECONDS

SEND = ("send", {"to": "ann"})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(path):
    with closing(SqliteStore(path)) as store:
        yield store


def test_a_result_that_could_not_be_saved_is_not_forgotten_by_the_next_driver_here(drive, store, path):
    aside, sent = path.with_name("aside"), []

    @tool
    def send(to: str) -> str:
        """Send a letter, while somebody takes the database away."""
        sent.append(to)
        os.rename(path, aside)
        return "sent"

    agent = agent_of([[SEND], "Done."], [send], store=store)
    with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
        drive(agent)
    os.rename(aside, path)
    drive(agent)
    assert (results(agent), sent) == ([("sent", False)], ["ann"])


def test_a_result_that_its_driver_has_not_heard_of_is_recorded_before_the_run_is_let_go(drive, store):
    gate = threading.Event()

    @tool
    def send(to: str) -> str:
        """Send a letter when the gate opens."""
        assert gate.wait(SECONDS)
        return "sent"

    @tool.read_only
    def look() -> str:
        """Look."""
        return "seen"

    def end_it_and_die(event):
        if isinstance(event, Start) and event.call.name == "look":
            gate.set()
            for thread in threading.enumerate():
                if thread.name == "midstride send":
                    thread.join(SECONDS)
            raise Killed

    with pytest.raises(Killed):
        drive(agent_of([[SEND, ("look", {})], "Done."], [send, look], store=store), watch=end_it_and_die)
    assert kinds(store)[-2:] == ["intended", "settled"]
