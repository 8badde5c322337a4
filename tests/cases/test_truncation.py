"""Answers that break off: an error in the stream, a refusal, a full window, a reason that nobody knows."""

from __future__ import annotations

import pytest

from midstride import Runs, tool
from midstride.testing import Answer, Cut, StreamError, Truncate, calls


def nothing_may_run():
    @tool
    def send_mail(to: str) -> str:
        raise AssertionError("an answer that broke off runs nothing")

    @tool.read_only
    def look(at: str) -> str:
        raise AssertionError("an answer that broke off runs nothing")

    return send_mail, look


BROKEN = {
    "overloaded": lambda part: StreamError("overloaded_error", after_events=-2, answer=part),
    "api error": lambda part: StreamError("api_error", after_events=-1, answer=part),
    "cut off": lambda part: Cut(-2, part),
    "ended early": lambda part: Truncate(-2, part),
}


@pytest.mark.parametrize("how", BROKEN)
def test_case_113_overload_error_mid_stream(how, stage):
    """The stream broke behind a part of the text, and a second try gave the whole: the part is in none of it."""
    drafts = []
    stage.says([BROKEN[how](Answer("Part one")), Answer("Part one and two")])
    result = stage.run(watch=drafts.append)
    assert (result.status, result.answer) == ("done", "Part one and two")
    assert [entry["response"]["content"][0]["text"] for entry in stage.entries("responded")] == ["Part one and two"]
    assert stage.run().answer == "Part one and two"
    assert "Part onePart one" not in str(stage.entries("responded"))


@pytest.mark.parametrize("how", BROKEN)
def test_case_113_a_call_in_a_broken_stream_is_run_once(how, stage):
    """The same with a call in it: it comes whole a second time, and only that one is run."""
    ran = []

    @tool
    def send_mail(to: str) -> str:
        ran.append(to)
        return "queued"

    once = calls(("send_mail", {"to": "ann"}), text="Sending.")
    stage.says([BROKEN[how](once), once], Answer("Done."))
    assert (stage.run(send_mail).status, ran) == ("done", ["ann"])
    assert len(stage.blocks("tool_use")) == 1


ENDS = {
    "114-refusal": ("refusal", "failed"),
    "115-context-window-exceeded": ("model_context_window_exceeded", "cut"),
    "116-unknown-stop-reason": ("brand_new_reason", "failed"),
}


@pytest.mark.parametrize("content", ["text", "text and effect", "read", "nothing"])
@pytest.mark.parametrize("end", ENDS)
def test_case(end, content, stage):
    """An answer that ended so is saved as it came and is none: nothing of it runs, and a resume asks no more for it."""
    reason, status = ENDS[end]
    words = {"type": "text", "text": "Half of the rep"}
    send = {"type": "tool_use", "id": "toolu_1", "name": "send_mail", "input": {}}
    look = {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {"at": "x"}}
    blocks = {"text": [words], "text and effect": [words, send], "read": [look], "nothing": []}[content]
    stage.says(lambda body, number: Answer(blocks, reason), by="request")
    tools = nothing_may_run()
    results = [stage.run(*tools) for _ in range(3)]
    assert [(result.status, result.answer) for result in results] == [(status, None)] * 3
    asked = len(stage.server.requests)
    assert asked == (3 if status == "cut" else 1)
    (stored, *_) = stage.entries("responded")
    assert (stored["response"]["stop_reason"], stored["response"]["content"]) == (reason, blocks)
    assert "settled" not in stage.kinds()
    assert Runs(stage.store).status("run")[0] == status
    if content != "nothing":  # what it said is no part of what is sent when a person lets it go on
        stage.says(Answer("Done."))
        assert stage.run(*tools, force=True).answer == "Done."
        assert stage.server.requests[-1]["messages"] == [{"role": "user", "content": "go"}]
