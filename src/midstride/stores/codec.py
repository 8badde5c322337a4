"""What makes stored bytes unreadable without a key: the protocol that a store asks, and AES-GCM by `cryptography`.

    store = SqliteStore("runs.db", codec=AesGcm(os.environ["MIDSTRIDE_KEY"]))

A store is given one codec for all that it writes and reads. *about* is what the bytes are: the run's id and the entry's
number, say. It is not stored with them, and they open under no other: so nothing that was moved is taken for genuine.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from midstride.errors import Damaged, DeclarationError, KeyMissing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "MIDSTRIDE_KEY"
"""The environment variable that holds the keys of stores that are opened by their URL."""

KEY_BYTES = 32
NONCE_BYTES = 12
ID_BYTES = 4

VERSION = b"\xa1"

Keys = bytes | str | list[bytes | str] | tuple[bytes | str, ...]
"""32 bytes, or a text of them as base64 or hex, or several; a text may hold several with commas between."""


class Codec(Protocol):
    """Encodes what a store writes, and decodes it again; may be called by many threads at once."""

    def encode(self, data: bytes, about: bytes) -> bytes:
        """Return *data* as it is to be stored, bound to *about*."""

    def decode(self, data: bytes, about: bytes) -> bytes:
        """Return what was encoded; raises KeyMissing without its key, Damaged for what does not fit *about*."""

    def is_current(self, data: bytes) -> bool:
        """Tell whether *data* was encoded with the key that `encode` uses now."""


class AesGcm:
    """AES-256-GCM: the first of *keys* is for what is written now, the others are for reading what is older.

    *keys* are 32 random bytes each, raw or as a text in base64 or hex (several with commas between), or a callable that
    returns them. It is asked at the first use, and again when something is met whose key is not among them. Stored are
    a version, the first four bytes of a hash of the key, a random nonce of 96 bits, and what AES-GCM gives. One key is
    good for some four billion entries. Raises DeclarationError for what is no key; no key is ever part of a message.
    """

    def __init__(self, keys: Keys | Callable[[], Keys], *, name: str = "AesGcm") -> None:
        _cipher(bytes(KEY_BYTES))  # that the package is missing is said here
        self._name = name
        self._ask = keys if callable(keys) else None
        self._ring: Mapping[bytes, AESGCM] = {} if callable(keys) else _ring(keys, name)

    def __repr__(self) -> str:
        return f"AesGcm({', '.join(one.hex() for one in self._ring) or 'not asked for its keys yet'})"

    def encode(self, data: bytes, about: bytes) -> bytes:
        """Return *data* encoded with the first key."""
        ring = self._ring or self._asked()
        key_id = next(iter(ring))
        nonce = os.urandom(NONCE_BYTES)
        return VERSION + key_id + nonce + ring[key_id].encrypt(nonce, data, about)

    def decode(self, data: bytes, about: bytes) -> bytes:
        """Return what was encoded, by whichever of the keys it was; raises KeyMissing and Damaged."""
        from cryptography.exceptions import InvalidTag

        key_id = _key_id_in(data)
        if key_id is None or len(data) < 1 + ID_BYTES + NONCE_BYTES:
            raise Damaged("it is not what AesGcm writes")
        cipher = self._ring.get(key_id) or self._asked().get(key_id)
        if cipher is None:
            there = ", ".join(one.hex() for one in self._ring)
            raise KeyMissing(
                f"it is encrypted with key {key_id.hex()}, and {self._name} has {there}: put that key behind those, "
                "with a comma between",
                key_id.hex(),
            )
        nonce, rest = data[1 + ID_BYTES :][:NONCE_BYTES], data[1 + ID_BYTES + NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, rest, about)
        except InvalidTag:
            raise Damaged(f"it does not open with its key, {key_id.hex()}") from None

    def is_current(self, data: bytes) -> bool:
        """Tell whether *data* was encoded with the first key."""
        return _key_id_in(data) == next(iter(self._ring or self._asked()))

    def _asked(self) -> Mapping[bytes, AESGCM]:
        if self._ask is not None:
            self._ring = _ring(self._ask(), self._name)
        return self._ring


def from_environment() -> AesGcm | None:
    """Return the codec with the keys in MIDSTRIDE_KEY, None where it is not set; DeclarationError where it is empty.

    An empty one is what a failed look-up leaves: to go on in plain text then would be what nobody asked for.
    """
    keys = os.environ.get(VARIABLE)
    return None if keys is None else AesGcm(keys, name=VARIABLE)


def missing(stored: bytes) -> KeyMissing:
    """Return the error of whoever has no codec at all for what is *stored*."""
    key_id = _key_id_in(stored)
    named = f" with key {key_id.hex()}" if key_id else ""
    return KeyMissing(
        f"it is encrypted{named}, and no key is given: set {VARIABLE}, or give SqliteStore its codec",
        key_id.hex() if key_id else "",
    )


def _key_id_in(data: bytes) -> bytes | None:
    return data[1 : 1 + ID_BYTES] if data[:1] == VERSION and len(data) > ID_BYTES else None


# ---- keys


def _ring(keys: Keys, name: str) -> Mapping[bytes, AESGCM]:
    """Return a cipher for each key, by the id of the key; the first one is for writing."""
    several = keys.split(",") if isinstance(keys, str) else keys
    parts = list(several) if isinstance(several, (list, tuple)) else [several]
    if not parts:
        raise DeclarationError(f"{name} has no key: wanted {KEY_BYTES} bytes as base64 or hex")
    made = [_key(part, f"key {at} of {len(parts)} in {name}") for at, part in enumerate(parts, start=1)]
    return {hashlib.sha256(b"midstride key " + key).digest()[:ID_BYTES]: _cipher(key) for key in made}


def _key(part: object, what: str) -> bytes:
    found = _decoded(part.strip()) if isinstance(part, str) else part
    if isinstance(found, bytes) and len(found) == KEY_BYTES:
        return found
    size = f"{len(part)} {'characters' if isinstance(part, str) else 'bytes'}" if isinstance(part, (str, bytes)) else ""
    raise DeclarationError(
        f"{what} is no key ({size or type(part).__name__}, not shown): wanted {KEY_BYTES} random bytes as base64 or hex"
    )


def _decoded(text: str) -> bytes:
    try:
        if len(text) == 2 * KEY_BYTES:
            return bytes.fromhex(text)
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return b""


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise DeclarationError("AesGcm needs cryptography: pip install 'midstride[encryption]'") from None
    return AESGCM(key)
