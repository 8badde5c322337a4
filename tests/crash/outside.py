"""What outlives the processes of a test: files in which they note what they did and what they were told.

A process can be killed in the middle of a write: Linux looks for a deadly signal at each page of the file, so the front
of a note stays where a page ends. Each note therefore stands between two marks, and only whole ones count: a process
that dies in a note has not gone on behind it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

START, END = "\x02", "\x03"
WHOLE = re.compile(b"\x02([^\x02\x03]*)\x03\n")


def note(path: Path, *notes: str, durable: bool = False) -> None:
    """Add *notes* to a file in one write, which no other's can come between; *durable*: they are on disk then."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, "".join(f"{START}{one}{END}\n" for one in notes).encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def noted(path: Path) -> list[str]:
    """Return the whole notes of a file, oldest first."""
    return notes_in(path.read_bytes()) if path.exists() else []


def notes_in(data: bytes) -> list[str]:
    """Return the whole notes among the bytes of a file."""
    return [one.decode() for one in WHOLE.findall(data)]


class Outside:
    """The world outside an agent program, where its effects land and are counted, whoever dies meanwhile.

    Each effect is on disk when `note` returns; the service of `charge` drops a key that it has seen.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects.txt"

    def note(self, effect: str) -> None:
        """Add an effect durably."""
        note(self._path, effect, durable=True)

    def effects(self) -> list[str]:
        """Return all effects, oldest first."""
        return noted(self._path)

    def count(self, effect: str) -> int:
        """Return how often *effect* was noted, whatever key stands behind it."""
        return [one.partition(" with ")[0] for one in self.effects()].count(effect)

    def charge(self, key: str, n: int) -> None:
        """Count the attempt; take effect, in one note, unless the key has been seen."""
        self.note(f"asked to charge {n} with {key}")
        if f"charge {n} with {key}" not in self.effects():
            self.note(f"charge {n} with {key}")
