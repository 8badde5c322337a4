"""A run's journal, read in pages and folded as it is read: no more of it is in memory than the run itself needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from midstride.core.fold import fold
from midstride.core.journal import OUTSIDE, Entry
from midstride.core.run import NEW, Run
from midstride.errors import Damaged, NotAllowed
from midstride.stores import Store

PAGE = 100
"""Entries that are read at once: enough that asking for them costs little, few enough to stay small in memory."""


def entries_of(store: Store, run_id: str, after: int = 0) -> Iterator[Entry]:
    """Yield the run's entries behind seq *after* in order, read in pages; those before a damage come before Damaged."""
    full = True
    while full:
        try:
            page = store.read(run_id, after, PAGE)
        except Damaged as error:
            yield from error.whole
            raise
        yield from page
        full = len(page) == PAGE
        after += len(page)


@dataclass(frozen=True)
class History:
    """A run as it is, and as it was behind its holders' own last entry, before *others* appended theirs."""

    run: Run = NEW
    own: Run = NEW
    others: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, store: Store, run_id: str) -> History:
        """Return the history of a run in a store."""
        return cls.of(entries_of(store, run_id))

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> History:
        """Return the history that *entries* tell from the beginning."""
        return cls().then(entries)

    def then(self, entries: Iterable[Entry]) -> History:
        """Return this history with *entries* behind it; Damaged when they do not follow from it."""
        run, own, others = self.run, self.own, list(self.others)
        for entry in entries:
            try:
                run = fold((entry,), run)
            except NotAllowed as error:
                raise Damaged(f"entry {entry.seq} of the journal cannot follow those before it: {error}") from error
            others.append(entry)
            if entry.body.kind not in OUTSIDE:
                own = run
                others.clear()
        return History(run, own, tuple(others))
