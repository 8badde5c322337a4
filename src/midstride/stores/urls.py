"""From a store URL to the store: what `--store` and `MIDSTRIDE_STORE` mean everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable

from midstride.errors import DeclarationError
from midstride.stores import codec
from midstride.stores.checkpoint import CheckpointStore
from midstride.stores.contract import Store
from midstride.stores.memory import MemoryStore
from midstride.stores.sqlite import SqliteStore

DEFAULT = "sqlite:.midstride/runs.db"

FORMS = "sqlite:PATH, checkpoint:PATH (one run, the lesson's checkpoint.json) or memory:"


def open_store(url: str | None = None) -> Store:
    """Return the store that *url* names, else the one that MIDSTRIDE_STORE names, else `sqlite:.midstride/runs.db`.

    With MIDSTRIDE_KEY (32 bytes as base64 or hex; older keys behind it, with commas between) a SQLite store is
    encrypted, and a checkpoint, which is there to be read, is refused. Nothing is made on disk before something is
    written. Raises DeclarationError for a URL of no known form, and for what is no key.
    """
    url = url or os.environ.get("MIDSTRIDE_STORE") or DEFAULT
    form, _, path = url.partition(":")
    if url == "memory:":
        return MemoryStore()
    if form not in _FILES or not path:
        raise DeclarationError(f"{url!r} is no store URL: wanted {FORMS}")
    if path.startswith("//"):
        raise DeclarationError(f"the store URL {url!r} has slashes before its path: write {form}:PATH, as in {DEFAULT}")
    return _FILES[form](path)


def _checkpoint(path: str) -> Store:
    if codec.VARIABLE in os.environ:
        raise DeclarationError(
            f"checkpoint:{path} is plain text, and {codec.VARIABLE} asks for an encrypted store: use sqlite:PATH, or "
            "unset it for this file"
        )
    return CheckpointStore(path)


_FILES: dict[str, Callable[[str], Store]] = {
    "sqlite": lambda path: SqliteStore(path, codec=codec.from_environment()),
    "checkpoint": _checkpoint,
}
