"""examples/lesson.py: the lesson's three checkpoints carried on, and its incident, which now mails once."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.scenes import EXAMPLES, environment, kill_in_its_mail, run
from midstride.demo.mail import MailServer
from midstride.testing.fake_model import Answer, FakeModel, Reply, calls

Json = Any
PROGRAM = "lesson.py"
TASK = "Help me pull this week's meeting notes together"
MAIL = "Email the team to let them know the conclusions"
NOTE = {"path": "./notes/meeting-08-25.md"}
LETTER = {"to": "team@example.com", "subject": "This week's conclusions"}


def reply(body: Json, number: int) -> Reply:
    """Mail first, where there is no result yet; then say what the last result was."""
    last = body["messages"][-1]["content"]
    if isinstance(last, str):
        return calls(("send_email", LETTER), text="I mail them.")
    return Answer(f"The last result begins: {last[-1]['content'][:15]}")


@pytest.fixture
def post(tmp_path: Path) -> Iterator[MailServer]:
    with MailServer(tmp_path / "Maildir") as server:
        yield server


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(reply) as server:
        yield server


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(call_id: str, name: str, given: Json) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


CP_A: Json = {
    "version": 1,
    "task": TASK,
    "turns": 6,
    "tokensUsed": 18420,
    "messages": [{"role": "user", "content": TASK}, assistant(text("Here are the notes of this week."))],
    "pendingToolUse": None,
}

CP_B: Json = {
    "version": 1,
    "task": TASK,
    "turns": 7,
    "tokensUsed": 19310,
    "messages": [{"role": "user", "content": TASK}, assistant(text("I read."), use("toolu_01A", "read_file", NOTE))],
    "pendingToolUse": {"id": "toolu_01A", "name": "read_file", "input": NOTE},
}

CP_C: Json = {
    "version": 1,
    "task": MAIL,
    "turns": 9,
    "tokensUsed": 24003,
    "messages": [{"role": "user", "content": MAIL}, assistant(text("I mail."), use("toolu_01B", "send_email", LETTER))],
    "pendingToolUse": {"id": "toolu_01B", "name": "send_email", "input": LETTER},
}


def carried_on(checkpoint: Json, post: MailServer, model: FakeModel, folder: Path, *task: str) -> str:
    (folder / "checkpoint.json").write_text(json.dumps(checkpoint, indent=2))
    return run(PROGRAM, *task, environment=environment(post, model), folder=folder)


def state(folder: Path) -> Json:
    found = json.loads((folder / "checkpoint.json").read_text())
    return {name: found[name] for name in ("version", "task", "turns", "tokensUsed", "messages", "pendingToolUse")}


def test_checkpoint_a_ends_with_its_answer_and_is_asked_nothing(
    post: MailServer, model: FakeModel, tmp_path: Path
) -> None:
    assert carried_on(CP_A, post, model, tmp_path) == "Here are the notes of this week.\n"
    assert (model.requests, post.mails()) == ([], [])


def test_checkpoint_b_reads_its_file_again_and_goes_on(post: MailServer, model: FakeModel, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "meeting-08-25.md").write_text("We move on Sunday.")
    assert carried_on(CP_B, post, model, tmp_path, TASK) == "The last result begins: We move on Sund\n"
    result = {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "We move on Sunday."}
    assert model.requests[0]["messages"] == [*CP_B["messages"], {"role": "user", "content": [result]}]


def test_checkpoint_c_mails_nothing_tells_the_model_that_nobody_knows_and_counts_on(
    post: MailServer, model: FakeModel, tmp_path: Path
) -> None:
    assert carried_on(CP_C, post, model, tmp_path) == "The last result begins: Outcome unknown\n"
    (told,) = model.requests[0]["messages"][-1]["content"]
    assert (told["tool_use_id"], told["is_error"], post.mails()) == ("toolu_01B", True, [])
    assert (state(tmp_path)["turns"], state(tmp_path)["pendingToolUse"]) == (10, None)


def test_the_lessons_incident_mails_once(post: MailServer, model: FakeModel, tmp_path: Path) -> None:
    found = environment(post, model)
    kill_in_its_mail(post, PROGRAM, MAIL, environment=found, folder=tmp_path)
    assert state(tmp_path)["pendingToolUse"]["name"] == "send_email"
    assert run(PROGRAM, MAIL, environment=found, folder=tmp_path) == "The last result begins: Outcome unknown\n"
    assert [mail["Subject"] for mail in post.mails()] == ["This week's conclusions"]


def test_max_turns_holds_over_the_life_of_the_checkpoint(post: MailServer, model: FakeModel, tmp_path: Path) -> None:
    printed = carried_on({**CP_C, "turns": 40}, post, model, tmp_path)
    assert printed.startswith("capped: ")
    assert model.requests == []


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "notes/../../secret"])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="outside of the folder"):
        runpy.run_path(str(EXAMPLES / PROGRAM))["read_file"](path)


def test_a_checkpoint_of_another_version_is_left_as_it_is(post: MailServer, model: FakeModel, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="checkpoint is v2, this code reads v1"):
        carried_on({**CP_A, "version": 2}, post, model, tmp_path)
    assert state(tmp_path)["version"] == 2
