"""A wish to stop in order: nothing new starts, and what runs gets some seconds to end."""

from __future__ import annotations

import asyncio
import time

GRACE_SECONDS = 8.0
"""Enough for most tools, and less than the 10 s that container runtimes grant between SIGTERM and SIGKILL."""


class Stop:
    """Ask for it from the event loop's thread; the driver raises Interrupted once what runs has ended."""

    def __init__(self, grace_seconds: float = GRACE_SECONDS) -> None:
        self.grace_seconds = grace_seconds
        self.asked = asyncio.Event()
        self._until: float | None = None

    def ask(self) -> None:
        """Ask the driver to stop."""
        self._until = time.monotonic() + self.grace_seconds
        self.asked.set()

    def seconds_left(self) -> float | None:
        """Return what is left of the grace; None while nobody has asked."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())
