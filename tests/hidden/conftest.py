"""Both ways to drive an agent."""

from drive.conftest import drive  # noqa: F401
