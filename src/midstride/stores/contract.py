"""What a store promises: a fenced, append-only log for each run, and one driver for each run.

A store is a class of its own with these methods; `midstride.testing.store_conformance` asks every promise below of it.
All methods block and may be called from any thread. What a store cannot read or write it reports as `StoreError`,
never as "nothing there": a ledger that cannot be read is not an empty ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from midstride.core.journal import Entry
from midstride.errors import Holder


class Lease(Protocol):
    """The right to drive a run, kept until released or until this process dies; a forked child does not have it."""

    after_clean: bool
    """Whether the last holder gave the run back in order (or there was none); a hint, for counting crashes in a row."""

    kept: bool
    """Set while an attempt that goes on needs the lease: closing its store does not release it then."""

    def release(self, *, clean: bool = False) -> None:
        """Give the run back, *clean* when this holder ended in order; releasing twice does nothing."""

    def held(self) -> bool:
        """Tell whether this very process (not its fork) still has the lease."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A business key that a run claims together with its intent: one run of a store has it at a time.

    *instead_of* names the run whose claim was found to be free; it is taken over if that run still has it.
    """

    key: str
    instead_of: str | None = None


@dataclass(frozen=True, slots=True)
class Freed:
    """What `Store.shrink` gave back: *entries* that were deleted, the bytes of the store's files *before* and *after*.

    *note* says why space was not given back, where it was not.
    """

    entries: int
    before: int
    after: int
    note: str = ""


class Transaction(Protocol):
    """An open transaction of the store's database: what *connection* writes and what `append` adds commit together."""

    connection: Any

    def append(self, entries: Sequence[Entry], *, token: int | None, over: bool = False) -> None:
        """As `Store.append`, but durable only when the transaction has committed."""


class Store(Protocol):
    """Where journals live."""

    url: str
    """Names the store in messages, for example `sqlite:.midstride/runs.db`."""

    transactional: bool
    """Whether `transaction` works: the store is a database that the user's own tables can live in."""

    claims: bool
    """Whether business keys can be claimed across runs: a store that holds one run has nobody to tell of them."""

    def lease(self, run_id: str, *, take_over: bool = False) -> Lease:
        """Take the right to drive *run_id*: at once when no living process has it, however its last holder died.

        Raises Held, which names the living holder. With *take_over* a living holder in another process is ended
        first (SIGTERM, then SIGKILL); one in this process is not, and stays Held.
        """

    def holder(self, run_id: str) -> Holder | None:
        """Return the living process that drives *run_id*, without taking anything; None when nobody does."""

    def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries behind seq *after*, in order; an unknown run has none.

        Raises Damaged, Newer, NotOurs, and Removed for a run that was removed.

        At most *limit* of them, so that a journal of any length can be read in pages (`drive.history.entries_of`).

        Whatever is returned is as it was written: `core.journal.decode_all` opens stored lines and checks their chain.
        Damaged carries the entries before the damage. Raises KeyMissing for entries that are encrypted with a key that
        is not given; what can be checked of them without it is whole then.
        """

    def check(self) -> list[str]:
        """Return what is wrong with the store's files beside the journals, in sentences; nothing when all is whole."""

    def keep(self, run_id: str, data: bytes) -> str | None:
        """Keep the whole of a result of which the model is shown a part, durably, and return where.

        The same data is kept once for a run. None when this store keeps none.
        """

    def kept(self, where: str) -> bytes:
        """Return the whole of a result that `keep` kept at *where*. Raises StoreError when it is not there."""

    def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        *,
        token: int | None,
        claim: Claim | None = None,
        over: bool = False,
    ) -> None:
        """Add *entries* behind the last one, all or none; when this returns they are on disk.

        Many threads may append at once: what waits together may be written with one sync, each addition all or none
        by itself. Raises NotDurable, a StoreError, where nobody can know whether they are on disk.

        Raises Fenced when *token* is not the newest one (the newest `taken` entry names it), and Moved when the
        first entry's seq is not the next one; Fenced wins when both are true. A batch that holds a `taken` entry
        needs that entry's token to be the newest plus one, and *token* to be the same. *token* None is somebody
        outside: allowed for the kinds in `journal.OUTSIDE` alone, else Fenced.

        With a *claim* the run has the claim's key once they are on disk, and not before. Raises Claimed, which names
        the owner, when another run has it than the one in *instead_of*; DeclarationError where not `claims`.

        *over* says that with these entries nothing is left to be done, or to be looked into: see `unfinished`.

        Raises Removed for a run that was removed.
        """

    def transaction(self, run_id: str) -> AbstractContextManager[Transaction]:
        """Open a transaction that commits at the end of the block, durably, and is rolled back by an exception.

        The block's code may neither commit nor roll back by itself. Raises DeclarationError where not `transactional`.
        """

    def runs(self, *, newest: int | None = None) -> list[str]:
        """Return the ids of the runs that have started, oldest first; of the *newest* so many alone."""

    def unfinished(self) -> list[str]:
        """Return the ids of the runs whose last append did not say that they are over, oldest first.

        It is a superset of those that are open, found without reading journals: a finished run may be among them, and
        one that somebody has to carry on or to look into is never missing.
        """

    def ended(self, before: float) -> list[str]:
        """Return the ids of the runs that are not `unfinished`, and have no entry since *before*, oldest first.

        It is found without reading journals, so whoever removes a run asks its journal first.
        """

    def size(self, run_id: str) -> int:
        """Return how many bytes the run's entries and the whole results kept for it take."""

    def remove(self, run_id: str, lease: Lease, *, last: int | None, at: float, free_key: str | None = None) -> None:
        """Leave nothing of the run but a tombstone of the time *at*; the caller has its *lease*.

        From now on the run is not listed, and whoever reads it or appends to it meets Removed: its id is the same work
        for ever. Its business key stays claimed, unless it is *free_key*. The space is given back by `shrink`; before
        that a power cut may bring the run back, whole.

        Raises Moved when *last* is not its last entry's seq (None is any), Fenced without the lease, Removed when it
        was removed before, UnknownRun when there is none, DeclarationError where the store holds one run.
        """

    def forget(self, run_id: str, lease: Lease) -> None:
        """Take a removed run's tombstone away, and the business keys that it had: its id may begin anew.

        Raises UnknownRun where there is no tombstone, Fenced without the lease.
        """

    def shrink(self) -> Freed:
        """Give the space of removed runs back to the file system, what an interrupted `shrink` left too.

        Others write meanwhile: it takes many short steps.
        """

    def foreign(self, run_id: str) -> Mapping[str, Any] | None:
        """Return a checkpoint of somebody else's that stands where this run's journal would, if there is one."""

    def close(self) -> None:
        """Let go of files and connections; leases of this store are released."""
