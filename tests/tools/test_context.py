"""What a tool is told about its call, and what it can say beside a result."""

import dataclasses
import pickle
from datetime import timedelta

import pytest

from midstride.errors import DeclarationError
from midstride.tools import Accepted, CannotTell, Context, DidNotHappen, Happened, Pending

CONTEXT: Context[str] = Context(key="k", run_id="r", call_id="toolu_1", turn=2, index=0)


def test_the_first_attempt_is_number_one():
    assert CONTEXT.attempt == 1


def test_a_context_outside_a_transaction_says_so():
    with pytest.raises(
        DeclarationError, match=r"toolu_1 has no transaction, .* declare the tool with @tool.transactiona"
    ):
        CONTEXT.transaction  # noqa: B018


def test_a_context_inside_a_transaction_hands_it_out():
    inside = CONTEXT.within("connection")
    assert (inside.transaction, inside.key, inside.turn) == ("connection", "k", 2)


def test_a_context_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONTEXT.key = "mine"  # type: ignore[misc]


def test_a_connection_is_not_shown_in_a_contexts_repr():
    assert "secret" not in repr(CONTEXT.within("secret"))


def test_a_handle_is_what_every_later_process_will_have():
    assert CONTEXT.accepted({1: ("a", None)}) == Accepted({"1": ["a", None]})
    assert CONTEXT.accepted("another").handle == "another"  # where no run is, a test may call a tool as it likes


@pytest.mark.parametrize(
    ("handle", "wrong"),
    [
        (object(), "object is no handle"),
        (float("inf"), "float is no handle"),
        ("x" * 9_999, "a handle of 10001 characters is too long, wanted 10000 at most: give the job's id"),
    ],
)
def test_what_no_other_process_could_read_is_no_handle(handle, wrong):
    with pytest.raises(DeclarationError, match=wrong):
        CONTEXT.accepted(handle)


def test_a_transaction_hands_nothing_over():
    with pytest.raises(DeclarationError, match="toolu_1 is transactional, so its result commits with its rows"):
        CONTEXT.within("connection").accepted("job")


def test_pending_takes_seconds_or_a_timedelta():
    assert [Pending(after=5).seconds, Pending(timedelta(minutes=2)).seconds] == [5.0, 120.0]


@pytest.mark.parametrize("after", [0, -1, float("nan"), float("inf"), True, "5", None, timedelta(0)])
def test_pending_without_a_time_is_refused(after):
    with pytest.raises(DeclarationError, match=r"Pending has after=.*: wanted seconds or a timedelta"):
        Pending(after)


def test_did_not_happen_is_raised_and_returned_with_its_reason():
    answer = pickle.loads(pickle.dumps(DidNotHappen("no such order")))
    assert (answer.why, str(answer)) == ("no such order", "no such order")
    assert isinstance(answer, Exception)


def test_answers_compare_by_what_they_say():
    assert Happened(7) == Happened(7) != Happened(8)
    assert CannotTell() == CannotTell("")
