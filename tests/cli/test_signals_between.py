"""A signal in the last moment of a drive or of a wait: it ends the command all the same."""

import os
import signal

import pytest

from midstride import Accepted, Agent, Context, Pending, models, tool
from midstride.cli import driving
from midstride.drive import Clock, Runs
from midstride.errors import Interrupted
from midstride.stores import SqliteStore
from midstride.testing.conformance import process

FAR = 86_400.0


@tool
def render(film: str, context: Context) -> Accepted:
    """Hand a film over."""
    return context.accepted({"job": 7})


@render.poll
def how_it_stands(handle) -> Pending:
    """Say that it takes a day more."""
    return Pending(after=FAR)


class LastMoment(SqliteStore):
    """A store that calls *appended* behind each append, and *looking* before each look at what is new."""

    def __init__(self, path, *, appended=lambda entries: None, looking=lambda: None):
        super().__init__(path)
        self.appended, self.looking = appended, looking

    def append(self, run_id, entries, **more):
        super().append(run_id, entries, **more)
        self.appended(entries)

    def read(self, run_id, after=0, limit=None):
        if after:
            self.looking()
        return super().read(run_id, after, limit)


def agent(store):
    return Agent(models.Scripted([[("render", {"film": "Alps"})], "Rendered."]), [render], store=store)


def interrupted(store, order):
    with pytest.raises(Interrupted, match="the other side goes on; ask again with: midstride resume r"):
        driving.drive_and_wait(agent(store), store, order)
    assert Runs(store).status("r")[0] == "waiting"


@pytest.fixture
def in_order(tmp_path):
    """Do something in a process of its own, to its end: one that a signal kills says nothing."""

    def do(work):
        with process(lambda: (work(), (tmp_path / "ended").touch())):
            assert (tmp_path / "ended").exists()

    return do


ORDER = driving.Order("r", "Render.")
SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_last_of_a_drive_is_saved_ends_what_would_wait(tmp_path, in_order, number):
    def appended(entries):
        if any(getattr(entry.body, "again_at", None) is not None for entry in entries):
            os.kill(os.getpid(), number)

    in_order(lambda: interrupted(LastMoment(tmp_path / "runs", appended=appended), ORDER))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_wait_finds_news_ends_it(tmp_path, in_order, number):
    def looking():
        Runs(SqliteStore(tmp_path / "runs")).say("r", "soon?")
        os.kill(os.getpid(), number)

    def waited():
        store = SqliteStore(tmp_path / "runs")
        rested = driving.drive(agent(store), store, ORDER)
        last_moment = LastMoment(tmp_path / "runs", looking=looking)
        assert not driving._waited(last_moment, rested, Clock().now() + FAR, Clock())

    in_order(waited)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_by_whoever_reads_that_it_waits_ends_the_wait(tmp_path, in_order, monkeypatch, number):
    monkeypatch.setattr(driving, "_tell_waiting", lambda result: os.kill(os.getpid(), number))
    in_order(lambda: interrupted(SqliteStore(tmp_path / "runs"), ORDER))
