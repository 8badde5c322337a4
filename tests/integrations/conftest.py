"""Spans and metrics in memory, and both ways to drive an agent."""

import pytest

from drive.conftest import drive  # noqa: F401
from integrations.seeing import Seen


@pytest.fixture
def seen():
    """What telemetry was given."""
    seen = Seen()
    yield seen
    seen.close()
