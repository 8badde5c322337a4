"""What the tests of examples share: programs as a newcomer runs them, with a mail server and a model at their end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstride.demo.mail import MailServer
from midstride.testing.fake_model import FakeModel

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Command:
    """A demo that has ended: *facts* is its JSON, *folders* are those in which it could have left something."""

    returncode: int
    facts: dict[str, Any]
    errors: str
    folders: tuple[Path, ...]


@dataclass(frozen=True)
class Terminal:
    """A demo on a terminal: the *lines* without colours, and the folder that was *kept*."""

    returncode: int
    lines: list[str]
    kept: Path


def environment(post: MailServer, model: FakeModel) -> dict[str, str]:
    """Return what an example finds in its environment; without a store."""
    return {
        **{name: value for name, value in os.environ.items() if name != "MIDSTRIDE_STORE"},
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none-needed",
        "NO_PROXY": "*",
        "no_proxy": "*",
        "SMTP_HOST": "127.0.0.1",
        "SMTP_PORT": str(post.port),
    }


def run(example: str, *arguments: str, environment: Mapping[str, str], folder: Path) -> str:
    """Run an example to its end in *folder* and return what it prints."""
    shown = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def kill_in_its_mail(
    post: MailServer, example: str, *arguments: str, environment: Mapping[str, str], folder: Path
) -> None:
    """Run an example until the server has its mail, and kill it before it is told so."""
    filed = post.withhold()
    process = subprocess.Popen([sys.executable, EXAMPLES / example, *arguments], env=environment, cwd=folder)
    try:
        assert filed.wait(60)
    finally:
        process.kill()
        process.wait()
