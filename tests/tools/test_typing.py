"""A user's tools are well typed, and wrong uses are found by mypy."""

import subprocess
import sys
from pathlib import Path

import pytest

USE = Path(__file__).with_name("typed_use.py")


def test_mypy_finds_in_a_users_tools_what_is_wrong_and_nothing_else(pytestconfig: pytest.Config, tmp_path: Path):
    """The first run reads all of pydantic and takes a quarter of a minute, the next ones a second.

    In a process of its own: mypy switches the collection of garbage off and on again.
    """
    kept = getattr(pytestconfig, "cache", None)  # there is none with -p no:cacheprovider
    cache = tmp_path if kept is None else kept.mkdir("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", str(USE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0), done.stdout
