"""A clock that a test sets: waiting for a time on it goes there at once."""

from __future__ import annotations

from midstride.drive.clock import Clock


class SettableClock(Clock):
    """Stands at *at* (seconds since the epoch) until it is set or waited for; `waits` are the seconds waited."""

    def __init__(self, at: float = 1_790_000_000.0) -> None:
        self.at = at
        self.waits: list[float] = []

    def now(self) -> float:
        """Return the time it stands at."""
        return self.at

    def seconds_until(self, at: float) -> float:
        """Go to *at* and return 0: no real time passes."""
        self.waits.append(max(0.0, at - self.at))
        self.at = max(self.at, at)
        return 0.0
