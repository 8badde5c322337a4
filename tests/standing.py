"""A monotonic clock that stands still until what it times has begun: no slow start takes of its time."""

import time


class Standing:
    """Put it in the place of a module's `time`: it goes on while *ready* tells that all is ready, and stands else."""

    def __init__(self, ready):
        self.ready, self.last = ready, time.monotonic()

    def monotonic(self):
        if self.ready():
            self.last = time.monotonic()
        return self.last
