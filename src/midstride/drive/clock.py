"""The clock of a driver, so that a test can set it."""

from __future__ import annotations

import time


class Clock:
    """The system's clock."""

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return time.time()

    def seconds_until(self, at: float) -> float:
        """Return how long to wait, really, until *at*; a clock that is set by hand goes there and returns 0."""
        return max(0.0, at - self.now())
