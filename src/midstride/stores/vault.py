"""What an encrypted database holds in place of lines, business keys and names of results.

- The body of an entry is a blob: a mark, and what the codec makes of the entry's digest and its line. So the chain that
  the core computes goes on inside, and the column `digest` is a chain over what is stored, to be checked without a key.
- A business key is stored as its HMAC under a secret, and a kept result is named by one: their hashes could be guessed.
- The secret is encoded with the first key, and anew when that is another one. It never changes, so no claim is lost.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from midstride.core.journal import Entry, Head
from midstride.errors import Damaged, KeyMissing
from midstride.stores.codec import Codec, missing
from midstride.stores.database import LEFT, has_table, make_secret, short_transaction

MARK = b"\x01"
"""Stands before all that is encoded, so that a line whose type was flipped to a blob is not taken for it."""

DIGEST_BYTES = 32
SECRET = b"midstride secret"

Row = tuple[int, int, bytes, str]
"""A stored entry: its seq, whether its body is a blob, the body's bytes, the stored digest in hex."""


def encoded(codec: Codec, data: bytes, about: bytes) -> bytes:
    """Return *data* as it is to be stored."""
    return MARK + codec.encode(data, about)


def decoded(codec: Codec | None, stored: bytes, about: bytes) -> bytes:
    """Return what was encoded; raises Damaged, and KeyMissing without a codec or without its key."""
    if stored[:1] != MARK:
        raise Damaged("it is not encoded as midstride does it")
    if codec is None:
        raise missing(stored[len(MARK) :])
    return codec.decode(stored[len(MARK) :], about)


# ---- entries


def body_of(codec: Codec, run_id: str, entry: Entry) -> bytes:
    """Return the stored body of an entry."""
    return encoded(codec, bytes.fromhex(entry.digest) + entry.text.encode("ascii"), _about(run_id, entry.seq))


def line_of(codec: Codec | None, run_id: str, row: Row) -> tuple[str, str]:
    """Return the line and the digest of a stored entry; KeyMissing names the key that it needs."""
    seq, is_encoded, body, digest = row
    if not is_encoded:
        # What is no ASCII was not written here; the surrogates that stand for it are no JSON outside a string, and no
        # digest fits them.
        return body.decode("ascii", "surrogateescape"), digest
    try:
        data = decoded(codec, body, _about(run_id, seq))
    except Damaged as error:
        raise Damaged(f"entry {seq} is not as it was written ({error}); it was left as it is") from None
    except KeyMissing as error:
        raise KeyMissing(f"entry {seq}: {error}", error.key_id) from None
    return data[DIGEST_BYTES:].decode("ascii", "surrogateescape"), data[:DIGEST_BYTES].hex()


def link(previous: str, body: bytes) -> str:
    """Return the stored digest of an entry that is stored as *body*, behind the stored digest *previous*."""
    return hashlib.sha256(previous.encode("ascii") + body).hexdigest()


def _about(run_id: str, seq: int) -> bytes:
    return b"midstride entry %d " % seq + run_id.encode("utf-8", "surrogatepass")


class Opening:
    """Opens the stored entries of a run in their order, and checks the chain over what is stored.

    Entries from before there was a key stand as lines, and none of them behind an encoded one. Where a key is missing
    the chain is checked to the end all the same: `shut` says which then, and `head` how far it is whole.
    """

    def __init__(self, codec: Codec | None, run_id: str, head: Head) -> None:
        self._codec, self._run_id = codec, run_id
        self.head = head
        self.shut: KeyMissing | None = None
        self._encoded = False

    def first(self, row: Row) -> Head:
        """Take the entry that the others are chained on; return where the journal stands behind it."""
        seq, is_encoded, _, digest = row
        self.head, self._encoded = Head(seq, digest), bool(is_encoded)
        line = self._line(row)
        return Head(seq, line[1] if line else "")

    def lines(self, rows: Iterable[Row]) -> Iterator[tuple[int, str, str]]:
        """Yield seq, line and digest of each entry up to the first that has no key."""
        for row in rows:
            self._check(row)
            self.head, self._encoded = Head(row[0], row[3]), bool(row[1])
            line = self._line(row)
            if line is not None:
                yield row[0], *line

    def _check(self, row: Row) -> None:
        seq, is_encoded, body, digest = row
        if not is_encoded:
            if self._encoded:
                raise Damaged(f"entry {seq} is not encrypted, and the one before it is; it was left as it is")
            return  # its digest is the journal's own, which is checked by whoever gets the line
        if seq != self.head.seq + 1:
            raise Damaged(f"entry {self.head.seq + 1} is missing; the journal was left as it is")
        if link(self.head.digest, body) != digest:
            raise Damaged(f"entry {seq} is not as it was written (its digest differs); it was left as it is")

    def _line(self, row: Row) -> tuple[str, str] | None:
        if self.shut is None:
            try:
                return line_of(self._codec, self._run_id, row)
            except KeyMissing as error:
                self.shut = error
        return None


# ---- results

ENCRYPTED = ".encrypted"
"""Ends the name of an encoded result: the path is shown to the model, which may try to read it."""


def about_result(name: str) -> bytes:
    """Return what the kept result in the file *name* is bound to."""
    return b"midstride result " + name.encode("ascii", "surrogateescape")


# ---- the secret


@dataclass(frozen=True, slots=True)
class Vault:
    """A codec at work in one database, and the database's secret."""

    codec: Codec
    secret: bytes

    def close_over(self, connection: sqlite3.Connection) -> None:
        """Keep the secret in the database, and hash the business keys that were claimed in plain text."""
        make_secret(connection)
        connection.execute("insert into midstride_secret values (?)", (encoded(self.codec, self.secret, SECRET),))
        if has_table(connection, "midstride_claims"):
            keys = connection.execute("select key from midstride_claims").fetchall()
            connection.executemany(
                "update midstride_claims set key = ? where key = ?", [(self.claim(key), key) for (key,) in keys]
            )

    def claim(self, key: str) -> str:
        """Return what a business key is stored as."""
        return self._hash(b"claim", key.encode("utf-8", "surrogatepass"))

    def name(self, data: bytes) -> str:
        """Return the name of a kept result: the same for the same data."""
        return self._hash(b"result", data)[:32]

    def _hash(self, what: bytes, data: bytes) -> str:
        return hmac.new(self.secret, what + b" " + data, hashlib.sha256).hexdigest()


def open_vault(connection: sqlite3.Connection, codec: Codec | None, path: Path) -> Vault | None:
    """Return what is needed to write to the database, None for plain text; a new secret is made where there is none.

    Raises KeyMissing where the database is encrypted and *codec* is not there, or cannot open its secret.
    """
    stored = _stored(connection, path)
    if stored is None:
        return None if codec is None else _made(connection, Vault(codec, os.urandom(32)), path)
    try:
        secret = decoded(codec, stored, SECRET)
    except KeyMissing as error:
        raise KeyMissing(f"{path} is not written to: {error}", error.key_id) from None
    except Damaged as error:
        raise Damaged(f"{path} is damaged (midstride_secret: {error}); {LEFT}") from None
    vault = None if codec is None else Vault(codec, secret)
    if vault is not None and not vault.codec.is_current(stored[len(MARK) :]):
        # A transaction of its own, durable when it returns.
        connection.execute("update midstride_secret set body = ?", (encoded(vault.codec, secret, SECRET),))
    return vault


def check_still_plain(connection: sqlite3.Connection, vault: Vault | None) -> None:
    """Raise KeyMissing for who would write plain text into a database that somebody else has encrypted meanwhile."""
    if vault is None and has_table(connection, "midstride_secret"):
        raise KeyMissing(
            "the store was encrypted since this program opened it: nothing was written; give the program the key, and "
            "run it again"
        )


def _stored(connection: sqlite3.Connection, path: Path) -> bytes | None:
    if not has_table(connection, "midstride_secret"):
        return None
    row = connection.execute("select body from midstride_secret").fetchone()
    if row is None:
        raise Damaged(f"{path} is damaged (midstride_secret is empty); {LEFT}")
    if not isinstance(row[0], bytes):  # as behind a flipped bit
        raise Damaged(f"{path} is damaged ({str(row[0])[:60]!r} stands where midstride_secret's body belongs); {LEFT}")
    return row[0]


def _made(connection: sqlite3.Connection, vault: Vault, path: Path) -> Vault:
    """Make the secret; business keys that were claimed in plain text are hashed with it."""
    newest = connection.execute("select typeof(body) from midstride_entries order by rowid desc limit 1").fetchone()
    if newest == ("blob",):  # else a damaged list of tables would lose every claim
        raise Damaged(f"{path} is damaged (it is encrypted, and midstride_secret is missing); {LEFT}")
    short_transaction(connection, vault.close_over)
    return vault
