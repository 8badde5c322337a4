"""The space of removed runs given back to the file system, in short steps that others write between."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from midstride.errors import Held
from midstride.stores import disk, removal
from midstride.stores.contract import Freed
from midstride.stores.database import short_transaction
from midstride.stores.opened import Opened

PAUSE_SECONDS = 0.2
"""How long it rests between two steps at most, for those that write meanwhile."""

NUMBER = re.compile("[1-9][0-9]{0,14}")
"""The name of a folder of whole results."""


class Shrinking:
    """What gives space back in the database that is *opened*; *held* has the lock of the run with a number."""

    def __init__(self, opened: Opened, held: Callable[[int], AbstractContextManager[object]]) -> None:
        self._opened, self._held = opened, held
        self._results = disk.results_of(opened.path)

    def shrink(self) -> Freed:
        """Do what `Store.shrink` promises; in a user's database that cannot give space back, the note says so."""
        self._fold()  # what is in the WAL is counted neither before nor after
        before = self._bytes()
        with self._opened.reading_lock, self._opened.reading() as connection:
            numbers = removal.remains(connection)
            can = removal.gives_space_back(connection)
        deleted = self.sweep(numbers)
        self._remove_results()
        if can:
            self._in_steps(removal.vacuum)
        self._fold()
        return Freed(deleted, before, self._bytes(), "" if can else _keeps_its_pages(self._opened.path))

    def sweep(self, numbers: list[int]) -> int:
        """Delete the entries of the runs *numbers* that are removed, and return how many these were."""
        deleted = 0

        def step(connection: sqlite3.Connection) -> bool:
            nonlocal deleted
            deleted += removal.sweep(connection, numbers)
            return bool(numbers)

        self._in_steps(step)
        return deleted

    def _in_steps(self, step: Callable[[sqlite3.Connection], bool]) -> None:
        """Carry *step* out until it has nothing left; between its short transactions others have as much time."""
        more = True
        while more:
            begun = time.monotonic()
            with self._opened.writing_lock, self._opened.writing() as connection:
                more = short_transaction(connection, step)
                self._opened.fold_wal(connection)
            if more:
                time.sleep(min(PAUSE_SECONDS, time.monotonic() - begun))

    def _remove_results(self) -> None:
        """Remove the folders of the whole results of runs that are gone."""
        names = os.listdir(self._results) if self._results.is_dir() else []
        for number in (int(name) for name in names if NUMBER.fullmatch(name)):
            if self._is_gone(number):
                # With the run's lock, and asked again: its id may be forgotten, and begin anew.
                with contextlib.suppress(Held), self._held(number):
                    if self._is_gone(number):
                        disk.remove_folder(self._results / str(number))

    def _is_gone(self, number: int) -> bool:
        with self._opened.reading_lock, self._opened.reading() as connection:
            return removal.is_gone(connection, number)

    def _fold(self) -> None:
        with self._opened.writing_lock, self._opened.writing() as connection:
            self._opened.fold_wal(connection, whatever_size=True, patiently=True)

    def _bytes(self) -> int:
        return sum(map(disk.size_of, (self._opened.path, self._opened.wal, self._results)))


def _keeps_its_pages(path: Path) -> str:
    return (
        f"the space is used again, but {path} does not get smaller: it was not made by midstride, and has no "
        "auto_vacuum; what returns the space is SQLite's `vacuum`, which rewrites the file while nobody else writes"
    )
