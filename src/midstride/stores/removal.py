"""The statements by which a run is removed: its row becomes a tombstone at once, its entries go bit by bit behind it.

So nobody ever reads a part of a run, however the remover ends: what it has left is found by the tombstone.
"""

from __future__ import annotations

import sqlite3
import time

from midstride.errors import UnknownRun
from midstride.stores import rows
from midstride.stores.contract import Lease
from midstride.stores.database import has_table
from midstride.stores.fence import check_removal

STEP_SECONDS = 0.03
"""How long a step keeps other writers out, about."""

STEP_ENTRIES = 50
STEP_BYTES = 4 * 2**20


def bury(
    connection: sqlite3.Connection, run_id: str, lease: Lease, *, last: int | None, at: float, free_key: str | None
) -> None:
    """Make the run's row a tombstone, see `Store.remove`; where this raises the caller rolls back."""
    row = rows.live(connection, run_id)
    (present,) = connection.execute(
        "select max(seq) from midstride_entries where run = ?", (None if row is None else row.number,)
    ).fetchone()
    if row is None or present is None:
        raise unknown(run_id)
    check_removal(run_id, lease, present, last)
    connection.execute(
        "update midstride_runs set removed = ?, ended = coalesce(ended, ?) where number = ?",
        (float(at), float(at), row.number),
    )
    if free_key is not None and has_table(connection, "midstride_claims"):
        connection.execute("delete from midstride_claims where key = ? and run = ?", (free_key, row.number))


def unbury(connection: sqlite3.Connection, run_id: str, lease: Lease) -> int:
    """Make a tombstone the row of a run that never began, and return its number; all its entries go with this."""
    row = rows.row_of(connection, run_id)
    if row is None or row.removed is None:
        raise unknown(run_id, "no removed run")
    check_removal(run_id, lease, 0, None)
    connection.execute("delete from midstride_entries where run = ?", (row.number,))
    if has_table(connection, "midstride_claims"):
        connection.execute("delete from midstride_claims where run = ?", (row.number,))
    connection.execute("update midstride_runs set removed = null, ended = null where number = ?", (row.number,))
    return row.number


def unknown(run_id: str, what: str = "no run") -> UnknownRun:
    """Return the error for an id that there is nothing of."""
    return UnknownRun(f"there is {what} {run_id!r} in the store: nothing was removed")


def ended(connection: sqlite3.Connection, before: float) -> list[str]:
    """Return the ids of the runs that ended before that time, oldest first."""
    found = connection.execute(
        "select id from midstride_runs where ended < ? and removed is null order by number", (before,)
    )
    return [run_id for (run_id,) in found.fetchall()]


def size(connection: sqlite3.Connection, number: int) -> int:
    """Return the bytes of the run's entries."""
    (found,) = connection.execute(
        "select total(length(cast(body as blob))) from midstride_entries where run = ?", (number,)
    ).fetchone()
    return int(found)


# ---- giving space back


def remains(connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of the removed runs that have entries still."""
    found = connection.execute(
        "select number from midstride_runs where removed is not null "
        "and exists (select 1 from midstride_entries where run = number) order by number"
    )
    return [number for (number,) in found.fetchall()]


def is_gone(connection: sqlite3.Connection, number: int) -> bool:
    """Tell whether the run with this number was removed, and its entries too.

    Such a tombstone is on disk for certain: the entries were deleted behind it, and synced.
    """
    found = connection.execute(
        "select 1 from midstride_runs where number = ? and removed is not null "
        "and not exists (select 1 from midstride_entries where run = number)",
        (number,),
    )
    return found.fetchone() is not None


def sweep(connection: sqlite3.Connection, numbers: list[int]) -> int:
    """Delete entries of the removed runs *numbers* for a moment, and those from the list that have none any more."""
    deleted, until = 0, time.monotonic() + STEP_SECONDS
    while numbers:
        count = connection.execute(
            "delete from midstride_entries where rowid in "
            "(select rowid from midstride_entries where run = "  # who forgot the run may have begun it anew meanwhile
            "(select number from midstride_runs where number = ? and removed is not null) order by seq limit ?)",
            (numbers[-1], STEP_ENTRIES),
        ).rowcount
        deleted += count
        if count < STEP_ENTRIES:
            numbers.pop()
        if time.monotonic() >= until:
            break
    return deleted


def gives_space_back(connection: sqlite3.Connection) -> bool:
    """Tell whether the database can give free pages back; one that the user made may not."""
    (found,) = connection.execute("pragma auto_vacuum").fetchone()
    return bool(found)


def vacuum(connection: sqlite3.Connection) -> bool:
    """Give some free pages back to the file system; tell whether there are more."""
    (page,) = connection.execute("pragma page_size").fetchone()
    (free,) = connection.execute("pragma freelist_count").fetchone()
    # Each step of the statement frees one page: it has to be carried to its end.
    connection.execute(f"pragma incremental_vacuum({max(1, STEP_BYTES // page)})").fetchall()
    (left,) = connection.execute("pragma freelist_count").fetchone()
    return bool(0 < left < free)
