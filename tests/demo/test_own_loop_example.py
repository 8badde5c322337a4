"""examples/own_loop.py: a loop and a client of one's own, killed in the middle of a mail and run again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.scenes import EXAMPLES, environment, kill_in_its_mail, run
from midstride import Runs
from midstride.demo import answers
from midstride.demo.mail import MailServer
from midstride.testing.fake_model import FakeModel

PROGRAM = "own_loop.py"


@dataclass(frozen=True)
class Story:
    first: str
    again: str
    requests_when_done: int
    model: FakeModel
    post: MailServer
    folder: Path


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Kill the program in its mail, run it to its end, and run it once more."""
    folder = tmp_path_factory.mktemp("own_loop")
    with MailServer(folder / "Maildir") as post, FakeModel(answers.reply) as model:
        found = {**environment(post, model), "NOTES_SENT_FOLDER": str(post.folder)}
        kill_in_its_mail(post, PROGRAM, environment=found, folder=folder)
        first = run(PROGRAM, environment=found, folder=folder)
        done = len(model.requests)
        yield Story(first, run(PROGRAM, environment=found, folder=folder), done, model, post, folder)


def test_a_loop_of_ones_own_that_was_killed_in_its_mail_mails_once(story: Story) -> None:
    assert len(story.post.mails()) == 1


def test_it_prints_its_answer_when_it_is_run_again(story: Story) -> None:
    assert story.first == "I read the 6 notes and mailed the decisions to team@example.com.\n"


def test_a_run_that_is_done_is_printed_again_without_a_request(story: Story) -> None:
    assert (story.again, len(story.model.requests)) == (story.first, story.requests_when_done)


def test_its_client_is_asked_once_for_each_turn_though_a_process_died(story: Story) -> None:
    assert story.requests_when_done == 4


def test_the_run_is_kept_in_the_default_store_of_its_folder(story: Story) -> None:
    with closing(Runs(f"sqlite:{story.folder}/.midstride/runs.db")) as runs:
        assert runs.ids() == ["notes-2026-W48"]


def test_the_loop_around_ones_own_client_is_ten_lines() -> None:
    text = (EXAMPLES / PROGRAM).read_text()
    assert len(text.partition("client = ")[2].splitlines()) <= 10
