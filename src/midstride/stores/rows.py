"""The statements on midstride's tables: a run's rows written, found and read, and found damaged where they are.

Everything here takes a connection whose lock or transaction is its caller's.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from midstride.core.journal import Entry, Head, Taken, decode, decode_all
from midstride.errors import Damaged, KeyMissing
from midstride.stores.codec import Codec
from midstride.stores.contract import Claim
from midstride.stores.database import make_claims
from midstride.stores.fence import check_claim, fence, removed
from midstride.stores.vault import Opening, Row, Vault, body_of, check_still_plain, line_of, link


@dataclass(frozen=True, slots=True)
class Addition:
    """What one `append` adds to a run's journal, see `Store.append`."""

    run_id: str
    entries: Sequence[Entry]
    token: int | None
    claim: Claim | None = None
    over: bool = False


# ---- writing


def add(connection: sqlite3.Connection, new: Addition, vault: Vault | None = None) -> None:
    """Add *new* behind the run's last entry; where this raises the caller rolls back."""
    check_still_plain(connection, vault)
    known = live(connection, new.run_id) or Known(make_number(connection, new.run_id))
    number = known.number
    (last,) = connection.execute("select max(seq) from midstride_entries where run = ?", (number,)).fetchone()
    newest = connection.execute(
        "select token from midstride_entries where run = ? and token is not null order by seq desc limit 1", (number,)
    ).fetchone()
    fence(new.run_id, _whole(newest[0]) if newest else None, _whole(last or 0), new.entries, new.token)
    stored = _plain(new) if vault is None else _encoded(connection, number, new, vault.codec)
    connection.executemany(
        "insert into midstride_entries (run, seq, token, body, digest) values (?, ?, ?, ?, ?)",
        [(number, e.seq, _token(e), body, bytes.fromhex(digest)) for e, body, digest in stored],
    )
    if new.claim is not None:
        _claim(connection, new.run_id, number, new.claim, vault)
    if new.over or known.ended is not None:
        ended = new.entries[-1].at if new.over else None
        connection.execute("update midstride_runs set ended = ? where number = ?", (ended, number))


def _token(entry: Entry) -> int | None:
    return entry.body.token if isinstance(entry.body, Taken) else None


def _plain(new: Addition) -> Iterator[tuple[Entry, str | bytes, str]]:
    return ((entry, entry.text, entry.digest) for entry in new.entries)


def _encoded(
    connection: sqlite3.Connection, number: int, new: Addition, codec: Codec
) -> Iterator[tuple[Entry, str | bytes, str]]:
    row = connection.execute(
        "select digest from midstride_entries where run = ? order by seq desc limit 1", (number,)
    ).fetchone()
    digest = _digest(row[0]) if row else ""
    for entry in new.entries:
        body = body_of(codec, new.run_id, entry)
        digest = link(digest, body)
        yield entry, body, digest


def _claim(connection: sqlite3.Connection, run_id: str, number: int, claim: Claim, vault: Vault | None) -> None:
    make_claims(connection)
    key = claim.key if vault is None else vault.claim(claim.key)
    owner = connection.execute(
        "select id from midstride_claims c join midstride_runs on number = run where c.key = ?", (key,)
    ).fetchone()
    check_claim(run_id, owner[0] if owner else None, claim)
    connection.execute("insert or replace into midstride_claims (key, run) values (?, ?)", (key, number))


def make_number(connection: sqlite3.Connection, run_id: str) -> int:
    """Give a new run its number, unless it has one."""
    connection.execute(
        "insert into midstride_runs (id, key) values (?, ?) on conflict do nothing", (run_id, key_of(run_id))
    )
    (number,) = connection.execute("select number from midstride_runs where id = ?", (run_id,)).fetchone()
    return int(number)


# ---- finding


def number_of(connection: sqlite3.Connection, run_id: str) -> int | None:
    """Return the run's number; None for one that was never leased. Damaged where its rows do not agree."""
    row = row_of(connection, run_id)
    return None if row is None else row.number


class Known(NamedTuple):
    """What is known of a run beside its entries: when it *ended* and was *removed*, where it was."""

    number: int
    ended: float | None = None
    removed: float | None = None


def live(connection: sqlite3.Connection, run_id: str) -> Known | None:
    """Return the run's row; raises Removed where that is a tombstone."""
    row = row_of(connection, run_id)
    if row is not None and row.removed is not None:
        raise removed(run_id, row.removed)
    return row


def row_of(connection: sqlite3.Connection, run_id: str) -> Known | None:
    """Return the run's row; None for one that was never leased. Damaged where its rows do not agree."""
    row = _found(connection, run_id)
    if row is None and _has_key(connection, run_id):
        row = _found(connection, run_id)  # another process may have made it between the two questions
        if row is None:
            raise Damaged("the index of the runs does not find it, and the table has it; it was left as it is")
    if row is None:
        return None
    number, there, ended, gone = row
    if there != run_id:  # else a damaged index would make the run look like one without entries, to be begun anew
        raise Damaged(f"the index of the runs has {run_id!r} where the table has it not; it was left as it is")
    if gone is not None and not (isinstance(gone, float) and abs(gone) < 1e12):
        raise Damaged(f"{str(gone)[:60]!r} stands where a time belongs; it was left as it is")
    return Known(_whole(number), ended, gone)


def _found(connection: sqlite3.Connection, run_id: str) -> tuple[int, str, float | None, float | None] | None:
    found: tuple[int, str, float | None, float | None] | None = connection.execute(
        "select number, id, ended, removed from midstride_runs "
        "where number = (select number from midstride_runs where id = ?)",
        (run_id,),
    ).fetchone()
    return found


def _has_key(connection: sqlite3.Connection, run_id: str) -> bool:
    rows = connection.execute(
        "select 1 from midstride_runs indexed by midstride_keys where key = ? and id = ?", (key_of(run_id), run_id)
    )
    return rows.fetchone() is not None


def key_of(run_id: str) -> int:
    """Return what the second index of the runs has in place of the id."""
    return int.from_bytes(hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)


# ---- reading


def read(
    connection: sqlite3.Connection, run_id: str, after: int, limit: int | None, codec: Codec | None = None
) -> list[Entry]:
    """Return the run's entries behind seq *after*, at most *limit*; Damaged holds those before the damage.

    Raises KeyMissing behind the last one, when the chain over what is stored has been checked.
    """
    known = live(connection, run_id)
    number = None if known is None else known.number
    last = _last_seq(connection, number)  # first, since others may append in between
    rows = connection.execute(
        f"select {_ROW} from midstride_entries where run = ? and seq >= ? order by seq limit ?",
        (number, after, -1 if limit is None else limit + 1),
    ).fetchall()
    head = Head(max(0, after - 1))
    opening = Opening(codec, run_id, head)
    if rows and rows[0][0] == after:  # the entry that the others are chained on
        head = opening.first(_row(rows.pop(0)))
    if limit is not None:
        rows, last = rows[:limit], min(last, head.seq + limit)
    entries = decode_all(opening.lines(map(_row, rows)), head)
    if last > opening.head.seq:  # a damaged page can hide rows from a scan
        raise Damaged(f"entry {opening.head.seq + 1} is missing, and {last} is there", whole=entries)
    if opening.shut is not None:
        raise KeyMissing(str(opening.shut), opening.shut.key_id, entries=opening.head.seq)
    return entries


_ROW = "seq, typeof(body) = 'blob', cast(body as blob), digest"


def _row(found: tuple[int, int, object, object]) -> Row:
    seq, is_encoded, body, digest = found
    return seq, is_encoded, body if isinstance(body, bytes) else b"", _digest(digest)


def _last_seq(connection: sqlite3.Connection, number: int | None) -> int:
    """Return the run's last seq, sought from behind in the index, and in the table if its newest row is the run's."""
    (last,) = connection.execute("select max(seq) from midstride_entries where run = ?", (number,)).fetchone()
    newest = connection.execute("select run, seq from midstride_entries order by rowid desc limit 1").fetchone()
    if newest is not None and newest[0] == number:
        return max(_whole(last or 0), _whole(newest[1] or 0))
    return _whole(last or 0)


def newest_taken(connection: sqlite3.Connection, run_id: str, codec: Codec | None = None) -> Entry | None:
    """Return the run's newest `taken` entry."""
    row = connection.execute(
        f"select {_ROW} from midstride_entries where run = ? and token is not null order by seq desc limit 1",
        (number_of(connection, run_id),),
    ).fetchone()
    return decode(*_line(codec, run_id, row), row[0]) if row else None


def digest_at(connection: sqlite3.Connection, run_id: str, seq: int, codec: Codec | None = None) -> str | None:
    """Return the digest of the run's entry *seq*, None when there is none."""
    row = connection.execute(
        f"select {_ROW} from midstride_entries where run = ? and seq = ?", (number_of(connection, run_id), seq)
    ).fetchone()
    return _line(codec, run_id, row)[1] if row else None


def _line(codec: Codec | None, run_id: str, found: tuple[int, int, object, object]) -> tuple[str, str]:
    return line_of(codec, run_id, _row(found))


def ids(connection: sqlite3.Connection, *, newest: int | None = None) -> list[str]:
    """Return the ids of the runs that have entries, oldest first; of the *newest* so many alone."""
    rows = connection.execute(
        f"select id from midstride_runs where {_THERE} order by number desc limit ?",
        (-1 if newest is None else newest,),
    ).fetchall()
    return [run_id for (run_id,) in reversed(rows)]


def unfinished(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of the open runs that have entries, oldest first."""
    rows = connection.execute(
        f"select id from midstride_runs where ended is null and {_THERE} order by number"
    ).fetchall()
    return [run_id for (run_id,) in rows]


_THERE = "removed is null and exists (select 1 from midstride_entries where run = number)"


def _whole(value: object) -> int:
    """Return a column's whole number; Damaged where another type stands, as behind a flipped bit."""
    if not isinstance(value, int):
        raise Damaged(f"{str(value)[:60]!r} stands where a number belongs; it was left as it is")
    return value


def _digest(stored: object) -> str:
    return stored.hex() if isinstance(stored, bytes) else ""
