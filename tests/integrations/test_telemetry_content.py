"""What was said is in no span unless it is asked for, and then it is bounded and can be exported."""

import json
import logging

import pytest

from drive.conftest import Way
from drive.scenes import Killed, agent_of, killed_at_start_of
from hidden.samples import SECRETS
from midstride import DidNotHappen, Runs, redact, tool
from midstride.core.steps import Lost, Refused
from midstride.integrations.opentelemetry import content
from midstride.stores import MemoryStore

MARK = "hunter2"


@pytest.fixture
def store():
    return MemoryStore()


@tool.read_only
def read(name: str) -> str:
    """Read."""
    return f"{MARK} in a result"


@tool.read_only
def fail(name: str) -> str:
    """Fail."""
    raise RuntimeError(f"{MARK} in an error")


@tool(in_doubt="ask")
def send(to: str) -> str:
    """Send."""
    raise ValueError(f"{MARK} in an error of an effect")


@tool.verifiable(timeout=5)
def issue(title: str) -> str:
    """Open an issue."""
    raise ValueError(MARK)


@issue.verify
def find(title: str):
    raise DidNotHappen(f"{MARK} in a verify")


def script():
    return [
        Lost(f"HTTP 500, {MARK} in an error of the API", type="500"),
        [("read", {"name": MARK}), ("fail", {"name": MARK}), ("nope", {"name": MARK}), ("read", {"wrong": MARK})],
        [("issue", {"title": MARK})],
        [("send", {"to": MARK})],
        Refused(f"HTTP 400, {MARK} in a refusal", type="400"),
    ]


def whole_life(drive, telemetry, store, who="ann"):
    """Drive a run through all that can be said, with MARK in each of it; *who* speaks to it."""
    answers = iter(script())
    made = {"store": store, "telemetry": telemetry, "system": f"system {MARK}"}
    agent = agent_of(lambda request, number: next(answers), [read, fail, send, issue], **made)
    agent.model.params = {**agent.model.params, "metadata": {"user_id": MARK}, "stop_sequences": [MARK]}
    with pytest.raises(Killed):
        drive(agent, f"task {MARK}", watch=killed_at_start_of("issue"))
    assert drive(agent, f"task {MARK}").status == "waiting"
    asked = next(call for call in Runs(store).doubts("run") if call.name == "send")
    Runs(store).decide("run", asked.id, "happened", f"{MARK} was said", by=who)
    Runs(store).say("run", f"{MARK} in a word", by=who)
    assert drive(agent, f"task {MARK}").status == "failed"
    Runs(store).cancel("run", f"{MARK} in a reason", by=who)

    def failing(request, number):
        raise LookupError(MARK)

    broken = agent_of(failing, store=store, telemetry=telemetry)
    with pytest.raises(LookupError):
        drive(broken, f"task {MARK}", "broken")


def test_no_span_and_no_line_of_the_log_holds_what_was_said(drive, seen, store, caplog):
    caplog.set_level(logging.DEBUG)
    whole_life(drive, seen.telemetry, store)
    assert len(seen.spans()) > 10
    assert MARK not in seen.everything()
    lines = [record for record in caplog.records if record.name == "midstride"]
    assert {"settled", "responded", "failed", "asked", "decided"} <= {record.kind for record in lines}
    nonces = {e.body.nonce for run in store.runs() for e in store.read(run) if e.body.kind == "started"}
    for record in lines:
        text = record.getMessage() + repr(vars(record))
        assert MARK not in text
        assert not [nonce for nonce in nonces if nonce in text]
    assert not [nonce for nonce in nonces if nonce in seen.everything()]


def test_content_that_is_asked_for_is_there(drive, seen, store):
    whole_life(drive, seen.with_content(True), store)
    first = seen.spans("chat")[1].attributes
    assert json.loads(first["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"task {MARK}"}]}
    ]
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": f"system {MARK}"}]
    (message,) = json.loads(first["gen_ai.output.messages"])
    assert (message["role"], message["finish_reason"]) == ("assistant", "tool_use")
    assert message["parts"][0] == {"type": "tool_call", "id": "toolu_1_0", "name": "read", "arguments": {"name": MARK}}
    attempts = [span.attributes for span in seen.spans("execute_tool")]
    assert attempts[0]["gen_ai.tool.call.arguments"] == '{"name": "hunter2"}'
    assert attempts[0]["gen_ai.tool.call.result"] == '"hunter2 in a result"'
    assert seen.spans("chat")[0].attributes["midstride.error"] == f"HTTP 500, {MARK} in an error of the API"
    (raised,) = [event for event in seen.spans("invoke_agent")[-1].events if event.name == "exception"]
    assert raised.attributes["exception.message"] == MARK


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS, ids=[name for name, _, _ in SECRETS])
def test_content_that_is_asked_for_holds_no_secret(seen, store, monkeypatch, caplog, name, text, secret):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setitem(globals(), "MARK", text)
    whole_life(Way("blocking"), seen.with_content(True), store, who=f"ann {text}")
    told = "".join(text for span in seen.spans() for text in texts_of(span))
    told += "".join(record.getMessage() + repr(vars(record)) for record in caplog.records if record.name == "midstride")
    assert told.count(f"[redacted: {name}]") > 10
    for part in secret.split():
        assert part.encode("unicode_escape").decode()[-6:] not in told.replace("[redacted: ", "[")


def test_content_that_a_program_calls_a_secret_is_in_no_span(drive, seen, store):
    redact("mark", MARK)
    whole_life(drive, seen.with_content(True), store, who=MARK)
    assert MARK not in seen.everything()
    assert "[redacted: mark]" in seen.everything()
    assert MARK in "".join(entry.text for entry in store.read("run"))


def test_results_stand_in_the_next_request_in_the_conventions_form(drive, seen, store):
    script = [[("read", {"name": "x"})], "Done."]
    drive(agent_of(script, [read], store=store, telemetry=seen.with_content(True)))
    messages = json.loads(seen.spans("chat")[1].attributes["gen_ai.input.messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[2]["parts"] == [
        {"type": "tool_call_response", "id": "toolu_1_0", "response": "hunter2 in a result"}
    ]


ITEMS = [
    ({"role": "user", "content": "hi"}, {"role": "user", "parts": [{"type": "text", "content": "hi"}]}),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [
            {"type": "function", "id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"}]},
    ),
    (
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "r"}]},
    ),
    (
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"}]},
    ),
    (
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "r"}]},
    ),
    (
        {"role": "user", "content": [{"type": "image", "source": {}}]},
        {"role": "user", "parts": [{"type": "image", "source": {}}]},
    ),
    ("odd", {"role": "user", "parts": ["odd"]}),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "shown"), ITEMS)
def test_each_apis_messages_have_the_conventions_form(sent, shown):
    assert json.loads(content.of_request({"messages": [sent]})["gen_ai.input.messages"]) == [shown]


def test_of_a_long_history_the_newest_messages_are_shown():
    sent = [{"role": "user", "content": f"{number} {'x' * (content.LENGTH // 3)}"} for number in range(9)]
    told = content.of_request({"messages": sent})
    shown = json.loads(told["gen_ai.input.messages"])
    assert [message["parts"][0]["content"][0] for message in shown] == ["7", "8"]
    assert told["midstride.messages_left_out"] == 7


# ---- what is hostile


HOSTILE = "a\ud800\x1b[2J\nb" + "é" * 10_000


@pytest.mark.parametrize("with_content", [False, True])
def test_names_that_a_model_made_up_can_be_exported(drive, seen, store, with_content, caplog):
    caplog.set_level(logging.DEBUG)
    agent = agent_of(
        [[(HOSTILE, {HOSTILE: HOSTILE})], "Done."], [], store=store, telemetry=seen.with_content(with_content)
    )
    agent.model.params = {"model": HOSTILE, "max_tokens": 10}
    assert drive(agent, "go", "r\n1").status == "done"
    texts = [text for span in seen.spans() for text in texts_of(span)]
    for text in texts:
        text.encode("utf-8")
        assert len(text) <= content.LENGTH
    assert all("\n" not in span.name and "\x1b" not in span.name and len(span.name) < 300 for span in seen.spans())
    for record in caplog.records:
        assert len(record.getMessage().splitlines()) == 1
        assert "\x1b" not in record.getMessage()
        assert len(record.getMessage()) < 1_000


def texts_of(span):
    yield span.name
    for values in (span.attributes, *(event.attributes for event in span.events)):
        yield from (str(value) for value in values.values())


def test_huge_arguments_are_cut_in_the_span_alone(drive, seen, store):
    huge = "x" * 1_000_000
    drive(agent_of([[("read", {"name": huge})], "Done."], [read], store=store, telemetry=seen.with_content(True)))
    assert len(seen.only("execute_tool").attributes["gen_ai.tool.call.arguments"]) == content.LENGTH
    assert store.read("run")[3].body.response["content"][0]["input"] == {"name": huge}
