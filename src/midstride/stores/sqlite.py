"""The default store: every run's journal in one SQLite file, or in the user's own SQLite database.

Rules of this file:

- The database file is never opened by hand: closing any descriptor of it drops SQLite's own POSIX locks. A new one
  is built under another name and then given its own, so an empty file is a damaged one and no fresh start.
- WAL with `synchronous=full`, read back: a commit is on disk when it returns.
- Checkpoints are made by `Opened.fold_wal` alone, by one process at a time: before 3.51.3 SQLite may lose a reset of
  the WAL when several do so.
- Every append checks token, seq and inserts in one `begin immediate` transaction; order is by seq, never by time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from midstride.core.journal import Entry
from midstride.errors import Damaged, DeclarationError, Fenced, Holder, KeyMissing, StoreError
from midstride.stores import disk, forking, locks, removal, rows
from midstride.stores.codec import Codec
from midstride.stores.contract import Claim, Freed, Lease, Transaction
from midstride.stores.database import reported, short_transaction
from midstride.stores.opened import Opened
from midstride.stores.shrinking import Shrinking
from midstride.stores.tool_connection import ToolConnection, begin_for_tool
from midstride.stores.vault import ENCRYPTED, Vault, about_result, check_still_plain, decoded, encoded
from midstride.stores.writing import Writer

LEASE_BYTES = 16


class SqliteStore:
    """Journals in the SQLite database at *path*, which may hold the user's own tables too.

    With a *codec* all that is written is encoded: `AesGcm` encrypts it. Entries from before stay as they are, and from
    then on nothing is written without one. Nothing is made on disk before a run is leased or written to. Raises
    DeclarationError for `:memory:`.
    """

    transactional = True
    claims = True

    def __init__(self, path: str | os.PathLike[str], *, codec: Codec | None = None) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise DeclarationError(f"{os.fspath(path)!r} is no file to keep a journal in: use sqlite:PATH, or memory:")
        self.url = f"sqlite:{os.fspath(path)}"
        self._path = Path(os.path.realpath(path))  # so that a later chdir changes nothing
        self._lock_file = locks.lock_file_of(self._path)
        self._leases: set[locks.RecordLock] = set()
        self._codec = codec
        self._mine = _Mine(self._path, self._lock_file, codec)

    def lease(self, run_id: str, *, take_over: bool = False) -> locks.RecordLock:
        """Take the right to drive *run_id*; Held names the living process that has it."""
        spot = LEASE_BYTES + self._number(run_id)
        newest = partial(self._taken, run_id)
        return locks.take(self._lock_file, spot, run_id, among=self._leases, newest=newest, take_over=take_over)

    def holder(self, run_id: str) -> Holder | None:
        """Return the living process that drives the run."""
        if self._opened.is_absent():
            return None
        with self._opened.reading_lock, self._opened.reading() as connection:
            number = rows.number_of(connection, run_id)
        if number is None:
            return None
        return locks.holder(self._lock_file, LEASE_BYTES + number, newest=lambda: self._taken(run_id))

    def _number(self, run_id: str) -> int:
        with self._opened.reading_lock, self._opened.reading() as connection:
            number = rows.number_of(connection, run_id)
        if number is None:
            # Without a sync: one that a power cut takes back was nobody's, who died too.
            with self._opened.writing_lock, self._opened.writing() as connection:
                number = short_transaction(connection, partial(rows.make_number, run_id=run_id), synced=False)
        return number

    def _taken(self, run_id: str) -> Entry | None:
        with self._opened.reading_lock, self._opened.reading() as connection:
            return rows.newest_taken(connection, run_id, self._codec)

    def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries behind seq *after*, in order, at most *limit* of them."""
        if self._opened.is_absent():
            return []
        with self._opened.reading_lock, self._opened.reading() as connection:
            try:
                return rows.read(connection, run_id, after, limit, self._codec)
            except Damaged as error:
                rows.live(connection, run_id)  # it may have been removed while it was read
                raise Damaged(f"run {run_id!r} in {self._path}: {error}", whole=error.whole) from None
            except KeyMissing as error:
                raise KeyMissing(f"run {run_id!r} in {self._path}: {error}", error.key_id, error.entries) from None

    def check(self) -> list[str]:
        """Return what SQLite itself finds wrong with the database's pages."""
        if self._opened.is_absent():
            return []
        with self._opened.reading_lock, self._opened.reading() as connection:
            found = [str(row[0]) for row in connection.execute("pragma integrity_check(20)").fetchall()]
        return [f"{self._path}: {one}" for one in found if one != "ok"]

    def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        *,
        token: int | None,
        claim: Claim | None = None,
        over: bool = False,
    ) -> None:
        """Add *entries* behind the last one, all or none; when this returns they are on disk."""
        if entries:
            self._here().writer.add(rows.Addition(run_id, entries, token, claim, over))

    @contextlib.contextmanager
    def transaction(self, run_id: str) -> Iterator[Transaction]:
        """Open a transaction of the database for a tool; it commits at the end of the block.

        The tool's connection enforces the foreign keys that its tables declare. A constraint that fails only at the
        commit raises sqlite3.IntegrityError: it is the tool's, and all is rolled back.
        """
        with self._opened.writing_lock, self._opened.writing():
            vault = self._opened.vault  # the file is there, and ours
        with forking.in_use(self._path):
            with reported(self._path):
                connection, pid = begin_for_tool(self._path), os.getpid()
            try:
                yield SqliteTransaction(connection, run_id, self._path, vault)
                _check_open(connection, self._path)
                if os.getpid() != pid:
                    raise Fenced(
                        f"run {run_id!r}: this process was forked inside of the transaction, which is its parent's: "
                        "nothing was written"
                    )
                with reported(self._path, besides=sqlite3.IntegrityError), connection.ours():
                    connection.execute("commit")
            finally:
                if os.getpid() == pid:
                    connection.end()  # rolls back what is not committed
                else:
                    forking.never_close(connection)
        with self._opened.writing_lock, self._opened.writing() as own:
            self._opened.fold_wal(own)

    def keep(self, run_id: str, data: bytes) -> str:
        """Keep the whole of a result that was cut, as a file in the run's folder in `<path>.results`."""
        folder = self._results(self._number(run_id))
        with self._opened.writing_lock, self._opened.writing() as connection:
            vault = self._opened.vault
            check_still_plain(connection, vault)
        if vault is None:
            return disk.keep_in(folder, data, beside=self._path)
        name = f"{vault.name(data)}{ENCRYPTED}"
        return disk.keep_in(folder, encoded(vault.codec, data, about_result(name)), beside=self._path, name=name)

    def kept(self, where: str) -> bytes:
        """Return the whole of a result that `keep` kept at *where*."""
        data, name = disk.kept_beside(self._path, where)
        if not name.endswith(ENCRYPTED):
            return data
        try:
            return decoded(self._codec, data, about_result(name))
        except KeyMissing as error:
            raise KeyMissing(f"{where}: {error}", error.key_id) from None
        except Damaged as error:
            raise Damaged(f"{where} is damaged ({error}); it was left as it is") from None

    def _results(self, number: int | str) -> Path:
        return disk.results_of(self._path) / str(number)

    def runs(self, *, newest: int | None = None) -> list[str]:
        """Return the ids of the runs that have started, oldest first; of the *newest* so many alone."""
        if self._opened.is_absent():
            return []
        with self._opened.reading_lock, self._opened.reading() as connection:
            return rows.ids(connection, newest=newest)

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that are not known to be over, oldest first."""
        if self._opened.is_absent():
            return []
        with self._opened.reading_lock, self._opened.reading() as connection:
            return rows.unfinished(connection)

    def ended(self, before: float) -> list[str]:
        """Return the ids of the runs that ended before that time, oldest first."""
        if self._opened.is_absent():
            return []
        with self._opened.reading_lock, self._opened.reading() as connection:
            return removal.ended(connection, before)

    def size(self, run_id: str) -> int:
        """Return how many bytes the run's entries and the whole results kept for it take."""
        if self._opened.is_absent():
            return 0
        with self._opened.reading_lock, self._opened.reading() as connection:
            number = rows.number_of(connection, run_id)
            entries = 0 if number is None else removal.size(connection, number)
        return entries + (0 if number is None else disk.size_of(self._results(number)))

    def remove(self, run_id: str, lease: Lease, *, last: int | None, at: float, free_key: str | None = None) -> None:
        """Leave nothing of the run but a tombstone; `shrink` gives its space back."""
        if self._opened.is_absent():
            raise removal.unknown(run_id)
        with self._opened.writing_lock, self._opened.writing() as connection:
            vault = self._opened.vault
            key = free_key if free_key is None or vault is None else vault.claim(free_key)
            bury = partial(removal.bury, run_id=run_id, lease=lease, last=last, at=at, free_key=key)
            # Without a sync: one that a power cut takes back was not removed, and is whole; the next sync keeps it.
            short_transaction(connection, bury, synced=False)

    def forget(self, run_id: str, lease: Lease) -> None:
        """Take a removed run's tombstone away, its business keys and what `shrink` has not given back yet."""
        if self._opened.is_absent():
            raise removal.unknown(run_id, "no removed run")
        self._shrinking().sweep([self._number(run_id)])
        with self._opened.writing_lock, self._opened.writing() as connection:
            number = short_transaction(connection, partial(removal.unbury, run_id=run_id, lease=lease))
        disk.remove_folder(self._results(number))

    def shrink(self) -> Freed:
        """Give the space of removed runs back; where the user's database cannot, its note says so."""
        if self._opened.is_absent():
            return Freed(0, 0, 0)
        return self._shrinking().shrink()

    def _shrinking(self) -> Shrinking:
        return Shrinking(self._opened, self._held)

    @contextlib.contextmanager
    def _held(self, number: int) -> Iterator[None]:
        lease = locks.take(self._lock_file, LEASE_BYTES + number, str(number), among=set(), newest=lambda: None)
        try:
            yield
        finally:
            lease.release(clean=lease.after_clean)

    def foreign(self, run_id: str) -> Mapping[str, Any] | None:
        """Return None: a database is no checkpoint."""
        return None

    def close(self) -> None:
        """Fold the WAL into the database, close it, and release the leases."""
        try:
            self._opened.close()
        finally:
            locks.release_all(self._leases)

    @property
    def _opened(self) -> Opened:
        return self._here().opened

    def _here(self) -> _Mine:
        if self._mine.opened.pid != os.getpid():
            self._mine = _Mine(self._path, self._lock_file, self._codec)  # the parent's goes to those never closed
        return self._mine


class _Mine:
    """What one process has of the store."""

    def __init__(self, path: Path, lock_file: Path, codec: Codec | None) -> None:
        self.opened = Opened(path, lock_file, codec)
        self.writer = Writer(self.opened)


class SqliteTransaction:
    """A tool's transaction; *connection* is the tool's, and `append` adds entries that commit with its writes."""

    def __init__(self, connection: ToolConnection, run_id: str, path: Path, vault: Vault | None) -> None:
        self.connection: Any = connection
        self._run_id = run_id
        self._path = path
        self._vault = vault

    def append(self, entries: Sequence[Entry], *, token: int | None, over: bool = False) -> None:
        """Add *entries* as `Store.append` does; from here on the tool's statements are refused."""
        _check_open(self.connection, self._path)
        with reported(self._path), self.connection.ours():
            rows.add(self.connection, rows.Addition(self._run_id, entries, token, over=over), self._vault)


def _check_open(connection: ToolConnection, path: Path) -> None:
    if not connection.in_transaction:
        raise StoreError(
            f"the transaction in {path} was rolled back before its end, by a full disk or by `on conflict rollback`: "
            "nothing of it was kept; see to the cause and run the same program again"
        )
