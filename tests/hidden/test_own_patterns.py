"""`redact` and `redacted` in a program, and what the library itself says of a run."""

import logging
import pickle
import re

import pytest

from drive.scenes import agent_of
from hidden.samples import SECRETS
from midstride import Ledger, Runs, redact, redacted, tool
from midstride.core.steps import Refused
from midstride.errors import CallError, Claimed, Damaged, DeclarationError, Held, Holder, Moved, StoreError, TaskDiffers
from midstride.redaction import VARIABLE, use_environment
from midstride.stores import MemoryStore

KEY = next(text for name, text, _ in SECRETS if name == "anthropic key")


def test_a_pattern_of_the_programs_own_counts_from_then_on():
    assert redacted("about TICKET-77") == "about TICKET-77"
    redact("ticket", r"TICKET-\d+")
    redact("pin", re.compile(r"pin (?P<secret>\d+)", re.IGNORECASE))
    assert redacted({"a": ["about TICKET-77", "PIN 1234."]}) == {
        "a": ["about [redacted: ticket]", "PIN [redacted: pin]."]
    }
    assert redacted(f"TICKET-77 {KEY}") == "[redacted: ticket] [redacted: anthropic key]"


@pytest.mark.parametrize(
    ("name", "pattern", "why"),
    [
        ("", "x", "is no name for a pattern"),
        ("a]b", "x", "is no name for a pattern"),
        (7, "x", "is no name for a pattern"),
        ("a", "(", "is no regular expression"),
        ("a", b"x", "is no regular expression"),
        ("a", re.compile(b"x"), "is no regular expression"),
        ("a", None, "is no regular expression"),
        ("a", "x?", "matches an empty text"),
    ],
)
def test_what_is_no_pattern_is_refused(name, pattern, why):
    with pytest.raises(DeclarationError, match=why):
        redact(name, pattern)


def test_the_file_in_the_environment_counts_in_a_program_and_beside_its_own(tmp_path, monkeypatch):
    redact("ticket", r"TICKET-\d+")
    (tmp_path / "mine").write_text("case = CASE-\\d+\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    Runs(MemoryStore())
    assert redacted("TICKET-7 of CASE-8") == "[redacted: ticket] of [redacted: case]"
    monkeypatch.delenv(VARIABLE)
    use_environment()
    assert redacted("TICKET-7 of CASE-8") == "[redacted: ticket] of CASE-8"


# ---- what the library says


def test_a_results_reason_holds_no_secret_and_the_journal_holds_it_all(drive):
    store = MemoryStore()
    result = drive(agent_of(lambda *_: Refused(f"your key {KEY} is wrong"), store=store))
    assert (result.status, result.why) == ("failed", "your key [redacted: anthropic key] is wrong")
    assert Runs(store).status("run") == ("failed", result.why)
    assert KEY in store.read("run")[-1].text


def test_what_waits_for_a_person_is_told_without_its_secrets(drive):
    @tool(approval=True)
    def pay(password: str, note: str) -> str:
        """Pay."""
        return "paid"

    store = MemoryStore()
    note = f"{'x' * 240} {KEY}"  # the reason is shortened in the middle of the key
    result = drive(agent_of([[("pay", {"password": "hunter2", "note": note})], "Done."], [pay], store=store))
    assert result.status == "waiting"
    for why in (result.why, Runs(store).status("run")[1]):
        assert "hunter2" not in why
        assert "sk-ant" not in why
    assert result.approvals[0].arguments == {"password": "hunter2", "note": note}


def test_an_answer_and_what_the_model_gets_stay_whole(drive):
    @tool.read_only
    def read() -> str:
        """Read."""
        return f"password=hunter2 {KEY}"

    agent = agent_of([[("read", {})], f"It is {KEY}."], [read], store=MemoryStore())
    assert drive(agent, f"task {KEY}").answer == f"It is {KEY}."
    assert KEY in str(agent.model.requests[-1]["messages"][0])
    assert f"password=hunter2 {KEY}" in str(agent.model.requests[-1]["messages"][2])


def test_two_tasks_that_differ_are_told_without_their_secrets(drive):
    store = MemoryStore()
    drive(agent_of(["Done."], store=store), f"{'a ' * 60}{KEY} one")
    with pytest.raises(TaskDiffers) as raised:
        drive(agent_of(["Done."], store=store), f"{'a ' * 60}{KEY} two")
    assert "one" in str(raised.value)
    assert "two" in str(raised.value)
    assert KEY[-8:] not in str(raised.value)


def test_a_ledgers_call_that_differs_is_told_without_its_secrets():
    @tool
    def send(password: str) -> str:
        """Send."""
        return "sent"

    with Ledger(MemoryStore()) as ledger:
        ledger.once(send, "c", {"password": "hunter2"}, scope="s")
        with pytest.raises(TaskDiffers) as raised:
            ledger.once(send, "c", {"password": "sw0rdfish"}, scope="s")
    assert "hunter2" not in str(raised.value)
    assert "sw0rdfish" not in str(raised.value)


ERRORS = [
    StoreError(KEY),
    DeclarationError(KEY),
    Damaged(KEY, whole=()),
    Held(KEY, Holder("h", 1)),
    Moved(KEY, 3),
    Claimed(KEY, KEY),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_quotes_no_secret_however_it_is_printed(error):
    for text in (str(error), repr(error), str(error.args)):
        assert KEY not in text
    assert str(error) == "[redacted: anthropic key]"


def test_the_facts_of_an_error_stay_whole_and_so_does_what_is_told_to_the_model():
    assert Claimed("text", KEY).owner == KEY
    assert str(CallError(f"made with {KEY}", "run", "call")) == f"made with {KEY}"
    assert str(pickle.loads(pickle.dumps(StoreError(KEY)))) == "[redacted: anthropic key]"


def test_the_log_tells_who_did_something_without_a_secret(drive, caplog):
    caplog.set_level(logging.DEBUG, logger="midstride")
    store = MemoryStore()
    agent = agent_of(["Done.", "Done."], store=store)
    drive(agent)
    Runs(store).say("run", "more", by=f"ann {KEY}")
    drive(agent)
    told = [record for record in caplog.records if getattr(record, "kind", "") == "said"]
    assert [record.facts["by"] for record in told] == ["ann [redacted: anthropic key]"]
    assert KEY not in "".join(record.getMessage() for record in told)
