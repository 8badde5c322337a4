"""The demo as a user runs it, once for all tests of this folder: for a program to read, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
from io import FileIO
from pathlib import Path

import pytest

from demo.scenes import Command, Terminal


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Run the demo with --json, from a folder that cannot matter, with proxies that lead nowhere."""
    away, temporary = tmp_path_factory.mktemp("away"), tmp_path_factory.mktemp("temporary")
    with socket.create_server(("127.0.0.1", 0)) as nobody_accepts:
        proxy = f"http://127.0.0.1:{nobody_accepts.getsockname()[1]}"
        proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"), proxy)
        lost = {"TMPDIR": str(temporary), "ANTHROPIC_BASE_URL": "http://192.0.2.1"}
        shown = subprocess.run(
            [sys.executable, "-m", "midstride.demo", "--json"],
            capture_output=True,
            text=True,
            cwd=away,
            env={**without_a_key(), **proxies, **lost},
            timeout=180,
        )
    return Command(shown.returncode, json.loads(shown.stdout), shown.stderr, (away, temporary))


@pytest.fixture(scope="session")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Run the demo with --keep on a terminal of 120 columns."""
    size = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "60"}
    environment = {**without_a_key(), **size, "TMPDIR": str(tmp_path_factory.mktemp("kept"))}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "midstride.demo", "--keep"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        text = b"".join(iter(lambda: _read(screen), b"")).decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain)]
    kept = next(line for line in lines if line.startswith("kept: "))
    return Terminal(process.wait(), lines, Path(kept.removeprefix("kept: ")))


def without_a_key() -> dict[str, str]:
    """Return the environment of somebody who has no key, and no wish about colours."""
    unwanted = {"ANTHROPIC_API_KEY", "NO_COLOR", "FORCE_COLOR", "MIDSTRIDE_STORE"}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def _read(screen: FileIO) -> bytes:
    """Read what is there; on Linux the end of a terminal is an error."""
    try:
        return screen.read(65_536) or b""
    except OSError:
        return b""
