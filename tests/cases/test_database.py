"""A database that does not answer, that others write in, or whose rows have a clock."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import pytest

from cases.stage import Killed
from midstride import DidNotHappen, Happened, tool
from midstride.core.journal import broken_link
from midstride.errors import StoreError
from midstride.stores import database
from midstride.testing import Answer, calls

SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


class LosesAnswers:
    """A store whose connection breaks at the *at*-th append: "sent" when the commit had been done, else before it."""

    def __init__(self, inner, at, sent):
        self.inner, self.at, self.sent, self.appends = inner, at, sent, 0
        self.url, self.transactional = inner.url, inner.transactional

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, run_id, entries, **more):
        self.appends += 1
        if self.appends == self.at and not self.sent:
            raise StoreError("the connection was lost before the commit")
        self.inner.append(run_id, entries, **more)
        if self.appends == self.at:
            raise StoreError("the connection was reset while the commit was under way")


def mail(sent):
    @tool
    def send_mail(to: str) -> str:
        sent.append(to)
        return f"queued {to}"

    return send_mail


IN_DOUBT = {
    (3, True): (["Outcome unknown", "Not started"], []),
    (4, True): (["queued ann", "Outcome unknown"], ["ann"]),
}
"""Where an intent was committed and its tool not begun: nobody can know that, so nothing runs behind it."""


@pytest.mark.parametrize("sent", [True, False], ids=["committed", "not committed"])
@pytest.mark.parametrize("at", range(1, 6))
def test_case_234_connection_lost_in_commit(at, sent, stage):
    """Whether a commit was done nobody heard: the numbers of the entries tell, and none is there twice or lost."""
    mailed = []
    stage.says(calls(("send_mail", {"to": "ann"}), ("send_mail", {"to": "bob"})), Answer("Done."))
    real = stage.store
    stage.store = LosesAnswers(real, at, sent)
    with pytest.raises(StoreError, match="the connection was"):
        stage.run(mail(mailed))
    stage.store = real
    assert stage.run(mail(mailed)).status == "done"
    told = [content.split(":")[0] for content, _ in stage.results]
    assert (told, mailed) == IN_DOUBT.get((at, sent), (["queued ann", "queued bob"], ["ann", "bob"]))
    found = real.read("run")
    assert ([entry.seq for entry in found], broken_link(found)) == (list(range(1, len(found) + 1)), None)
    assert stage.kinds().count("settled") == 2


@SQLITE
@pytest.mark.parametrize("for_good", [False, True], ids=["for a moment", "for good"])
def test_case_235_database_locked(for_good, stage, folder, monkeypatch):
    """Somebody else writes when the outcome is to be saved: it is waited for, and no second mail is sent."""
    mailed = []
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1 if for_good else 30.0)
    with closing(sqlite3.connect(folder / "runs.db", isolation_level=None, check_same_thread=False)) as other:

        @tool
        def send_mail(to: str) -> str:
            mailed.append(to)
            if len(mailed) == 1:
                other.execute("begin immediate")
                if not for_good:
                    threading.Timer(0.3, other.execute, ["rollback"]).start()
            return "queued"

        stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
        if for_good:
            with pytest.raises(StoreError, match="is locked by another connection"):
                stage.run(send_mail)
            other.execute("rollback")
        assert stage.run(send_mail).status == "done"
    assert (mailed, stage.results) == (["ann"], [("queued", False)])


@pytest.mark.parametrize("seconds", [2, 86_400])
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_case_237_clock_goes_back(seconds, killed, stage):
    """The clock was set back between a call and its result: what comes first is told by numbers and never by times."""
    done = []

    @tool.verifiable(timeout=30, settle=1)
    def send_mail(to: str) -> str:
        done.append(to)
        stage.clock.at -= seconds
        if killed and len(done) == 1:
            raise Killed
        return f"queued {to}"

    @send_mail.verify
    def find_mail(to: str) -> Happened | DidNotHappen:
        return Happened(f"queued {to}") if to in done else DidNotHappen("not there")

    stage.says(calls(("send_mail", {"to": "ann"})), calls(("send_mail", {"to": "bob"})), Answer("Done."))
    if killed:
        stage.killed(send_mail)
    assert stage.run(send_mail).status == "done"
    assert (done, stage.results) == (["ann", "bob"], [("queued ann", False), ("queued bob", False)])
    found = stage.store.read("run")
    times = [entry.at for entry in found]
    assert times != sorted(times)
    assert [entry.seq for entry in found] == list(range(1, len(found) + 1))
    kinds = [kind for kind in stage.kinds() if kind in ("intended", "settled")]
    assert kinds == ["intended", "settled"] * 2
