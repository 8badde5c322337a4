"""A user's tools are well typed, and wrong uses are found by mypy."""

from pathlib import Path

import pytest
from mypy import api

USE = Path(__file__).with_name("typed_use.py")


def test_mypy_finds_in_a_users_tools_what_is_wrong_and_nothing_else(pytestconfig: pytest.Config):
    """The first run reads all of pydantic and takes a quarter of a minute, the next ones a second."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("mypy")
    out, err, status = api.run(["--strict", "--config-file=", f"--cache-dir={cache}", str(USE)])
    assert (err, status) == ("", 0), out
