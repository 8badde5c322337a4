"""The examples, as a newcomer runs them: plain programs with a mail server and a model at their other end."""

from __future__ import annotations

import runpy
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import midstride.demo
from demo.scenes import EXAMPLES, environment, run
from midstride import Agent, CannotTell, Context, DidNotHappen, Happened
from midstride.demo import answers
from midstride.demo.mail import MailServer
from midstride.testing.fake_model import FakeModel

NOTES = EXAMPLES / "notes.py"
CONTEXT = Context("5" * 64, "a run", "toolu_1", 8, 0)


@pytest.fixture
def post(tmp_path: Path) -> Iterator[MailServer]:
    with MailServer(tmp_path / "Maildir") as server:
        yield server


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(answers.reply) as server:
        yield server


def run_notes(post: MailServer, model: FakeModel, store: str, folder: Path) -> str:
    found = {**environment(post, model), "MIDSTRIDE_STORE": store}
    return run("notes.py", "a run", environment=found, folder=folder)


def test_the_notes_example_mails_once_and_prints_its_answer(post: MailServer, model: FakeModel, tmp_path: Path) -> None:
    printed = run_notes(post, model, f"sqlite:{tmp_path}/runs.db", tmp_path)
    assert printed == "I read the 6 notes and mailed the decisions to team@example.com.\n"
    assert [mail["Subject"] for mail in post.mails()] == ["Decisions of this week"]


@pytest.mark.parametrize("form", ["sqlite", "checkpoint"])
def test_the_same_id_again_prints_the_stored_answer_without_a_request(
    post: MailServer, model: FakeModel, tmp_path: Path, form: str
) -> None:
    first = run_notes(post, model, f"{form}:{tmp_path}/store", tmp_path)
    assert len(model.requests) == 4
    assert run_notes(post, model, f"{form}:{tmp_path}/store", tmp_path) == first
    assert (len(model.requests), len(post.mails())) == (4, 1)


# ---- its tools


def notes(monkeypatch: pytest.MonkeyPatch, **settings: str) -> dict[str, Any]:
    for name in ("NOTES_FOLDER", "NOTES_SENT_FOLDER", "NOTES_EFFECT", "SMTP_HOST", "SMTP_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(NOTES))


def test_the_module_has_an_agent_to_be_run_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(notes(monkeypatch)["agent"], Agent)


@pytest.mark.parametrize(("setting", "effect"), [("", "verifiable"), ("unsafe", "unsafe")])
def test_the_effect_of_mailing_can_be_chosen(monkeypatch: pytest.MonkeyPatch, setting: str, effect: str) -> None:
    agent = notes(monkeypatch, NOTES_EFFECT=setting)["agent"]
    assert [tool.effect for tool in agent.tools] == ["read_only", "read_only", effect]


@pytest.mark.parametrize("name", ["../notes.py", "/etc/passwd", "./2026-11-23-planning.md", "", "."])
def test_no_name_leads_out_of_the_folder(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(ValueError, match="there is no note"):
        notes(monkeypatch)["read_note"](name)


def test_without_a_sent_folder_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes(monkeypatch)["find_email"]("a@b.example", CONTEXT) == CannotTell("No folder of sent mail is known.")


def test_a_mail_that_was_sent_is_found_with_the_same_words(post: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {"NOTES_SENT_FOLDER": str(post.folder), "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(post.port)}
    made = notes(monkeypatch, **sent)
    result = made["send_email"]("a@b.example", "Ünïcode", "Grüße", CONTEXT)
    assert made["find_email"]("a@b.example", CONTEXT) == Happened(result)


def test_a_mail_that_was_not_sent_is_not_found(post: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = notes(monkeypatch, NOTES_SENT_FOLDER=str(post.folder))["find_email"]("a@b.example", CONTEXT)
    assert isinstance(found, DidNotHappen)


def test_a_mail_that_cannot_be_made_did_certainly_not_happen(post: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = notes(monkeypatch, SMTP_HOST="127.0.0.1", SMTP_PORT=str(post.port))
    with pytest.raises(DidNotHappen, match="The mail was refused"):
        made["send_email"]("a@b.example", "two\nlines", "body", CONTEXT)
    assert post.mails() == []


def test_a_mail_without_a_server_did_certainly_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:  # bound and not listening: nobody else gets the port, and nobody answers
        silent.bind(("127.0.0.1", 0))
        made = notes(monkeypatch, SMTP_HOST="127.0.0.1", SMTP_PORT=str(silent.getsockname()[1]))
        with pytest.raises(DidNotHappen, match="Connection refused"):
            made["send_email"]("a@b.example", "s", "body", CONTEXT)


def test_the_demo_runs_this_very_example() -> None:
    assert (midstride.demo.EXAMPLES / "notes.py").samefile(NOTES)


def test_the_notes_example_stays_short_enough_to_be_read_first() -> None:
    assert len(NOTES.read_text().splitlines()) < 100
