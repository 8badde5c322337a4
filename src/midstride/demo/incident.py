"""Three programs through the same incident, each a real process; what comes of it is counted in the server's mailbox.

The moment is exact without a clock: the mail server files the mail, withholds its answer and says so here; then the
program is killed, so it never learns. Only then is the same program run again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from midstride.demo import EXAMPLES, answers
from midstride.demo.mail import MailServer
from midstride.demo.programs import Program, news, program
from midstride.testing.fake_model import FakeModel

NAMES = ("naive", "unsafe", "verifiable")

Tell = Callable[[str, str], None]
"""Hears how far a program is: its name, and what it is at, in words."""

PATIENCE = 60.0
"""Seconds for the fake model's answers; hundreds of times what they take."""

REAL_PATIENCE = 600.0
"""Seconds for a real model's."""


class Unexpected(RuntimeError):
    """The demo did not go as it must; the message holds what the program printed."""


# ---- what happened


@dataclass(frozen=True)
class Mail:
    """One mail of the mailbox."""

    message_id: str
    to: str
    subject: str
    body: str


@dataclass(frozen=True)
class Incident:
    """What happened to one program.

    *taken* counts the mails when the program was killed, *mails* are those at the end. *saved* is what was on disk
    when it was killed, in words, and *added* what the second process wrote. *told* is the result of the mail's call in
    the next request, *answer* what the second process printed. *seconds* in all.
    """

    name: str
    pid: int
    taken: int
    saved: tuple[str, ...]
    added: tuple[str, ...]
    told: answers.Result
    answer: str
    mails: tuple[Mail, ...]
    store: str | None
    seconds: float

    @property
    def mailed_again(self) -> bool:
        """Tell whether the second process sent the mail that the server had taken from the first."""
        return len(self.mails) > self.taken


# ---- the incident


def play_all(folder: Path, *, real: bool, tell: Tell) -> list[Incident]:
    """Play all three at once, each in a folder of its own, and return them in order."""

    def played(name: str) -> Incident:
        own = folder / name
        own.mkdir()
        # Only midstride's two programs are worth a real model's answers.
        return play(program(name, own), own, real=real and name != "naive", tell=tell)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        return list(pool.map(played, NAMES))


def play(program: Program, folder: Path, *, real: bool = False, tell: Tell = lambda name, what: None) -> Incident:
    """Run, kill, run again; *folder* takes the mailbox and what the processes print.

    With *real* the model is the API that the environment names. Raises Unexpected when the program ends by itself
    before it mails, or does not end well the second time.
    """
    began, patience = time.monotonic(), REAL_PATIENCE if real else PATIENCE
    with MailServer(folder / "Maildir") as post, _model(real) as model:
        environment = {**_environment(model), **_settings(post), **program.environment}
        tell(program.name, "at work")
        pid = _killed_in_its_mail(program, environment, folder / "first.log", post.withhold(), patience)
        taken, saved = len(post.mails()), tuple(program.saved())
        tell(program.name, "killed, run again")
        answer = run_to_its_end(program, environment, folder / "second.log", patience)
        transcript = model.requests[-1]["messages"] if model else program.transcript()
        mails, added = tuple(map(_mail, post.mails())), news(saved, tuple(program.saved()))
    told = next(result for result in answers.results_in(transcript) if result.name == "send_email")
    tell(program.name, "done")
    seconds = time.monotonic() - began
    return Incident(program.name, pid, taken, saved, added, told, answer, mails, program.store, seconds)


def _killed_in_its_mail(
    program: Program, environment: Mapping[str, str], log: Path, filed: threading.Event, patience: float
) -> int:
    """Run the program until its mail is *filed*, kill it, and return its process id."""
    with _started(program, environment, log) as process:
        deadline = time.monotonic() + patience
        while not filed.wait(0.05):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unexpected(f"the program sent no mail; it printed:\n{log.read_text()}")
        process.kill()
        process.wait()
    return process.pid


def run_to_its_end(program: Program, environment: Mapping[str, str], log: Path, patience: float = PATIENCE) -> str:
    """Run the program undisturbed and return what it prints; raises Unexpected unless it ends well in time."""
    with _started(program, environment, log) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        if process.poll() != 0:
            raise Unexpected(f"{program.name} did not end well ({process.returncode}); it printed:\n{log.read_text()}")
    return log.read_text().strip()


@contextlib.contextmanager
def _started(program: Program, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the program; whatever happens in the block, its process is gone after it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *program.command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _model(real: bool) -> contextlib.AbstractContextManager[FakeModel | None]:
    return contextlib.nullcontext() if real else FakeModel(answers.reply)


def _environment(model: FakeModel | None) -> dict[str, str]:
    """Return the environment, turned to the fake model where there is one: no proxy, no key and no other address."""
    if model is None:
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    loopback = {"NO_PROXY": "*", "no_proxy": "*"}
    return kept | loopback | {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none-needed"}


def _settings(post: MailServer) -> dict[str, str]:
    return {
        "NOTES_FOLDER": str(EXAMPLES / "notes"),
        "NOTES_SENT_FOLDER": str(post.folder),
        "SMTP_HOST": "127.0.0.1",
        "SMTP_PORT": str(post.port),
    }


def _mail(message: Message) -> Mail:
    body = message.get_payload(decode=True)
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else ""
    return Mail(message["Message-ID"], message["To"], message["Subject"], text.strip())
