"""A SQLite database that midstride's tables live in: connecting, checking what is there, and SQLite's errors as ours.

A connection made here commits durably (WAL, `synchronous=full`, both read back), or is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from midstride.errors import Damaged, MidstrideError, Newer, NotOurs, StoreError
from midstride.stores import disk

T = TypeVar("T")

FORMAT = 1

BUSY_SECONDS = 30.0
"""How long a statement waits for another connection's write; writes take milliseconds."""


def connect(path: Path) -> sqlite3.Connection:
    """Connect to the file *path*, which must be there."""
    connection = sqlite3.connect(
        existing(path), uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("pragma cell_size_check=1")  # a damaged page is refused when it is met, and not first written to
    return connection


def existing(path: Path) -> str:
    """Return the URI of a file that must be there."""
    # Without mode=rw SQLite would make a missing file, readable by others.
    return f"file:{quote(str(path))}?mode=rw"


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Check what is there before anything is changed, then make what is missing."""
    there = _check_format(connection, path)
    make_commits_durable(connection, path)
    if not there:
        make_tables(connection)


def make_tables(connection: sqlite3.Connection) -> None:
    """Make midstride's tables, all or none."""
    try:
        connection.executescript(f"begin immediate;\n{_sql('schema.sql')}\ncommit;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def make_claims(connection: sqlite3.Connection) -> None:
    """Make the table of the business keys where it is missing: it came later, and most databases need none."""
    connection.execute(_sql("claims.sql"))


def make_secret(connection: sqlite3.Connection) -> None:
    """Make the table of the secret of an encrypted database."""
    connection.execute(_sql("secret.sql"))


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether the database has the table *name*."""
    found = connection.execute("select 1 from sqlite_master where type = 'table' and name = ?", (name,)).fetchone()
    return found is not None


def _check_format(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell whether our tables are there; raises Newer or NotOurs when they are not as this code knows them."""
    found = _layout(connection)
    if not found:
        return False
    if any(table == "midstride_format" for table, *_ in found):
        version = connection.execute("select max(version) from midstride_format").fetchone()[0]
        if isinstance(version, int) and version > FORMAT:
            raise Newer(f"{path} is format {version}, this code reads format {FORMAT}: use a newer midstride")
    there = {table for table, *_ in found}
    expected = _expected(claims="midstride_claims" in there, secret="midstride_secret" in there)
    if found != expected:
        wanted = {row for row in expected if row not in found} or {row for row in found if row not in expected}
        table, column, *_ = min(wanted)
        raise NotOurs(
            f"{path} has a table {table} that is not as midstride made it (see its column {column}): use another file"
        )
    return True


_LAYOUT = """
select m.name, c.name, c.type, c."notnull", c.pk from sqlite_master m join pragma_table_xinfo(m.name) c
where m.type = 'table'
and m.name in ('midstride_format', 'midstride_runs', 'midstride_entries', 'midstride_claims', 'midstride_secret')
order by m.name, c.cid
"""


def _layout(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(_LAYOUT).fetchall()


@cache
def _expected(*, claims: bool, secret: bool) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_sql("schema.sql"))
        if claims:
            make_claims(connection)
        if secret:
            make_secret(connection)
        return _layout(connection)


@cache
def _sql(name: str) -> str:
    return resources.files("midstride.stores").joinpath(name).read_text("utf-8")


def make_commits_durable(connection: sqlite3.Connection, path: Path) -> None:
    """Set what a commit needs to be on disk when it returns, and read it back; StoreError where it did not take."""
    wanted: dict[str, str | int] = {"journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0}
    if sys.platform == "darwin":
        wanted |= {"fullfsync": 1, "checkpoint_fullfsync": 1}
    for name, value in wanted.items():
        connection.execute(f"pragma {name}={value}").fetchall()
        (found,) = connection.execute(f"pragma {name}").fetchone()
        if found != value:
            raise StoreError(
                f"{path}: SQLite's {name} is {found!r} where {value!r} is wanted, so a commit would not be durable: "
                "use a local file system and a standard build of SQLite"
            )


# ---- transactions


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo what is not committed."""
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("rollback")


def short_transaction(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], *, synced: bool = True
) -> T:
    """Commit what *work* writes, and return what it gives; what is not *synced* is on disk with the next that is."""
    if not synced:
        connection.execute("pragma synchronous=normal")
    try:
        connection.execute("begin immediate")
        made = work(connection)
        connection.execute("commit")
        return made
    finally:
        roll_back(connection)
        if not synced:
            connection.execute("pragma synchronous=full")


# ---- errors

LEFT = "it was left as it is: restore it from a backup"


@contextlib.contextmanager
def reported(path: Path, *, besides: type[sqlite3.Error] | tuple[()] = ()) -> Iterator[None]:
    """Raise SQLite's errors as ours, except *besides*."""
    try:
        yield
    except besides:
        raise
    except UnicodeDecodeError as error:  # Python's, of a text column
        raise Damaged(f"{path} is damaged ({error}); {LEFT}") from error
    except sqlite3.Error as error:
        raise _error(error, path) from error


def _error(error: sqlite3.Error, path: Path) -> MidstrideError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _NUMBERS:
        number = _NUMBERS[code]
        if disk.is_full(path):  # SQLite names other causes, too, when there is no room for the -wal or -shm file
            number = errno.ENOSPC
        elif code == sqlite3.SQLITE_CANTOPEN and disk.may_write(path):  # too many open files, say: SQLite hides it
            number = 0
        return disk.store_error(OSError(number, str(error)), path, "written")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"{path} is locked by another connection that has been writing for {BUSY_SECONDS:g} s ({error}): nothing "
            "was written; end that transaction and run the same program again"
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreError(
            f"{path} may only be read by user {os.geteuid()} ({error}): nothing was written; set its owner, mode and "
            "file system right and run the same program again"
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return Damaged(f"{path} is damaged ({error}); {LEFT}")
    if code == sqlite3.SQLITE_NOTADB:
        return NotOurs(f"{path} is no SQLite database ({error}); it was left as it is: use another path")
    return StoreError(f"{path} could not be used ({error}): see to it and run the same program again")


_NUMBERS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
