"""The incident of the lesson, with real processes: SIGKILL after the mail server took the mail, and the run again."""

from __future__ import annotations

import mailbox
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.scenes import Command, Terminal
from midstride.demo import answers, telling
from midstride.demo.incident import Incident, Unexpected, play, run_to_its_end
from midstride.demo.programs import Program, carried
from midstride.testing.fake_model import FakeModel

Played = Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Real:
    incident: Incident
    keys: set[str]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Play with the model that the environment names, as with a key of one's own, and a checkpoint.json."""
    folder = tmp_path_factory.mktemp("checkpoint")
    program = carried(folder, "unsafe", f"checkpoint:{folder}/checkpoint.json")
    with FakeModel(answers.reply) as model, pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTHROPIC_BASE_URL", model.url)
        environment.setenv("ANTHROPIC_API_KEY", "a-key-of-the-user")
        incident = play(program, folder, real=True)
    return Real(incident, {headers["authorization"] for headers in model.headers})


@pytest.fixture(scope="module")
def played(command: Command, real: Real) -> Played:
    """Give what happened to a program by its name: the demo's three, and one that keeps a checkpoint.json."""
    return {**command.facts, "on checkpoint": telling.as_json(real.incident)}.__getitem__


@pytest.mark.parametrize("name", ["naive", "unsafe", "verifiable", "on checkpoint"])
def test_the_server_had_the_mail_when_the_program_was_killed(played: Played, name: str) -> None:
    assert played(name)["mails_when_killed"] == 1


def test_the_faulty_reconcile_of_the_lesson_sends_the_mail_twice(played: Played) -> None:
    assert played("naive")["mails"] == 2


@pytest.mark.parametrize("name", ["unsafe", "verifiable", "on checkpoint"])
def test_a_run_that_is_carried_on_sends_the_mail_once(played: Played, name: str) -> None:
    assert played(name)["mails"] == 1


@pytest.mark.parametrize("name", ["unsafe", "on checkpoint"])
def test_an_unsafe_mail_is_told_as_unknown_and_named(played: Played, name: str) -> None:
    told = played(name)["told"]
    assert told["is_error"]
    assert told["text"].startswith('Outcome unknown: send_email({"to": "team@example.com", ')
    assert "It was not run again." in told["text"]


def test_the_model_that_is_told_the_truth_tells_it(played: Played) -> None:
    assert "I do not know whether it went out" in played("unsafe")["answer"]


def test_a_verifiable_mail_is_found_by_its_message_id(played: Played) -> None:
    incident = played("verifiable")
    sent = f"Sent to team@example.com as {incident['message_ids'][0]}"
    assert incident["told"] == {"is_error": False, "text": sent}


def test_a_recovered_mail_is_reported_as_sent(played: Played) -> None:
    assert played("verifiable")["answer"] == "I read the 6 notes and mailed the decisions to team@example.com."


def test_the_killed_run_left_an_intent_and_no_result(played: Played) -> None:
    assert played("unsafe")["saved_when_killed"][-2:] == ["responded  1 x send_email", "intended   send_email"]


def test_the_killed_loop_left_the_lessons_fields_and_a_pending_call(played: Played) -> None:
    saved = played("naive")["saved_when_killed"]
    assert [line.split()[0] for line in saved] == [
        "version", "task", "turns", "tokensUsed", "messages", "pendingToolUse",
    ]  # fmt: skip
    assert saved[-1] == "pendingToolUse send_email"


def test_the_loop_that_ran_its_call_again_left_nothing_pending(played: Played) -> None:
    assert played("naive")["added_when_run_again"][-1] == "pendingToolUse null"


@pytest.mark.parametrize(("name", "settled"), [("unsafe", "send_email, unknown"), ("verifiable", "send_email, ok")])
def test_the_second_process_settled_the_call_and_did_not_intend_it_again(
    played: Played, name: str, settled: str
) -> None:
    assert [line.split(maxsplit=1) for line in played(name)["added_when_run_again"][1:]] == [
        ["settled", settled], ["requested"], ["responded", "the answer"],
    ]  # fmt: skip


def is_of(command: Command, pid: int) -> bool:
    """Tell whether a program of the demo has the *pid*: somebody else may have it by now."""
    try:
        return os.fsencode(command.folders[-1]) in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("name", ["naive", "unsafe"])
def test_no_process_is_left_over(command: Command, name: str) -> None:
    assert not is_of(command, command.facts[name]["pid_killed"])


# ---- the mails as the server got them


def mails(terminal: Terminal, name: str) -> list[str]:
    found = mailbox.Maildir(terminal.kept / name / "Maildir", create=False)
    return [str(mail.get_payload(decode=True), "utf-8") for mail in found if not mail.is_multipart()]  # type: ignore[arg-type]


def test_both_mails_of_the_faulty_reconcile_say_the_same(terminal: Terminal) -> None:
    first, second = mails(terminal, "naive")
    assert first == second


def test_the_mail_holds_a_decision_of_every_note(terminal: Terminal) -> None:
    titles = re.findall(r"^.+ 2\d November$", mails(terminal, "unsafe")[0], re.MULTILINE)
    assert len(titles) == 6


# ---- what does not go as it must, and a real model


def test_a_program_that_ends_before_it_mails_is_shown_and_not_waited_for(tmp_path: Path) -> None:
    broken = Program("broken", ("-c", "print('no such model')"), {}, tuple, tuple)
    with pytest.raises(Unexpected, match="sent no mail; it printed:\nno such model"):
        play(broken, tmp_path)


def test_a_program_that_fails_the_second_time_is_shown(tmp_path: Path) -> None:
    broken = Program("broken", ("-c", "raise SystemExit('no such run')"), {}, tuple, tuple)
    with pytest.raises(Unexpected, match=r"broken did not end well \(1\); it printed:\nno such run"):
        run_to_its_end(broken, dict(os.environ), tmp_path / "log")


def test_a_real_model_is_asked_where_the_environment_says_and_with_its_key(real: Real) -> None:
    assert real.keys == {"Bearer a-key-of-the-user"}
