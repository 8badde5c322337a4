"""A tool that ran out of time in its thread outlives its run: the process keeps it, and what comes late is kept too."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing

import pytest

from crash.plan import RUN
from crash.points import LATE, Point
from midstride import Runs

HELD = 3
TIMEOUT = 0.02
"""Seconds until the tool has run out of time: a thread gets to its effect all the same."""
COROUTINE_TIMEOUT = 2
"""A coroutine is cancelled wherever it is by then, and must have begun."""


def at_rest(world, gate, timeout=TIMEOUT):
    """Return a process whose run is done, while its tool still stands before its effect."""
    process = world.start({"send 1 before": "hold", "rested": "hold"}, timeout=timeout)
    assert {gate.arrived(), gate.arrived()} == {f"{process.name} send 1 before", f"{process.name} rested"}
    result = process.told("result")
    assert (result["status"], len(result["doubts"])) == ("done", 1)
    return process


def say(world):
    with closing(Runs(world.url)) as runs:
        runs.say(RUN, "Well?")


def holder(world):
    with closing(Runs(world.url)) as runs:
        return runs.store.holder(RUN)


@pytest.mark.fault("a thread outlives its run", "real processes")
@pytest.mark.parametrize("point", [p for p in LATE if p.moment == "ends"], ids=str)
def test_a_run_is_held_while_its_tool_goes_on_and_free_once_it_has_ended(point: Point, world_of, gate_of):
    world = world_of(point.task, store=point.store, mode=point.mode)
    gate = gate_of(world)
    process = at_rest(world, gate)
    assert world.live()["journal"] == process.told("result")["journal"]  # done: nothing to take up
    say(world)
    other = world.start()
    assert (other.wait(), other.told("error")[2][1]) == (HELD, process.pid)
    gate.open()
    while holder(world) is not None:
        os.sched_yield()
    result = world.live()  # the first process lives still
    assert (result["status"], result["doubts"], world.outside.count("send 1")) == ("done", [], 1)
    (decided,) = (e for e in map(json.loads, result["journal"]) if e["kind"] == "decided")
    assert (decided["verdict"], decided["by"]) == ("happened", "tool")
    gate.open(which="rested")
    assert process.wait() == 0


@pytest.mark.fault("a thread outlives its run", "real processes")
@pytest.mark.parametrize("point", [p for p in LATE if p.moment == "taken over"], ids=str)
def test_a_take_over_ends_the_process_and_the_tool_in_it(point: Point, world_of, gate_of):
    world = world_of(point.task, store=point.store, mode=point.mode)
    process = at_rest(world, gate_of(world))
    say(world)
    result = world.live(take_over=True)
    assert process.wait() == -signal.SIGTERM
    assert (result["status"], len(result["doubts"]), world.outside.count("send 1")) == ("done", 1, 0)
    (settled,) = (e for e in map(json.loads, result["journal"]) if e["kind"] == "settled")
    assert settled["content"].startswith("Outcome unknown: send(")


@pytest.mark.fault("a thread outlives its run", "real processes")
@pytest.mark.parametrize("point", [p for p in LATE if p.moment == "killed"], ids=str)
def test_a_process_that_is_killed_with_its_tool_leaves_the_run_free(point: Point, world_of, gate_of):
    world = world_of(point.task, store=point.store, mode=point.mode)
    process = at_rest(world, gate_of(world))
    say(world)
    assert process.kill() == -signal.SIGKILL
    assert holder(world) is None
    result = world.live()
    assert (result["status"], len(result["doubts"]), world.moments.count("send 1 before")) == ("done", 1, 1)


@pytest.mark.parametrize("store", ["sqlite", "checkpoint"])
def test_a_coroutine_that_ran_out_of_time_is_cancelled_and_its_run_is_free(store, world_of, gate_of):
    world = world_of("send", store=store, mode="async")
    gate = gate_of(world)
    process = at_rest(world, gate, COROUTINE_TIMEOUT)
    assert holder(world) is None
    say(world)
    assert world.live()["status"] == "done"
    gate.open(which="rested")
    assert (process.wait(), world.outside.count("send 1")) == (0, 0)
