"""The same deed under another call id: a claim counts across every call of the store, and moves where it is free."""

import re
import threading
from datetime import timedelta

import pytest

from ledger.scenes import die, kinds, process
from midstride import CannotTell, Context, DidNotHappen, Happened, InDoubt, Ledger, Runs, tool
from midstride.errors import ToolFailed
from midstride.testing import SettableClock


class Mails:
    def __init__(self, declare=tool, **options):
        self.sent = []

        @declare(key=lambda to: to, **options)
        def send(to: str, body: str = "") -> str:
            self.sent.append(to)
            return f"sent to {to}"

        self.send = send


TO_ANN = {"to": "ann"}


@pytest.fixture
def mails():
    return Mails()


def test_the_same_deed_is_done_once_under_any_call_id_and_scope(once, store, ledger, mails):
    assert once(ledger, mails.send, "c1", TO_ANN) == "sent to ann"
    for call_id, scope in (("c2", "t"), ("c1", "u"), ("c2", "t")):
        given = once(ledger, mails.send, call_id, {"to": "ann", "body": "again"}, scope)
        assert given.startswith("Already done: the same deed was done by call t/c1 ")
        assert given.endswith("Its recorded result was:\nsent to ann")
    assert mails.sent == ["ann"]
    assert kinds(store, "u/c1") == ["started", "taken", "requested", "responded", "settled"]


def test_another_key_and_another_tool_are_other_deeds(once, ledger, mails):
    other = Mails(name="post")
    once(ledger, mails.send, "c1", TO_ANN)
    assert once(ledger, mails.send, "c2", {"to": "bob"}) == "sent to bob"
    assert once(ledger, other.send, "c3", TO_ANN) == "sent to ann"


def test_a_deed_that_is_in_doubt_elsewhere_is_not_begun_and_not_recorded(once, store, mails):
    die(store, mails.send, "send 1.0 after", arguments=TO_ANN)
    with process(store) as (_, ledger, own):
        with pytest.raises(InDoubt, match="Its process ended"):
            once(ledger, own(mails.send), "c1", TO_ANN)
        with pytest.raises(InDoubt, match=r"by call t/c1 .* its outcome is unknown: a person must decide") as caught:
            once(ledger, own(mails.send), "c2", TO_ANN)
    assert (caught.value.run_id, caught.value.call_id) == ("t/c1", "c1")
    assert kinds(store, "t/c2") == []
    Runs(store).decide("t/c1", "c1", "happened", "It is in the outbox.", by="ann")
    with process(store) as (_, ledger, own):
        assert once(ledger, own(mails.send), "c2", TO_ANN).endswith("It is in the outbox.")
    assert mails.sent == ["ann"]


def test_a_first_call_whose_process_died_is_carried_to_its_end(once, store, mails):
    die(store, mails.send, "send 1.0 after", arguments=TO_ANN)
    with process(store) as (_, ledger, own), pytest.raises(InDoubt, match="its outcome is unknown"):
        once(ledger, own(mails.send), "c2", TO_ANN)
    assert kinds(store, "t/c1")[-2:] == ["taken", "settled"]
    assert mails.sent == ["ann"]


def test_an_idempotent_first_call_is_carried_on_with_its_own_key_and_arguments(once, store):
    seen = []

    @tool.idempotent(key_life=timedelta(days=1), key=lambda to: to)
    def charge(to: str, cents: int, context: Context) -> str:
        seen.append((context.key, cents))
        return f"charged {cents}"

    die(store, charge, "charge 1.0 after", arguments={"to": "ann", "cents": 5})
    with process(store) as (_, ledger, own):
        given = once(ledger, own(charge), "c2", {"to": "ann", "cents": 7})
    assert given.endswith("charged 5")
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.parametrize("free", ["failed", "allowed"])
def test_a_key_that_is_free_is_taken_over(once, store, free):
    tries = []

    @tool(key=lambda to: to)
    def send(to: str) -> str:
        tries.append(to)
        if free == "failed" and len(tries) == 1:
            raise DidNotHappen
        if free == "allowed" and len(tries) == 1:
            raise ConnectionResetError
        return "sent"

    ledger = Ledger(store, clock=SettableClock())
    with pytest.raises((ToolFailed, InDoubt)):
        once(ledger, send, "c1", TO_ANN)
    if free == "allowed":
        Runs(store).decide("t/c1", "c1", "allow")
    assert once(ledger, send, "c2", TO_ANN) == "sent"
    assert once(ledger, send, "c3", TO_ANN).startswith("Already done: the same deed was done by call t/c2 ")


def test_a_permission_that_another_call_has_used_is_not_used_twice(once, store, mails):
    ledger = Ledger(store, clock=SettableClock())
    die(store, mails.send, "send 1.0 before", arguments=TO_ANN)
    with pytest.raises(InDoubt):
        once(ledger, mails.send, "c1", TO_ANN)
    Runs(store).decide("t/c1", "c1", "allow")
    assert once(ledger, mails.send, "c2", TO_ANN) == "sent to ann"
    for _ in range(2):
        assert once(ledger, mails.send, "c1", TO_ANN).startswith("Already done: the same deed was done by call t/c2 ")
    assert mails.sent == ["ann"]


def test_a_deed_that_a_person_has_decided_against_is_not_begun(once, store, mails):
    ledger = Ledger(store, clock=SettableClock())
    die(store, mails.send, "send 1.0 before", arguments=TO_ANN)
    with pytest.raises(InDoubt):
        once(ledger, mails.send, "c1", TO_ANN)
    Runs(store).decide("t/c1", "c1", "deny")
    with pytest.raises(InDoubt, match="a person has decided that it is not to be done again"):
        once(ledger, mails.send, "c2", TO_ANN)
    assert mails.sent == []


def test_a_deed_that_a_person_is_asked_about_waits_for_the_answer(once, store):
    mails = Mails(in_doubt="ask")
    die(store, mails.send, "send 1.0 before", arguments=TO_ANN)
    with process(store) as (_, ledger, own), pytest.raises(InDoubt, match=r"has no result yet.*decide\('t/c1'"):
        once(ledger, own(mails.send), "c2", TO_ANN)
    Runs(store).decide("t/c1", "c1", "allow")
    with process(store) as (_, ledger, own):
        assert once(ledger, own(mails.send), "c2", TO_ANN).startswith("Already done")
    assert mails.sent == ["ann"]


def test_a_deed_that_is_being_done_is_not_begun(once, store):
    started, let_go = threading.Event(), threading.Event()

    @tool(key=lambda: "the deed")
    def send() -> str:
        started.set()
        let_go.wait(30)
        return "sent"

    ledger = Ledger(store)
    first = threading.Thread(target=lambda: ledger.once(send, "c1", {}, scope="t"))
    first.start()
    assert started.wait(30)
    with pytest.raises(InDoubt, match=r"by call t/c1 .* it is being made by pid \d+"):
        once(ledger, send, "c2")
    let_go.set()
    first.join()
    assert once(ledger, send, "c2").startswith("Already done")


class Posts:
    """A verifiable tool whose verify answers what it is told to."""

    def __init__(self, *answers):
        self.answers, self.posted, self.keys = list(answers), [], []

        @tool.verifiable(timeout=5, settle=2, key=lambda to: to)
        def post(to: str) -> str:
            self.posted.append(to)
            return "posted"

        @post.verify
        def find(to: str, context: Context) -> Happened | DidNotHappen | CannotTell:
            self.keys.append((context.run_id, context.key))
            return self.answers.pop(0)

        self.post = post

    def in_doubt(self, once, store, clock):
        die(store, self.post, "post 1.0 before", arguments=TO_ANN, clock=clock)
        with process(store, clock=clock) as (_, ledger, own), pytest.raises(InDoubt, match="did not tell"):
            once(ledger, own(self.post), "c1", TO_ANN)


@pytest.mark.parametrize(
    ("answer", "given", "posted"),
    [(Happened("found"), "Already done.*found", 0), (DidNotHappen("not there"), "^posted$", 1)],
)
def test_a_deed_in_doubt_that_can_be_looked_up_is_looked_up_again(once, store, answer, given, posted):
    clock, posts = SettableClock(), Posts(CannotTell("busy"), answer)
    posts.in_doubt(once, store, clock)
    clock.at += 100
    with process(store, clock=clock) as (_, ledger, own):
        assert _found(given, once(ledger, own(posts.post), "c2", TO_ANN))
    assert len(posts.posted) == posted
    assert posts.keys[0] == posts.keys[1]  # it is looked up as the call that it was


def _found(pattern, text):
    return re.search(pattern, text, re.DOTALL)


def test_a_look_that_cannot_tell_leaves_the_deed_in_doubt(once, store):
    clock, posts = SettableClock(), Posts(CannotTell("busy"), CannotTell("still busy"))
    posts.in_doubt(once, store, clock)
    clock.at += 100
    with process(store, clock=clock) as (_, ledger, own), pytest.raises(InDoubt, match="still busy"):
        once(ledger, own(posts.post), "c2", TO_ANN)
    assert posts.posted == []


def test_a_deed_is_not_looked_up_before_it_can_no_longer_come(once, store):
    clock = SettableClock()

    @tool.verifiable(timeout=50, settle=20, key=lambda to: to)
    def post(to: str) -> str:
        raise ConnectionResetError

    @post.verify
    def find(to: str) -> CannotTell:
        return CannotTell("busy")

    ledger = Ledger(store, clock=clock)
    with pytest.raises(InDoubt, match="did not tell"):
        once(ledger, post, "c1", TO_ANN)
    with pytest.raises(InDoubt, match=r"it can be looked up from .* UTC on"):
        once(ledger, post, "c2", TO_ANN)


def test_a_tool_that_outlived_its_time_is_still_running(store):
    let_go = threading.Event()

    @tool.verifiable(timeout=0.02, key=lambda: "the deed")
    def post() -> str:
        let_go.wait(30)
        return "posted"

    @post.verify
    def find() -> DidNotHappen:
        return DidNotHappen()

    ledger = Ledger(store)
    try:
        with pytest.raises(InDoubt, match="It is still running"):
            ledger.once(post, "c1", {}, scope="t")
        with pytest.raises(InDoubt, match="it is still running"):
            ledger.once(post, "c2", {}, scope="t")
    finally:
        let_go.set()
        for name in ("midstride post", "midstride late"):
            for thread in threading.enumerate():
                if thread.name == name:
                    thread.join()
    assert ledger.once(post, "c2", {}, scope="t").startswith("Already done")
