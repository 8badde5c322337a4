"""A driver that is interrupted leaves its process alive, and perhaps a tool in a thread of it."""

import _thread
import os
import threading

import pytest

from midstride import Agent, models, tool
from midstride.core.steps import Lost
from midstride.errors import ModelUnavailable
from midstride.stores import CheckpointStore, SqliteStore
from midstride.testing import SettableClock
from patience import SECONDS


@pytest.fixture(params=[SqliteStore, CheckpointStore])
def store(request, tmp_path):
    store = request.param(tmp_path / "runs")
    yield store
    store.close()


@pytest.fixture
def letters():
    return []


@pytest.fixture
def gate():
    return threading.Event()


@pytest.fixture
def agent(store, letters, gate):
    @tool
    def send(to: str) -> str:
        """Send, and be interrupted in it."""
        _thread.interrupt_main()
        gate.wait(SECONDS)
        letters.append(to)
        return "sent"

    return Agent(models.Scripted([[("send", {"to": "ann"})], "Done."]), [send], store=store)


def interrupted(agent):
    with pytest.raises(KeyboardInterrupt):
        agent.run("go", "run")


def end_threads():
    for name in ("midstride send", "midstride late"):
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join(SECONDS)


def test_a_run_is_given_up_while_its_tool_still_goes_on(agent, store, gate):
    interrupted(agent)
    assert store.holder("run").pid == os.getpid()
    gate.set()
    end_threads()
    assert store.holder("run") is None


def test_a_result_that_comes_when_nobody_drives_is_lost(agent, store, gate, letters):
    interrupted(agent)
    gate.set()
    end_threads()
    last = store.read("run")[-1].body
    assert (last.kind, last.outcome, last.content) == ("settled", "ok", "sent")
    assert (agent.run("go", "run").answer, letters) == ("Done.", ["ann"])


def test_the_next_driver_in_the_process_repeats_what_still_goes_on(agent, gate, letters):
    interrupted(agent)
    result = agent.run("go", "run", watch=lambda event: gate.set())  # the first event: the run is taken up
    assert (result.answer, letters) == ("Done.", ["ann"])


def test_an_outage_counts_as_a_crash(store):
    down = Agent(models.Scripted(lambda request, number: Lost("overloaded")), store=store, clock=SettableClock())
    for _ in range(6):
        with pytest.raises(ModelUnavailable):
            down.run("go", "run")
    up = Agent(models.Scripted(["Done."]), store=store)
    assert up.run("go", "run").status == "done"


def test_closing_the_store_gives_up_a_run_whose_tool_still_goes_on(agent, store, tmp_path, gate):
    interrupted(agent)
    store.close()
    other = type(store)(tmp_path / "runs")
    assert other.holder("run").pid == os.getpid()
    gate.set()
    end_threads()
    other.close()
