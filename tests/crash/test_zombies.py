"""A process that was stopped, and wakes when another has the run: it writes nothing more, and starts nothing more."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import closing

import pytest

from crash.checks import effects, results_told
from crash.plan import RUN, WAIT_SECONDS
from crash.points import STOPPED_AND_TAKEN_OVER, STOPPED_IN_A_TRANSACTION, STOPPED_WITHOUT_ITS_LOCK
from midstride import Runs
from midstride.errors import StoreError
from midstride.stores import database

HELD, FENCED, STORE = 3, 4, 5
ELSEWHERE, INTERRUPTED = 7, 8
"""What the command line ends with."""
EACH_STORE = pytest.mark.parametrize("store", ["sqlite", "checkpoint"])


def stopped_at(world, moment, deeds="stop", then=None):
    """Return a process that has stopped itself at *moment*; *then* are later moments."""
    process = world.start({moment: deeds, **(then or {})})
    world.forks.order("stopped", process.pid)
    return process


def wake(process):
    os.kill(process.pid, signal.SIGCONT)


def wait_until(is_so):
    until = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < until
        os.sched_yield()


def journal_of(world):
    with closing(Runs(world.url)) as runs:
        return [entry.text for entry in runs.store.read(RUN)]


def told_last(world):
    (told,) = results_told(world.bodies[-1].decode())
    return told


# ---- ended by a take-over


@pytest.mark.fault("stopped, and ended by a take-over", "real processes")
@pytest.mark.parametrize("point", STOPPED_AND_TAKEN_OVER, ids=str)
def test_who_is_stopped_anywhere_is_ended_by_a_take_over_and_the_run_goes_on(point, world_of, is_done_right):
    world = world_of(point.task, store=point.store, mode=point.mode)
    zombie = stopped_at(world, point.moment)
    result = world.live(take_over=True, grace=0.01)
    assert zombie.wait() == -signal.SIGKILL
    if result["status"] == "waiting":
        world.decide(result)
        world.finish()
    is_done_right(world)


def has_pending(pid, number):
    """Tell whether a signal waits for the stopped process."""
    with open(f"/proc/{pid}/status") as status:
        pending = next(line for line in status if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) & 1 << (number - 1))


def asked_to_end(zombie, world):
    """Return a process that has asked the stopped one to end, and waits for a minute before it kills it."""
    other = world.start(take_over=True)
    wait_until(lambda: has_pending(zombie.pid, signal.SIGTERM))
    return other


@EACH_STORE
def test_who_wakes_while_it_is_asked_to_end_dies_before_it_does_anything(store, world_of, is_done_right):
    world = world_of("send", store=store)
    zombie = stopped_at(world, "send 1 before")
    other = asked_to_end(zombie, world)
    wake(zombie)
    assert (zombie.wait(), other.wait()) == (-signal.SIGTERM, 0)
    assert "send 1 after" not in world.moments
    is_done_right(world)


@EACH_STORE
def test_a_command_that_wakes_while_it_is_asked_to_end_saves_what_its_tool_did(store, world_of, gate_of):
    """It is still the holder: the take-over waits for it, and goes on from its result."""
    world = world_of("send", store=store, mode="command")
    gate = gate_of(world)
    zombie = stopped_at(world, "send 1 before", then={"send 1 after": "hold"})
    other = asked_to_end(zombie, world)
    wake(zombie)
    assert gate.arrived() == f"{zombie.name} send 1 after"
    wait_until(lambda: "stopping:" in zombie.words)  # else the run could be over before it is asked to stop
    gate.open()
    assert (zombie.wait(), other.wait()) == (INTERRUPTED, 0), other.words + zombie.words
    assert (told_last(world).text, world.outside.count("send 1")) == ("sent 1", 1)


# ---- alive, its lock lost


@pytest.mark.fault("stopped, its lock lost, woken behind another", "real processes")
@pytest.mark.parametrize("point", STOPPED_WITHOUT_ITS_LOCK, ids=str)
def test_who_lost_its_lock_and_wakes_behind_another_is_fenced_out(point, world_of, is_done_right):
    world = world_of(point.task, store=point.store, mode=point.mode)
    zombie = stopped_at(world, point.moment, "drop+stop")
    world.finish()
    journal = journal_of(world)
    wake(zombie)
    assert zombie.wait() == FENCED, zombie.words
    kind, sentence, _ = zombie.told("error")
    assert (kind, "\n" in sentence) == ("Fenced", False)
    assert "taken by a newer holder (token" in sentence
    after = [json.loads(line) for line in journal_of(world)[len(journal) :]]
    assert [(entry["kind"], entry.get("by")) for entry in after] in ([], [("decided", "tool")])
    is_done_right(world)


@EACH_STORE
def test_what_a_tool_gave_too_late_is_the_tools_word_and_not_the_drivers(store, world_of):
    world = world_of("send", store=store)
    zombie = stopped_at(world, "send 1 after", "drop+stop")
    assert len(world.live()["doubts"]) == 1
    wake(zombie)
    assert zombie.wait() == FENCED
    last = json.loads(journal_of(world)[-1])
    assert (last["kind"], last["verdict"], last["by"]) == ("decided", "happened", "tool")
    assert last["content"].endswith("Its result: sent 1")


@EACH_STORE
def test_a_late_result_is_not_written_under_the_token_of_a_newer_holder_that_died(store, world_of):
    """The lock is free again, and the call has no result: still it is not this process that may give it one."""
    world = world_of("post", store=store)
    zombie = stopped_at(world, "post 1 after", "drop+stop")
    world.die("verify 1 before")
    journal = journal_of(world)
    wake(zombie)
    assert zombie.wait() == FENCED
    assert journal_of(world) == journal
    world.finish()
    assert (told_last(world).text, world.outside.count("post 1")) == ("posted 1", 1)


@EACH_STORE
def test_a_command_that_was_fenced_out_says_so_in_one_sentence(store, world_of):
    world = world_of("send", store=store, mode="command")
    zombie = stopped_at(world, "send 1 after", "drop+stop")
    assert world.start().wait() == 0
    wake(zombie)
    assert zombie.wait() == ELSEWHERE
    (sentence,) = (line for line in zombie.words.splitlines() if line.startswith("midstride: "))
    assert sentence.startswith(f"midstride: run '{RUN}' ")
    assert world.outside.count("send 1") == 1


# ---- holding the database's write lock


@pytest.mark.fault("stopped in a transaction", "real processes")
@pytest.mark.parametrize("point", STOPPED_IN_A_TRANSACTION, ids=str)
def test_who_is_stopped_in_a_transaction_keeps_others_out_and_loses_nothing(
    point, world_of, is_done_right, monkeypatch
):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    world = world_of("book", store=point.store, mode=point.mode)
    zombie = stopped_at(world, point.moment)
    assert world.start(busy=0.01).wait() == HELD
    with closing(Runs(world.url)) as runs:
        assert runs.status(RUN)[1].startswith(f"driven by pid {zombie.pid} on ")
        with pytest.raises(StoreError, match=r"is locked by another connection .*: nothing was written; end that"):
            runs.say(RUN, "Well?")
    wake(zombie)
    assert zombie.wait() == 0
    world.processes.pop()
    is_done_right(world)


@pytest.mark.fault("stopped in a transaction", "real processes")
@pytest.mark.parametrize("point", STOPPED_IN_A_TRANSACTION, ids=str)
def test_who_lost_its_lock_in_a_transaction_is_the_driver_still(point, world_of, is_done_right):
    """Nobody can take the run up while the database is locked: whoever tries says so, and the commit is in order."""
    world = world_of("book", store=point.store, mode=point.mode)
    zombie = stopped_at(world, point.moment, "drop+stop")
    other = world.start(busy=0.01)
    assert (other.wait(), other.told("error")[0]) == (STORE, "StoreError")
    wake(zombie)
    assert zombie.wait() == 0
    world.processes.pop()
    is_done_right(world)


def test_a_transaction_that_begins_behind_a_newer_holder_is_not_committed(world_of, is_done_right):
    world = world_of("book")
    zombie = stopped_at(world, "append 3 after", "drop+stop")
    world.finish()
    wake(zombie)
    assert zombie.wait() == FENCED
    assert world.moments.count("book 1 after") == 2
    assert effects(world, told_last(world)) == 1
    is_done_right(world)
