"""A process that dies in thought: a fuse in its store, tools, model and clock blows at the point that it is told.

From that moment on nothing of the dead process reaches the store or the world outside:

- every operation of its store raises `Killed`, and no tool, verify or request of it begins;
- a tool that runs in another thread is waited for: what it does is done before the death, and its result is lost;
- a coroutine is never resumed, not even to be cancelled: a process that is killed cleans nothing up;
- its lease is never given back in order. When all of it has stopped, the lease becomes free unclean, as the kernel
  frees the lock of a process that it kills.

What cannot be had in one process is a death inside a store's write; for that, kill real ones.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from midstride.core.journal import Entry
from midstride.drive.attempts import LATE
from midstride.errors import Holder, StoreError
from midstride.stores import Claim, Freed, Lease, Store, Transaction

WAIT_SECONDS = 60.0
"""How long a tool of a dead process may go on before the plan is given up; tools in a test end at once."""


class Killed(BaseException):
    """The process is dead. Nobody catches a crash."""


class Fuse:
    """Blows when its process reaches the point called *at*; `points` are those that it reached, in order."""

    def __init__(self, at: str | None = None) -> None:
        self.points: list[str] = []
        self.blown = False
        self.died_at: str | None = None
        self.left: list[Any] = []
        """Coroutines that a death left in their middle: kept, since Python would clean up behind them."""
        self._at = at
        self._times: Counter[str] = Counter()
        self._running = 0
        self._changed = threading.Condition()

    def reach(self, name: str) -> None:
        """Pass the point *name*, or die there; the second time in one process it is called "*name* #2"."""
        with self._changed:
            self.check()
            self._times[name] += 1
            point = name if self._times[name] == 1 else f"{name} #{self._times[name]}"
            self.points.append(point)
            if point == self._at:
                self.blown, self.died_at = True, point
        self.check()

    def check(self) -> None:
        """Raise Killed in a dead process, and StoreError in a thread that reports late: it ends in order then.

        Nobody waits for that thread, and pytest fails the test of a thread that anything else ends, SystemExit too.
        """
        if self.blown:
            raise StoreError("this process is dead") if threading.current_thread().name == LATE else Killed

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let a tool's own code run in the block, unless the process is dead; `end` waits for the block's end."""
        with self._changed:
            self.check()
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """End the process if it lives, and wait until nothing of it runs."""
        with self._changed:
            self.blown = True
            if not self._changed.wait_for(lambda: self._running == 0, WAIT_SECONDS):
                raise AssertionError(
                    f"a tool of the dead process still runs after {WAIT_SECONDS:g} s: let it end by itself"
                )


_processes = itertools.count(1)


class FusedStore:
    """The store as one process has it: points around taking, each append, each commit, and giving back."""

    def __init__(self, inner: Store, fuse: Fuse) -> None:
        self.inner, self.fuse = inner, fuse
        # Attempts are kept by the store's place, and no process finds those of another one.
        self.url = f"{inner.url} (process {next(_processes)})"
        self.transactional, self.claims = inner.transactional, inner.claims
        self._leases: list[Lease] = []
        self._appends = itertools.count(1)

    def lease(self, run_id: str, *, take_over: bool = False) -> FusedLease:
        """Take the right to drive the run."""
        self.fuse.reach("take before")
        lease = self.inner.lease(run_id, take_over=take_over)
        self._leases.append(lease)
        self.fuse.reach("take after")
        return FusedLease(lease, self.fuse)

    def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        *,
        token: int | None,
        claim: Claim | None = None,
        over: bool = False,
    ) -> None:
        """Add *entries*."""
        with self.around_append():
            self.inner.append(run_id, entries, token=token, claim=claim, over=over)

    @contextlib.contextmanager
    def around_append(self) -> Iterator[None]:
        """Pass the points around an append: before it nothing is on disk, behind it all of it is."""
        number = next(self._appends)
        self.fuse.reach(f"append {number} before")
        yield
        self.fuse.reach(f"append {number} after")

    @contextlib.contextmanager
    def transaction(self, run_id: str) -> Iterator[Transaction]:
        """Open a transaction; a death in it rolls it back, as a database does for a process that is gone."""
        self.fuse.check()
        with self.inner.transaction(run_id) as transaction:
            yield FusedTransaction(transaction, self)
            self.fuse.reach("commit before")
        self.fuse.reach("commit after")

    def holder(self, run_id: str) -> Holder | None:
        """Return who drives the run."""
        self.fuse.check()
        return self.inner.holder(run_id)

    def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries behind seq *after*, at most *limit* of them."""
        self.fuse.check()
        return self.inner.read(run_id, after, limit)

    def check(self) -> list[str]:
        """Return what is wrong with the store's files."""
        self.fuse.check()
        return self.inner.check()

    def keep(self, run_id: str, data: bytes) -> str | None:
        """Keep the whole of a result."""
        self.fuse.check()
        return self.inner.keep(run_id, data)

    def kept(self, where: str) -> bytes:
        """Return the whole of a result."""
        self.fuse.check()
        return self.inner.kept(where)

    def runs(self, *, newest: int | None = None) -> list[str]:
        """Return the ids of the runs that have started."""
        self.fuse.check()
        return self.inner.runs(newest=newest)

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that are not known to be over."""
        self.fuse.check()
        return self.inner.unfinished()

    def ended(self, before: float) -> list[str]:
        """Return the ids of the runs that ended before that time."""
        self.fuse.check()
        return self.inner.ended(before)

    def size(self, run_id: str) -> int:
        """Return how many bytes the run takes."""
        self.fuse.check()
        return self.inner.size(run_id)

    def remove(self, run_id: str, lease: Lease, *, last: int | None, at: float, free_key: str | None = None) -> None:
        """Remove the run."""
        self.fuse.reach("remove before")
        self.inner.remove(run_id, lease, last=last, at=at, free_key=free_key)
        self.fuse.reach("remove after")

    def forget(self, run_id: str, lease: Lease) -> None:
        """Let a removed run's id begin anew."""
        self.fuse.reach("forget before")
        self.inner.forget(run_id, lease)
        self.fuse.reach("forget after")

    def shrink(self) -> Freed:
        """Give the space of removed runs back."""
        self.fuse.check()
        return self.inner.shrink()

    def foreign(self, run_id: str) -> Mapping[str, Any] | None:
        """Return a checkpoint of somebody else's."""
        self.fuse.check()
        return self.inner.foreign(run_id)

    def close(self) -> None:
        """Close the store, in a process that lives; nobody closes anything for a dead one."""
        if not self.fuse.blown:
            self.inner.close()

    def bury(self) -> None:
        """Free the leases of a process of which nothing runs any more, unclean."""
        for lease in self._leases:
            lease.release(clean=False)


class FusedTransaction:
    """A transaction of one process."""

    def __init__(self, inner: Transaction, store: FusedStore) -> None:
        self.inner, self._store = inner, store
        self.connection: Any = inner.connection

    def append(self, entries: Sequence[Entry], *, token: int | None, over: bool = False) -> None:
        """Add *entries*, which commit with the tool's writes."""
        with self._store.around_append():
            self.inner.append(entries, token=token, over=over)


class FusedLease:
    """The lease of one process: the dead do not give anything back."""

    def __init__(self, inner: Lease, fuse: Fuse) -> None:
        self.inner, self._fuse = inner, fuse
        self.after_clean = inner.after_clean

    @property
    def kept(self) -> bool:
        """Whether an attempt that goes on needs the lease."""
        return self.inner.kept

    @kept.setter
    def kept(self, kept: bool) -> None:
        self.inner.kept = kept

    def release(self, *, clean: bool = False) -> None:
        """Give the run back, unless the process is dead or dies here."""
        if not self._fuse.blown:
            self._fuse.reach("release")
            self.inner.release(clean=clean)

    def held(self) -> bool:
        """Tell whether the process still has the lease."""
        self._fuse.check()
        return self.inner.held()
