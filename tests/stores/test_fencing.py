"""Two holders of one run, through two handles, in every order: at most one of them writes behind the newest `taken`."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from crash.report import record
from midstride.core.journal import Head, Requested, Taken, head_of, seal
from midstride.errors import Fenced, Held, Moved
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore, locks
from midstride.testing.conformance import AT, process, started

ACTS = ("lease", "take", "append", "stale", "release")
"""What a holder may do, in its right or when the other has long the run; "stale" appends behind what it last read."""
NAMES = ("one", "other")
MAKE = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "runs.db"),
    "checkpoint": lambda folder: CheckpointStore(folder / "run.json"),
}


@dataclass
class Holder:
    """What one of the two believes: its lease, its token, and the journal's end as it knows it."""

    store: object
    lease: object = None
    token: int = 0
    head: Head = field(default_factory=Head)


class Two:
    """Both holders of a fresh run, and the model: who has the lease, the newest token, and the journal's length."""

    def __init__(self, stores, run_id):
        self.run_id = run_id
        self.holders = dict(zip(NAMES, map(Holder, stores), strict=True))
        self.leased, self.newest, self.length = None, 0, 0

    def act(self, name, act):
        """Carry the act out, and check it against the model."""
        holder = self.holders[name]
        getattr(self, act)(name, holder)
        assert len(holder.store.read(self.run_id)) == self.length

    def lease(self, name, holder):
        if self.leased is not None:
            for take_over in (False, True):
                with pytest.raises(Held):
                    holder.store.lease(self.run_id, take_over=take_over)
        else:
            holder.lease, self.leased = holder.store.lease(self.run_id), name

    def take(self, name, holder):
        """Take the run up with the next token, whoever has the lease: the log goes by tokens alone."""
        holder.head = head_of(holder.store.read(self.run_id))
        holder.token = self.newest + 1
        bodies = [*([started()] if not self.length else []), Taken(holder.token, "host", os.getpid())]
        self._append(holder, *bodies)
        self.newest = holder.token

    def append(self, name, holder):
        holder.head = head_of(holder.store.read(self.run_id))
        self._written(holder)

    def stale(self, name, holder):
        if holder.head.seq == self.length:
            self._written(holder)
        else:
            with pytest.raises(Moved if holder.token == self.newest else Fenced):
                self._append(holder, Requested())

    def _written(self, holder):
        if holder.token == self.newest > 0:
            self._append(holder, Requested())
        else:
            with pytest.raises(Fenced):
                self._append(holder, Requested())

    def _append(self, holder, *bodies):
        entries = seal(bodies, holder.head, AT)
        holder.store.append(self.run_id, entries, token=holder.token)
        holder.head, self.length = head_of(entries), self.length + len(entries)

    def release(self, name, holder):
        if holder.lease is not None:
            holder.lease.release(clean=True)
            holder.lease.release(clean=True)
        if self.leased == name:
            self.leased = None

    def give_back(self):
        for holder in self.both:
            if holder.lease is not None:
                holder.lease.release()

    @property
    def state(self):
        """Return what tells this state from others: all but the size of the numbers."""
        sides = ((h.lease is not None, behind(self.newest, h.token), h.head.seq < self.length) for h in self.both)
        return (self.leased, self.length > 0, *sides)

    @property
    def both(self):
        return self.holders.values()


def behind(newest, token):
    return -1 if token == 0 else min(newest - token, 1)


@pytest.fixture
def memory_folder():
    """A folder in memory where there is one: what is asked here is not what a disk keeps."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def handles(kind, folder):
    """Yield two handles of a journal that is empty, again and again; each is closed before the next one."""
    for number in itertools.count():
        place = folder / str(number)
        place.mkdir()
        one = MAKE[kind](place)
        other = one if kind == "memory" else MAKE[kind](place)
        with closing(one), closing(other):
            # A database holds many runs, and costs more to make than all that is done with one.
            for run in range(1 if kind == "checkpoint" else 1_000):
                yield (one, other), f"run-{run}"


@pytest.mark.parametrize("kind", MAKE)
def test_every_act_in_every_state_of_two_holders_is_as_the_model_says(kind, memory_folder):
    """Each state that differs is reached once, by its shortest way, and each act of each holder is tried in it."""
    seen, ways, tried = set(), [()], 0
    with closing(handles(kind, memory_folder)) as fresh:
        for way in ways:
            for step in itertools.product(NAMES, ACTS):
                two = Two(*next(fresh))
                for name, act in (*way, step):
                    two.act(name, act)
                two.give_back()
                tried += 1
                if two.state not in seen:
                    seen.add(two.state)
                    ways.append((*way, step))
    assert (len(ways), tried) == (73, 730)  # there are no more states
    record("two holders, each in every order", kind, tried, tried)


# ---- giving back a lock that was lost


@pytest.mark.parametrize("make", [SqliteStore, CheckpointStore])
def test_a_lease_that_was_lost_unseen_does_not_mark_the_next_holder_as_ended_in_order(make, tmp_path):
    """Closing any descriptor of the lock file drops the lock; the next holder is killed, and that was a crash."""
    path = tmp_path / "runs"
    with closing(make(path)) as store:
        lease = store.lease("run")
        os.close(os.open(locks.lock_file_of(path), os.O_RDONLY))
        with process(lambda: make(path).lease("run")) as holder:
            lease.release(clean=True)
            os.kill(holder, signal.SIGKILL)
            os.waitpid(holder, 0)
            assert store.lease("run").after_clean is False
