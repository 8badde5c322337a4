"""What one process has open of a database: made when it is missing, checked before it is used, its WAL kept short."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from midstride.errors import Damaged, StoreError
from midstride.stores import disk, forking, locks
from midstride.stores.codec import Codec
from midstride.stores.database import BUSY_SECONDS, connect, make_tables, prepare, reported
from midstride.stores.vault import Vault, open_vault

log = logging.getLogger("midstride")

WAL_BYTES = 64 * 2**20
"""Beyond this the WAL is folded into the database: rarely enough to cost nothing, early enough to stay small."""

FOLD_WAITS = (0.05, 0.1, 0.2, 0.4)
"""Seconds that a fold waits for those who write or read, once the WAL is twice as large, and writers for it at most.

A wait is for the reader that it met; one that begins meanwhile reads what is newest, and only the next try sees that.
"""

PAGE_BYTES = 16_384
"""Of a database that is made here: entries of 2 KiB take 1.1 times their bytes then, and 1.5 times on 4 KiB."""

APPLICATION_ID = 0x6D696473
"""Lets `file` recognise a database that is ours alone: "mids"."""

SETUP_BYTE = 0
CHECKPOINT_BYTE = 1


class _Connection:
    """One connection, made at its first use."""

    def __init__(self) -> None:
        self.made: sqlite3.Connection | None = None
        self.file: disk.Stamp | None = None


class Opened:
    """The connections of this process to the database *path*: one that reads, and one that writes.

    So whoever reads does not wait for another's write to be on disk.
    """

    def __init__(self, path: Path, lock_file: Path, codec: Codec | None = None) -> None:
        self.pid = os.getpid()
        self.path = path
        self.codec = codec
        self.vault: Vault | None = None  # opened with the connection for writing
        self._said = False
        self.wal = path.with_name(path.name + "-wal")
        self._lock_file = lock_file
        self.reading_lock, self.writing_lock = threading.Lock(), threading.Lock()
        self._read, self._write = _Connection(), _Connection()
        self._fold_above = 0
        forking.watch(self)

    def __del__(self) -> None:
        # Nobody closes an agent that stands at the top of a module, and Python 3.13 warns of a connection left open.
        for one in (self._read.made, self._write.made):
            if one is not None and self.pid != os.getpid():
                forking.never_close(one)
            elif one is not None:
                one.close()

    def is_absent(self) -> bool:
        """Tell whether there is no database; Damaged when it is gone and its WAL is not."""
        if disk.stamp(self.path) is not None:
            return False
        if disk.stamp(self.wal) is not None:
            if disk.stamp(self.path) is not None:
                return False  # somebody else has just made both
            raise Damaged(
                f"{self.path} is missing, but its -wal file is there: put the database back, or remove the -wal file "
                "to begin anew"
            )
        return self._read.made is None and self._write.made is None

    def reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Lend the connection for reading to whoever has its lock; SQLite's errors become ours.

        The lock is taken by the caller's own `with`: what Ctrl-C interrupts between a generator and its block would
        keep it for as long as anybody looks at the error.
        """
        return self._lent(self._read)

    def writing(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Lend the connection for writing to whoever has its lock."""
        return self._lent(self._write)

    @contextlib.contextmanager
    def _lent(self, one: _Connection) -> Iterator[sqlite3.Connection]:
        with reported(self.path):
            if one.made is None:
                one.made = self._connect(writing=one is self._write)
                one.file = disk.stamp(self.path)
            elif not disk.same_file(one.file, disk.stamp(self.path)):
                raise StoreError(
                    f"{self.path} was removed or replaced while it was in use: nothing was written; put it back, or "
                    "run the same program again to begin with what is there now"
                )
            yield one.made

    def renew(self) -> None:
        """Make the connection for writing anew at its next use: what it knows of the file may not be true any more."""
        with self.writing_lock:
            _close(self._write)

    def pause(self, seconds: float) -> bool:
        """Close both connections before a fork, and keep others from making them anew until `resume`.

        False where somebody uses one of them for longer than *seconds*.
        """
        with contextlib.ExitStack() as taken:  # Ctrl-C while it waits leaves nothing locked
            for lock in (self.reading_lock, self.writing_lock):
                if not lock.acquire(timeout=seconds):
                    return False
                taken.callback(lock.release)
            try:
                _close(self._read)
                _close(self._write)
            except sqlite3.Error:
                return False
            taken.pop_all()
            return True

    def resume(self) -> None:
        """Let others use the connections again, which are made anew."""
        self.writing_lock.release()
        self.reading_lock.release()

    def close(self) -> None:
        """Fold the WAL into the database, and close it."""
        with self.reading_lock, self.writing_lock:
            last = self._write if self._write.made is not None else self._read
            if last.made is not None:
                self.fold_wal(last.made, whatever_size=True)
            _close(self._read)
            _close(self._write)

    def fold_wal(self, connection: sqlite3.Connection, *, whatever_size: bool = False, patiently: bool = False) -> None:
        """Fold the WAL into the database when it has become large, unless somebody else is at it.

        A fold that finds others writing or reading gives up, so among many it might never come about: once the WAL is
        twice as large it waits for them. One that was in vain is tried again when the WAL has grown by a quarter, so
        that a reader that stays for an hour costs little.
        """
        # What is in the WAL is durable there: if it cannot be folded in now, it will be another time.
        with contextlib.suppress(sqlite3.Error, StoreError):
            wal = disk.stamp(self.wal)
            if wal is None or not (whatever_size or wal.size > max(WAL_BYTES, self._fold_above)):
                return
            waits = FOLD_WAITS if patiently or wal.size > 2 * WAL_BYTES else (0.0,)
            with locks.exclusive(self._lock_file, CHECKPOINT_BYTE, wait_seconds=0):
                folded = any(_checkpoint(connection, seconds) for seconds in waits)
            self._fold_above = 0 if folded else wal.size * 5 // 4

    # ---- opening

    def _connect(self, *, writing: bool) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < (3, 37):
            raise StoreError(f"SQLite is {sqlite3.sqlite_version}, which has no strict tables: use 3.37 or newer")
        forking.check(self.path)
        disk.make_folder(self.path.parent)
        known = disk.stamp(self._lock_file) is not None
        with locks.exclusive(self._lock_file, SETUP_BYTE):
            if self.is_absent():
                self._make()
            elif known and (size := self.path.stat().st_size) <= 1:  # SQLite takes one byte for an empty file, too
                raise Damaged(
                    f"{self.path} is empty ({size} bytes): the journals that it held are lost; restore it from a "
                    "backup, or remove it to begin anew"
                )
            connection = connect(self.path)
            try:
                prepare(connection, self.path)
                self._say_who_may_read()
                if writing:
                    self.vault = open_vault(connection, self.codec, self.path)
            except BaseException:
                connection.close()
                raise
        return connection

    def _say_who_may_read(self) -> None:
        """Say it once if every user may read the file: it was made so by somebody else, who may want it like that."""
        mode = self.path.stat().st_mode & 0o777
        if mode & 0o007 and not self._said:
            self._said = True
            log.warning("%s is open to every user of this machine (mode %03o); chmod 600 closes it", self.path, mode)

    def _make(self) -> None:
        disk.clear_leftovers(self.path)
        temporary = disk.temporary_name(self.path)
        try:
            disk.make_private(temporary)
            with contextlib.closing(connect(temporary)) as connection:
                connection.execute(f"pragma page_size={PAGE_BYTES}")
                connection.execute("pragma auto_vacuum=incremental")  # so that what is removed gives its space back
                connection.execute(f"pragma application_id={APPLICATION_ID}")
                # No WAL yet: closing would fold it in, and tell nobody when the disk is too full for that.
                make_tables(connection)
            disk.publish_durably(temporary, self.path)
        except BaseException:
            disk.clear_leftovers(self.path)
            raise


def _close(one: _Connection) -> None:
    if one.made is not None:
        one.made.close()
        one.made = None


def _checkpoint(connection: sqlite3.Connection, wait_seconds: float) -> bool:
    """Fold the WAL and cut it to nothing; False where others were in the way, and it was folded in part at most."""
    connection.execute(f"pragma busy_timeout={round(wait_seconds * 1000)}")
    try:
        (busy, *_) = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return not busy
    finally:
        connection.execute(f"pragma busy_timeout={round(BUSY_SECONDS * 1000)}")
