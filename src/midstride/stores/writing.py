"""One writer at a time for a process and a store: whoever waits meanwhile is written together, with one sync for all.

- First come, first written. Whoever finds nobody writing writes for everybody who has come by then: no thread of its
  own, and for a lone run no other thread at all.
- Each addition is judged by itself, behind a savepoint: one that is refused takes no neighbour with it.
- Nobody is told of success before the commit has returned. Where it fails, nobody of the group knows whether the
  entries are on disk: all are told so, and the connection is made anew before anything else is written.
- A transactional tool has a connection and a commit of its own, and joins no group.
"""

from __future__ import annotations

import contextlib
import copy
import sqlite3
import threading
from collections import deque

from midstride.errors import MidstrideError, NotDurable, StoreError
from midstride.stores import rows
from midstride.stores.database import reported, roll_back
from midstride.stores.opened import Opened

GROUP_CHARACTERS = 4 * 2**20
"""A group ends behind the addition that reaches this size, so that nobody waits for an endless commit."""

_CERTAIN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""A commit whose last page was not written counts for nothing, now and after a power cut."""


class _Waiting:
    """One addition, and what became of it; the thread that *leads* writes for all, until it has left."""

    def __init__(self, addition: rows.Addition) -> None:
        self.addition = addition
        self.called = False
        self.leads = False
        self.ended = False
        self.error: BaseException | None = None
        # A lock and no Event: Ctrl-C in the middle of an Event's methods keeps what is inside of it locked.
        self._turn = threading.Lock()
        self._turn.acquire()

    def wait(self) -> None:
        """Wait until it has ended, or has its turn to write."""
        self._turn.acquire()

    def wake(self) -> None:
        """Let its thread go on; twice is once."""
        with contextlib.suppress(RuntimeError):
            self._turn.release()

    def end(self, error: BaseException | None = None) -> None:
        """Say what became of it."""
        self.error, self.ended = error, True
        self.wake()


class Writer:
    """Writes what its threads add through *opened*."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._mutex = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._busy = False

    def add(self, addition: rows.Addition) -> None:
        """Return when *addition* is on disk; raises what it was refused for."""
        own = _Waiting(addition)
        try:
            self._queue(own)
            if not own.leads:
                own.wait()
                own.leads = not own.ended
            if own.leads:
                self._write_all()
        finally:
            try:
                self._leave(own)
            except BaseException:  # Ctrl-C, in just this moment: else nobody would ever write again
                self._leave(own)
                raise
        if own.error is not None:
            raise own.error

    def _queue(self, own: _Waiting) -> None:
        with self._mutex:
            self._waiting.append(own)
            if not self._busy:
                own.leads = True
                self._busy = True

    def _leave(self, own: _Waiting) -> None:
        """Take back what nobody has begun to write, and let the next one that waits write for all; once is enough."""
        if own.ended and not own.leads:
            return
        with self._mutex:
            if own in self._waiting:
                own.leads = own.leads or own.called
                self._waiting.remove(own)
            if own.leads:
                self._busy = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].called = True
                    self._waiting[0].wake()
                own.leads = False

    # ---- one group

    def _write_all(self) -> None:
        group: list[_Waiting] = []
        try:
            self._gather(group)
            self._write(group)
        except BaseException:
            self._end_as_they_stand(group)  # Ctrl-C in the thread that writes is none of the others' business
            raise

    def _write(self, group: list[_Waiting]) -> None:
        try:
            with self._opened.writing_lock, self._opened.writing() as connection:
                try:
                    connection.execute("begin immediate")
                    self._add_all(connection, group)
                finally:
                    roll_back(connection)
                self._opened.fold_wal(connection)
        except Exception as error:
            if isinstance(error, NotDurable):
                self._opened.renew()
            for one in group:
                if not one.ended:
                    one.end(error if len(group) == 1 else copy.copy(error))

    def _gather(self, group: list[_Waiting]) -> None:
        size = 0
        with self._mutex:
            while self._waiting and size < GROUP_CHARACTERS:
                group.append(self._waiting[0])
                size += sum(len(entry.text) for entry in group[-1].addition.entries)
                self._waiting.popleft()

    def _add_all(self, connection: sqlite3.Connection, group: list[_Waiting]) -> None:
        if len(group) == 1:
            rows.add(connection, group[0].addition, self._opened.vault)
            added = group
        else:
            added = [one for one in group if self._added(connection, one)]
        if added:
            self._commit(connection)
        for one in added:
            one.end()

    def _added(self, connection: sqlite3.Connection, one: _Waiting) -> bool:
        """Add one of several; what it is refused for is told to it alone."""
        connection.execute("savepoint midstride")
        try:
            with reported(self._opened.path):
                rows.add(connection, one.addition, self._opened.vault)
        except Exception as error:
            if not connection.in_transaction:  # SQLite has rolled all of it back: a full disk, say
                raise
            connection.execute("rollback to midstride")
            one.end(error)
        connection.execute("release midstride")
        return not one.ended

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("commit")
        except sqlite3.Error as error:
            if error.sqlite_errorcode in _CERTAIN:
                raise
            raise NotDurable(
                f"whether what was written last to {self._opened.path} is on disk is not certain ({error}), and the "
                "next start goes by what is there: see to the disk and run the same program again"
            ) from error

    def _end_as_they_stand(self, group: list[_Waiting]) -> None:
        """Tell each of an interrupted group whether it is written: a commit that has returned is on disk."""
        why = StoreError(f"a write to {self._opened.path} was interrupted: nothing was written; run the program again")
        with self._mutex:
            self._waiting = deque(one for one in self._waiting if one not in group)
        for one in group:
            if not one.ended:
                one.end(None if self._is_there(one.addition) else copy.copy(why))
            one.wake()

    def _is_there(self, addition: rows.Addition) -> bool:
        with contextlib.suppress(MidstrideError), self._opened.writing_lock, self._opened.writing() as connection:
            last = addition.entries[-1]
            return rows.digest_at(connection, addition.run_id, last.seq, self._opened.codec) == last.digest
        return False
