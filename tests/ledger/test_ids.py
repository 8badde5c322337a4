"""The id of the run that a call is: one pair of scope and call id, and a name that a command line can give."""

import pytest

from midstride import Ledger, tool
from midstride.ledger.deed import run_id_of


@pytest.mark.parametrize(
    ("scope", "call_id", "run_id"),
    [
        ("thread-1", "toolu_01", "thread-1/toolu_01"),
        ("a/b", "c", "a%2Fb/c"),
        ("a", "b/c", "a/b/c"),
        ("a%2Fb", "c", "a%252Fb/c"),
        ("-t", "-c", "%2Dt/%2Dc"),
        ("a\nb", "\x00\ud800", "a%0Ab/%00%ED%A0%80"),
        ("größe", "日本", "größe/日本"),
    ],
)
def test_an_id_can_be_printed_and_typed(scope, call_id, run_id):
    assert run_id_of(scope, call_id) == run_id
    assert run_id.isprintable()


def test_no_two_pairs_have_one_id():
    texts = ["a", "a/", "/a", "a/a", "%", "%2F", "a%2Fa", "%252F", "-", "%2D", "/", "a\n", "a%0A"]
    ids = {run_id_of(scope, call_id) for scope in texts for call_id in texts}
    assert len(ids) == len(texts) ** 2


def test_every_store_keeps_any_id(tmp_path):
    @tool
    def send() -> str:
        return "sent"

    for url in ("memory:", f"sqlite:{tmp_path}/calls.db"):
        with Ledger(url) as ledger:
            for scope, call_id in (("a/b", "c"), ("a", "b/c"), ("\ud800", "a\n"), ("-", "é" * 500)):
                assert ledger.once(send, call_id, {}, scope=scope) == "sent"
            assert len(ledger.store.runs()) == 4
