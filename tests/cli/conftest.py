"""Somebody at the command line, in a folder with the agents of `agents.py`."""

import shutil

import pytest

from cli.using import AGENTS, User


@pytest.fixture
def user(tmp_path):
    """Somebody in a folder of their own."""
    shutil.copy(AGENTS, tmp_path / "agents.py")
    return User(tmp_path)
