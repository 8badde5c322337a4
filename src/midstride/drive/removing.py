"""Runs to be removed: each is judged by its journal first, and its store removes it only as it was seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from midstride.core.reconcile import claim_of
from midstride.core.run import NEW, Run
from midstride.drive.history import History, entries_of
from midstride.errors import Damaged, KeyMissing, Newer, Removed, UnknownRun
from midstride.stores import Store
from midstride.stores.fence import no_removal


@dataclass(frozen=True, slots=True)
class Removable:
    """A run that may be removed: how many *entries* and bytes it has, and when its last entry was written.

    *run* is None where its journal cannot be read, which *damage* says; *entries* are those before the damage then.
    """

    id: str
    run: Run | None
    entries: int
    last: float | None
    size: int
    damage: str | None = None

    @property
    def over(self) -> bool:
        """Tell whether nothing is lost with it but the record: nothing is left to be done or to be looked into."""
        return self.run is not None and self.run.over

    @property
    def free_key(self) -> str | None:
        """Return the business key of a ledger's call that certainly had no effect: another call may have it."""
        if self.run is None or self.run.api.loops or not self.run.calls:
            return None
        call = self.run.calls[0]
        return call.recorded.key if claim_of(call) == "free" else None


def looked_at(store: Store, run_id: str) -> Removable:
    """Return the run as its journal has it now; raises UnknownRun, and Removed where it is gone already."""
    history, count, last = History(), 0, None
    try:
        for entry in entries_of(store, run_id):
            history, count, last = history.then((entry,)), count + 1, entry.at
    except (Damaged, Newer, KeyMissing) as error:
        return Removable(run_id, None, count, last, store.size(run_id), str(error))
    if history.run is NEW:
        raise UnknownRun(f"there is no run {run_id!r} in {store.url}")
    return Removable(run_id, history.run, count, last, store.size(run_id))


def old(store: Store, before: float, keep: int) -> Iterator[Removable]:
    """Yield what `Runs.old` promises."""
    if not store.claims:
        raise no_removal(store.url)
    spared = set(store.runs(newest=keep)) if keep else set()
    # That a run is over may not have been said with its last entry, so those that are not known to be are asked too.
    for run_id in itertools.chain(store.ended(before), store.unfinished()):
        if run_id in spared or store.holder(run_id) is not None:
            continue
        try:
            found = looked_at(store, run_id)
        except (UnknownRun, Removed):
            continue  # somebody else removes runs too
        if found.damage or (found.over and found.last is not None and found.last < before):
            yield found


def remove(store: Store, found: Removable, now: float) -> None:
    """Remove the run as it was *found*: raises Held while somebody drives it, Moved where it went on."""
    lease = store.lease(found.id)
    try:
        last = None if found.damage else found.entries
        store.remove(found.id, lease, last=last, at=now, free_key=found.free_key)
    finally:
        lease.release(clean=lease.after_clean)
