"""What outlives a killed process, and what bears its number: neither has its run, and neither keeps it from others."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from contextlib import closing

import pytest

from crash.plan import RUN
from crash.points import CHILDREN, FORKED, PIDS
from midstride import Runs
from midstride.core.journal import Head, Requested, Started, Taken, seal
from midstride.errors import Held
from midstride.stores import open_store
from midstride.testing.conformance import process

HELD = 3
EACH_STORE = pytest.mark.parametrize("store", ["sqlite", "checkpoint"])


@pytest.mark.fault("a forked child goes on as the driver", "real processes")
@pytest.mark.parametrize("point", FORKED, ids=str)
def test_a_child_that_was_forked_anywhere_never_goes_on_as_the_driver(point, world_of, gate_of, is_done_right):
    """It wakes when its parent is dead and nobody has the run: the lease is free, and still it is not the child's."""
    world = world_of(point.task, store=point.store, mode=point.mode)
    gate = gate_of(world)
    parent = world.start({point.moment: "fork"})
    assert parent.wait() == -signal.SIGKILL
    assert gate.arrived() == "p0 forked"
    before = world.moments
    gate.open()
    assert gate.arrived() == "p0 Fenced"
    assert [m for m in world.moments[len(before) :] if not m.startswith("append")] == []
    world.finish()
    is_done_right(world)


def died_with_a_child(world, gate, deed):
    """Kill a process in its tool, which has left a child behind; return what the child said first."""
    parent = world.start({"send 1 after": f"{deed}+kill"})
    word = gate.arrived()
    assert parent.wait() == -signal.SIGKILL
    return word


@pytest.mark.fault("a child outlives its killed parent", "real processes")
@pytest.mark.parametrize("point", CHILDREN, ids=str)
def test_a_child_that_outlives_its_parent_keeps_nobody_from_the_run(point, world_of, gate_of, is_done_right):
    world = world_of(point.task, store=point.store, mode=point.mode)
    gate = gate_of(world)
    word = died_with_a_child(world, gate, point.moment)
    with closing(Runs(world.url)) as runs:
        assert runs.status(RUN)[0] == "interrupted"
    result = world.finish()
    is_done_right(world)
    if word.startswith("p0 child"):
        os.kill(int(word.split()[-1]), 0)  # it lives still
    gate.open()
    gate.open(which="held 1")
    if word == "p0 forked":
        append, transaction = "Fenced", "Fenced" if point.store == "sqlite" else "DeclarationError"
        # The run is at rest, so the child may take it up like any process; giving it back takes nothing from others.
        assert gate.arrived() == f"p0 False, {append}, {transaction}, done, Held"
    assert world.live()["journal"] == result["journal"]


@EACH_STORE
def test_a_child_neither_releases_nor_takes_what_another_process_holds(store, world_of, gate_of):
    world = world_of("send", store=store)
    gate = gate_of(world)
    assert died_with_a_child(world, gate, "fork and meddle") == "p0 forked"
    holder = world.start({"draft 1": "hold"})
    assert gate.arrived() == f"{holder.name} draft 1"
    gate.open(which="held 1")
    transaction = "Fenced" if store == "sqlite" else "DeclarationError"
    assert gate.arrived() == f"p0 False, Fenced, {transaction}, Held, Held"
    assert world.start().wait() == HELD
    gate.open()
    assert holder.wait() == 0


# ---- pids


@contextlib.contextmanager
def recorded(world, pid):
    """Leave a journal as a process that was killed leaves it, whose record names *pid*."""

    def begin():
        store = open_store(world.url)
        store.lease(RUN)
        task = world.task
        started = Started(task, "anthropic", [{"role": "user", "content": task}], nonce="00", system="Be brief.")
        entries = seal([started, Taken(1, socket.gethostname(), pid), Requested()], Head(), 1_700_000_000.0)
        store.append(RUN, entries, token=1)

    with process(begin) as holder:
        yield holder


def pid_that_is(whose, world):
    """Return the number of a process that lives and has nothing to do with the run, or of one that is dead."""
    if whose == "of a stranger":
        return os.getppid()
    if whose == "of the next process":
        return os.getpid()
    dead = world.start(decide=["nothing", "allow"])
    dead.wait()
    world.processes.clear()
    return dead.pid


@pytest.mark.fault("a pid belongs to another process", "real processes")
@pytest.mark.parametrize("point", PIDS, ids=str)
def test_a_recorded_pid_is_never_believed(point, world_of):
    """Alive or dead, the process of that number is not asked: the kernel says who holds the run."""
    world = world_of(point.task, store=point.store, mode=point.mode)
    pid = pid_that_is(point.moment, world)
    with recorded(world, pid) as holder, closing(open_store(world.url)) as store:
        with pytest.raises(Held) as caught:
            store.lease(RUN)
        assert (caught.value.holder.pid, caught.value.holder.since) == (holder, None)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        assert store.holder(RUN) is None
        store.lease(RUN, take_over=True).release()  # nobody is ended for a number
    if pid != os.getpid():
        assert world.live()["status"] == "done"


@EACH_STORE
def test_a_process_that_has_the_number_of_the_dead_holder_is_no_holder_yet(store, world_of):
    """Its own pid stands in the record, and it may take the run like any other; only then it is the holder."""
    world = world_of("send", store=store)
    with recorded(world, os.getpid()) as holder:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        with closing(open_store(world.url)) as own:
            assert own.holder(RUN) is None
            lease = own.lease(RUN)
            assert (own.holder(RUN).pid, lease.held(), lease.after_clean) == (os.getpid(), True, False)
