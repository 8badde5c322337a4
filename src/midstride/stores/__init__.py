"""Where journals live: memory, SQLite, and the lesson's own checkpoint.json."""

from midstride.stores.checkpoint import CheckpointStore
from midstride.stores.codec import AesGcm, Codec
from midstride.stores.contract import Claim, Freed, Lease, Store, Transaction
from midstride.stores.memory import MemoryStore
from midstride.stores.sqlite import SqliteStore
from midstride.stores.urls import open_store

__all__ = [
    "AesGcm",
    "CheckpointStore",
    "Claim",
    "Codec",
    "Freed",
    "Lease",
    "MemoryStore",
    "SqliteStore",
    "Store",
    "Transaction",
    "open_store",
]
