"""The connection that a transactional tool writes through: inside a transaction that it may not end."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

from midstride.stores.database import BUSY_SECONDS, existing, make_commits_durable


class ToolCursor(sqlite3.Cursor):
    """A cursor that may be closed when its transaction is long over."""

    def close(self) -> None:
        """Close; a second time, or after the connection, it does nothing."""
        with contextlib.suppress(sqlite3.ProgrammingError):
            super().close()


class ToolConnection(sqlite3.Connection):
    """A connection inside a transaction that its user may write in, but not end.

    Refused, with a sqlite3.DatabaseError for the tool to raise: commit, rollback, begin, attach, detach, pragma, a
    change of midstride's tables, and everything after the database itself rolled back (a full disk, `on conflict
    rollback`), since it would be committed at once. Savepoints are allowed.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        self._thread_of_ours: int | None = None
        self._sealed = False

    def begin(self) -> None:
        """Begin the transaction; from here on the tool's statements are looked at."""
        self.execute("begin immediate")
        # A file that cannot be opened for writing (too many open files, say) is opened for reading in silence, and
        # `begin immediate` passes. A write of nothing does not: else the tool would be told what is the store's.
        self.execute("delete from midstride_entries where false")
        super().set_authorizer(self._allows)

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Let this thread do everything in the block, and the tool nothing from here on."""
        self._sealed = True
        self._thread_of_ours = threading.get_ident()
        for cursor in list(self._cursors):
            cursor.close()  # one that a tool left half read would keep the commit from happening
        try:
            yield
        finally:
            self._thread_of_ours = None

    def end(self) -> None:
        """Roll back what is not committed, and close."""
        with self.ours():
            if self.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.execute("rollback")
        super().set_authorizer(None)
        super().close()

    def cursor(self, factory: Any = ToolCursor) -> Any:
        """Make a cursor that is closed at the end at the latest."""
        made = super().cursor(factory)
        self._cursors.add(made)
        return made

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """As `cursor().execute`: sqlite3's own shortcut makes a cursor that nobody knows of."""
        return cast(sqlite3.Cursor, self.cursor().execute(sql, *parameters))

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        """As `cursor().executemany`."""
        return cast(sqlite3.Cursor, self.cursor().executemany(sql, rows))

    def commit(self) -> NoReturn:
        """Refuse."""
        raise sqlite3.ProgrammingError(
            "a transactional tool may neither commit nor roll back: return to commit, raise to roll back"
        )

    rollback = close = commit

    def __enter__(self) -> NoReturn:
        self.commit()

    def set_authorizer(self, *args: Any, **named: Any) -> NoReturn:
        """Refuse."""
        raise sqlite3.ProgrammingError("a transactional tool's connection has its authorizer already")

    def _allows(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if self._thread_of_ours == threading.get_ident():
            return sqlite3.SQLITE_OK
        if self._sealed or not self.in_transaction or action in _REFUSED:
            return sqlite3.SQLITE_DENY
        ours = any((name or "").lower().startswith("midstride_") for name in (first, second))
        return sqlite3.SQLITE_DENY if ours and action not in _READING else sqlite3.SQLITE_OK


_REFUSED = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA})
_READING = frozenset(
    {
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_SAVEPOINT,
    }
)


def begin_for_tool(path: Path) -> ToolConnection:
    """Connect to the database at *path* and begin the tool's transaction."""
    connection = sqlite3.connect(
        existing(path),
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=ToolConnection,
        cached_statements=0,  # each statement is prepared anew, so that each one is looked at
    )
    try:
        make_commits_durable(connection, path)
        connection.execute("pragma foreign_keys=on")
        connection.begin()
    except BaseException:
        connection.end()
        raise
    return connection
