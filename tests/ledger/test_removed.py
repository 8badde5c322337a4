"""Calls whose record was removed: the same id, and the same deed under another one, are never done again unasked."""

from contextlib import closing

import pytest

from ledger.scenes import die
from midstride import Context, DidNotHappen, InDoubt, Ledger, Runs, tool
from midstride.errors import Removed, ToolFailed
from midstride.stores import SqliteStore

TO_ANN = {"to": "ann"}


class Mails:
    def __init__(self):
        self.sent, self.breaks = [], False

        @tool(key=lambda to: to)
        def send(to: str) -> str:
            if self.breaks:
                raise DidNotHappen("no stamps")
            self.sent.append(to)
            return f"sent to {to}"

        self.send = send


@pytest.fixture
def mails():
    return Mails()


@pytest.fixture
def runs(store):
    return Runs(store)


def test_the_same_call_is_refused_and_not_made_again(once, ledger, mails, runs):
    once(ledger, mails.send, "c1", TO_ANN)
    runs.remove("t/c1")
    runs.shrink()
    with pytest.raises(Removed, match="run 't/c1' was removed at"):
        once(ledger, mails.send, "c1", TO_ANN)
    assert mails.sent == ["ann"]


def test_the_same_deed_under_another_id_is_refused_and_says_why(once, ledger, mails, runs, store):
    once(ledger, mails.send, "c1", TO_ANN)
    runs.remove("t/c1")
    with pytest.raises(InDoubt, match=r"by call t/c1, whose record was removed at .* UTC") as caught:
        once(ledger, mails.send, "c2", TO_ANN)
    assert (caught.value.run_id, caught.value.call_id, mails.sent, runs.ids()) == ("t/c1", "c1", ["ann"], [])
    way = "Runs(store).forget('t/c1'" if store.url == "memory:" else "midstride gc t/c1 --forget"
    assert way in str(caught.value)


def test_the_key_of_a_call_that_had_no_effect_is_free_when_it_is_removed(once, ledger, mails, runs):
    mails.breaks = True
    with pytest.raises(ToolFailed):
        once(ledger, mails.send, "c1", TO_ANN)
    mails.breaks = False
    assert runs.remove("t/c1").free_key is not None
    assert once(ledger, mails.send, "c2", TO_ANN) == "sent to ann"


def test_the_key_of_a_call_in_doubt_stays_claimed(once, ledger, store, mails, runs):
    die(store, mails.send, "send 1.0 after", arguments=TO_ANN)
    assert runs.remove("t/c1").free_key is None
    with pytest.raises(InDoubt, match="so that nobody can tell what came of it"):
        once(ledger, mails.send, "c2", TO_ANN)
    assert mails.sent == ["ann"]


def test_a_forgotten_deed_may_be_done_again(once, ledger, mails, runs):
    once(ledger, mails.send, "c1", TO_ANN)
    runs.remove("t/c1")
    runs.forget("t/c1")
    assert once(ledger, mails.send, "c2", TO_ANN) == "sent to ann"
    assert once(ledger, mails.send, "c1", TO_ANN).startswith("Already done")
    assert mails.sent == ["ann", "ann"]


def test_a_transactional_call_that_is_done_is_known_to_be_over(once, tmp_path):
    @tool.transactional
    def book(seat: str, context: Context) -> str:
        context.transaction.execute("create table if not exists seats (seat text)")
        return "booked"

    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        assert once(Ledger(store), book, "c1", {"seat": "1A"}) == "booked"
        assert (store.unfinished(), store.ended(1e12)) == ([], ["t/c1"])
