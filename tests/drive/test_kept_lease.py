"""A driver that is interrupted leaves its process alive, and perhaps a tool in a thread of it."""

import itertools
import os
import sys
import threading

import pytest

from drive.scenes import press_ctrl_c_behind
from midstride import Agent, models, tool
from midstride.core.steps import Lost
from midstride.drive.attempts import Attempts
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
def agent(store, letters, gate, monkeypatch):
    begun = threading.Event()
    press_ctrl_c_behind(begun, monkeypatch)

    @tool
    def send(to: str) -> str:
        """Send, and let the driver be interrupted meanwhile."""
        begun.set()
        assert gate.wait(SECONDS)
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


# ---- Ctrl-C at any moment


def interrupted_at(moment, act):
    """Do *act*, and raise KeyboardInterrupt at that *moment* in the threading module; tell whether there is one."""
    moments = itertools.count()

    def trace(frame, event, arg):
        if frame.f_code.co_filename == threading.__file__ and next(moments) == moment:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except (KeyboardInterrupt, RuntimeError):  # in the middle of a wait, the lock is not there to be let go
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_at_any_moment_of_a_wait_keeps_no_tool_from_ending():
    for moment in itertools.count():
        attempts = Attempts()
        if not interrupted_at(moment, lambda one=attempts: one.wait(0)):
            break
        tool = threading.Thread(target=attempts.drain, daemon=True)
        tool.start()
        tool.join(SECONDS)
        assert not tool.is_alive()
    assert moment > 10
