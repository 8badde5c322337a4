"""The reference store.

A `MemoryStore` lives as long as its object; those who share it share the object. Its leases are between threads.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from midstride.core.journal import Entry, Taken
from midstride.errors import Held, Holder, StoreError, UnknownRun
from midstride.stores.contract import Claim, Freed, Lease, Transaction
from midstride.stores.fence import check_claim, check_removal, fence, no_transactions, removed


class MemoryStore:
    """Journals in this process's memory."""

    url = "memory:"
    transactional = False
    claims = True

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._journals: dict[str, list[Entry]] = {}
        self._taken: dict[str, Entry] = {}
        self._leases: dict[str, _MemoryLease] = {}
        self._owners: dict[str, str] = {}
        self._ended: dict[str, float | None] = {}
        self._removed: dict[str, float] = {}

    def lease(self, run_id: str, *, take_over: bool = False) -> _MemoryLease:
        """Take the right to drive *run_id*; a holder in this process stays Held even with *take_over*."""
        with self._mutex:
            current = self._leases.get(run_id)
            if current is not None and current.held():
                raise self._held(run_id)
            lease = self._leases[run_id] = _MemoryLease(current is None or current.clean)
            return lease

    def _held(self, run_id: str) -> Held:
        holder = self._holder(run_id)
        return Held(
            f"run {run_id!r} is held by this very process (pid {holder.pid}), which cannot be taken over: leave the "
            "other `with Run(...)` block first",
            holder,
        )

    def holder(self, run_id: str) -> Holder | None:
        """Return this process while one of its threads drives the run."""
        with self._mutex:
            lease = self._leases.get(run_id)
            return self._holder(run_id) if lease is not None and lease.held() else None

    def _holder(self, run_id: str) -> Holder:
        taken = self._taken.get(run_id)
        return Holder(socket.gethostname(), os.getpid(), taken.at if taken else None)

    def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries behind seq *after*, at most *limit* of them."""
        with self._mutex:
            self._check_there(run_id)
            return self._journals.get(run_id, [])[after : None if limit is None else after + limit]

    def _check_there(self, run_id: str) -> None:
        if run_id in self._removed:
            raise removed(run_id, self._removed[run_id])

    def check(self) -> list[str]:
        """Return nothing: there are no files."""
        return []

    def keep(self, run_id: str, data: bytes) -> str | None:
        """Keep nothing: there are no files."""
        return None

    def kept(self, where: str) -> bytes:
        """Raise StoreError: nothing is kept."""
        raise StoreError(f"{self.url} keeps no results")

    def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        *,
        token: int | None,
        claim: Claim | None = None,
        over: bool = False,
    ) -> None:
        """Add *entries* behind the last one, all or none."""
        with self._mutex:
            self._check_there(run_id)
            journal = self._journals.get(run_id, [])
            fence(run_id, _token(self._taken.get(run_id)), len(journal), entries, token)
            if claim is not None:
                check_claim(run_id, self._owners.get(claim.key), claim)
                self._owners[claim.key] = run_id
            if entries:
                self._journals.setdefault(run_id, []).extend(entries)
                self._ended[run_id] = entries[-1].at if over else None
            for entry in entries:
                if isinstance(entry.body, Taken):
                    self._taken[run_id] = entry

    def transaction(self, run_id: str) -> AbstractContextManager[Transaction]:
        """Raise DeclarationError: there is no database that a tool could write to."""
        raise no_transactions(self.url)

    def runs(self, *, newest: int | None = None) -> list[str]:
        """Return the ids of the runs that have started, oldest first; of the *newest* so many alone."""
        with self._mutex:
            ids = list(self._journals)
        return ids if newest is None else ids[max(0, len(ids) - newest) :]

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that are not known to be over, oldest first."""
        with self._mutex:
            return [run_id for run_id in self._journals if self._ended[run_id] is None]

    def ended(self, before: float) -> list[str]:
        """Return the ids of the runs that ended before that time, oldest first."""
        with self._mutex:
            return [run_id for run_id in self._journals if (at := self._ended[run_id]) is not None and at < before]

    def size(self, run_id: str) -> int:
        """Return how many bytes the run's entries take."""
        with self._mutex:
            return sum(len(entry.text) for entry in self._journals.get(run_id, []))

    def remove(self, run_id: str, lease: Lease, *, last: int | None, at: float, free_key: str | None = None) -> None:
        """Leave nothing of the run but the time of its removal."""
        with self._mutex:
            self._check_there(run_id)
            if run_id not in self._journals:
                raise UnknownRun(f"there is no run {run_id!r} in this store: nothing was removed")
            check_removal(run_id, lease, len(self._journals[run_id]), last)
            for kept in (self._journals, self._taken, self._ended):
                kept.pop(run_id, None)
            self._removed[run_id] = at
            if free_key is not None and self._owners.get(free_key) == run_id:
                del self._owners[free_key]

    def forget(self, run_id: str, lease: Lease) -> None:
        """Let the removed run's id begin anew, and its business keys be claimed."""
        with self._mutex:
            if run_id not in self._removed:
                raise UnknownRun(f"there is no removed run {run_id!r} in this store: nothing was removed")
            check_removal(run_id, lease, 0, None)
            del self._removed[run_id]
            self._owners = {key: owner for key, owner in self._owners.items() if owner != run_id}

    def shrink(self) -> Freed:
        """Return nothing: what is removed is gone at once."""
        return Freed(0, 0, 0)

    def foreign(self, run_id: str) -> Mapping[str, Any] | None:
        """Return None: nobody else writes here."""
        return None

    def close(self) -> None:
        """Release the leases; the journals stay as long as the object."""
        with self._mutex:
            leases = list(self._leases.values())
            self._leases.clear()
        for lease in leases:
            if not lease.kept:
                lease.release()


def _token(taken: Entry | None) -> int | None:
    return taken.body.token if taken is not None and isinstance(taken.body, Taken) else None


class _MemoryLease:
    """A run held by this process; a forked child works on a copy of the store, which nobody holds."""

    def __init__(self, after_clean: bool) -> None:
        self.after_clean = after_clean
        self.clean = False
        self.kept = False
        self._pid = os.getpid()
        self._released = False

    def release(self, *, clean: bool = False) -> None:
        """Give the run back."""
        if self._pid == os.getpid() and not self._released:
            self._released, self.clean = True, clean

    def held(self) -> bool:
        """Tell whether this very process still has the lease."""
        return not self._released and self._pid == os.getpid()
