"""Files and tools of another version, values that differ each time, and a field that contradicts the messages."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from cases.stage import Killed
from midstride import Context, tool
from midstride.core.steps import Start
from midstride.errors import Damaged, Newer
from midstride.testing import Answer, calls

CHECKPOINT = pytest.mark.parametrize("url", ["checkpoint"], indirect=True)


def lesson(turns, **more):
    """Return the lesson's checkpoint of a task of so many turns, its last call answered."""
    messages = [{"role": "user", "content": "go"}]
    for number in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"n": number}}
        answered = {"type": "tool_result", "tool_use_id": use["id"], "content": f"saw {number}"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answered]}]
    fields = {"version": 1, "task": "go", "turns": turns, "tokensUsed": 900, "messages": messages}
    return {**fields, "pendingToolUse": None, **more}


def never(name, *parameters):
    """Return a tool that may not be run."""

    @tool(name=name)
    def run(to: str) -> str:
        raise AssertionError("it may not be run")

    return run


@CHECKPOINT
def test_case_240_older_version_migrates(stage, folder):
    """A file of the version before: the task of twelve turns goes on, and the file as it was is kept."""
    path = folder / "checkpoint.json"
    path.write_text(json.dumps(lesson(12)))
    before = path.read_bytes()
    stage.says(lambda body, number: Answer("Done."))
    result = stage.run()
    assert (result.status, result.turns) == ("done", 13)
    assert stage.server.requests[0]["messages"] == lesson(12)["messages"]
    assert path.read_bytes() != before
    assert (folder / "checkpoint.json.imported").read_bytes() == before


@CHECKPOINT
@pytest.mark.parametrize("version", [2, 99])
def test_case_240_a_newer_version_is_left_as_it_is(version, stage, folder):
    """A file of a version to come is refused with both numbers, and not changed."""
    path = folder / "checkpoint.json"
    path.write_text(json.dumps(lesson(2, version=version)))
    before = path.read_bytes()
    stage.says(Answer("Done."))
    with pytest.raises(Newer, match=f"checkpoint is v{version}, this code reads v1"):
        stage.run()
    assert (path.read_bytes(), stage.server.requests) == (before, [])


def starts(event):
    if isinstance(event, Start):
        raise Killed


def answered(event):
    if getattr(getattr(event, "body", None), "kind", "") == "responded":
        raise Killed


@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
@pytest.mark.parametrize("effect", ["unsafe", "idempotent", "read_only"])
def test_case_241_tool_contract_changed(effect, begun, stage):
    """The program was changed while a call was pending: it is not run with arguments that it was not given for."""
    declare = {"unsafe": tool, "idempotent": tool.idempotent(key_life=3600), "read_only": tool.read_only}[effect]

    def before(to: str) -> str:
        raise Killed

    def after(recipient: str) -> str:
        raise AssertionError("it may not be run with these arguments")

    before.__name__ = after.__name__ = "send_mail"
    stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
    stage.killed(declare(before), watch=starts if begun else answered)
    for _ in range(2):
        assert stage.run(declare(after)).status == "done"
    ((content, is_error),) = stage.results
    definite = not begun or effect == "read_only"
    assert (is_error, content.split(":")[0]) == (True, "Failed" if definite else "Outcome unknown")
    assert "the tool send_mail takes other arguments now than when this call was made." in content


def test_case_243_replay_nondeterminism(stage):
    """The program draws ids and times anew each time it is run: what was first drawn is recorded and read back."""
    seen = []

    def program():
        @tool.idempotent(key_life=3600)
        def pay(cents: int, context: Context) -> str:
            seen.append((context.key, str(uuid.uuid4())))
            if len(seen) < 3:
                raise Killed
            return seen[-1][1]

        return pay, f"Now it is {uuid.uuid4()}."

    stage.says(calls(("pay", {"cents": 5})), Answer("Done."))
    for _ in range(2):
        pay, system = program()
        stage.killed(pay, system=system)
    pay, system = program()
    assert stage.run(pay, system=system).status == "done"
    assert len({key for key, _ in seen}) == 1
    assert len({str(request["system"]) for request in stage.server.requests}) == 1
    assert stage.results == [(seen[-1][1], False)]
    first, second = (json.dumps(request["messages"]) for request in stage.server.requests)
    assert second.startswith(first[:-1])


@CHECKPOINT
@pytest.mark.parametrize(
    "pending", ["toolu_1", "toolu_9"], ids=["of a call that is answered", "of a call that is not there"]
)
def test_case_244_pending_field_disagrees(pending, stage, folder):
    """The field for the pending call contradicts the messages: that is reported, and nothing is run for it."""
    path = folder / "checkpoint.json"
    path.write_text(json.dumps(lesson(2, pendingToolUse={"id": pending, "name": "send_mail", "input": {"to": "a"}})))
    before = path.read_bytes()
    stage.says(Answer("Done."))
    for _ in range(2):
        with pytest.raises(Damaged, match=f"pendingToolUse names call {pending}, but the messages leave no call open"):
            stage.run(never("send_mail"))
    assert (path.read_bytes(), stage.server.requests) == (before, [])


@CHECKPOINT
def test_case_244_pending_field_of_our_own_file_was_edited(stage, folder):
    """The same in a file with a journal: the journal is what counts, and the edited field is named."""
    path = Path(folder / "checkpoint.json")
    stage.says(Answer("Done."))
    stage.run()
    fields = json.loads(path.read_text())
    fields["pendingToolUse"] = {"id": "toolu_9", "name": "send_mail", "input": {}}
    path.write_text(json.dumps(fields))
    with pytest.raises(Damaged, match="was edited by hand: pendingToolUse is"):
        stage.run(never("send_mail"))
