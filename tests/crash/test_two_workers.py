"""Who may drive a run, between real processes: one, at once when the last one died, and nobody who was fenced out."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest

STORES = pytest.mark.parametrize("store", ["sqlite", "checkpoint"])
CROWD = 8
HELD, FENCED = 3, 4


@STORES
def test_of_eight_that_carry_a_dead_run_on_at_once_one_drives_it(store, world_of, gate_of, is_done_right):
    world = world_of("send", store=store)
    world.die("append 2 after")
    gate = gate_of(world)
    crowd = {p.name: p for p in (world.start({"start": "hold", "send 1 before": "hold"}) for _ in range(CROWD))}
    assert sorted(gate.arrived() for _ in crowd) == [f"{name} start" for name in sorted(crowd)]
    gate.open(CROWD, "start")
    winner = crowd.pop(gate.arrived().removesuffix(" send 1 before"))
    assert [loser.wait() for loser in crowd.values()] == [HELD] * (CROWD - 1)
    assert {tuple(loser.told("error")[2][:2]) for loser in crowd.values()} == {(socket.gethostname(), winner.pid)}
    gate.open()
    assert winner.wait() == 0
    world.processes = [world.processes[0], winner]
    is_done_right(world)


@STORES
def test_who_is_refused_is_told_who_holds_the_run_and_since_when(store, world_of, gate_of):
    world = world_of("send", store=store)
    gate = gate_of(world)
    holder = world.start({"send 1 before": "hold"})
    assert gate.arrived() == "p0 send 1 before"
    other = world.start()
    assert other.wait() == HELD
    (since,) = (entry["at"] for entry in map(json.loads, other.told("found")) if entry["kind"] == "taken")
    assert other.told("error")[2] == [socket.gethostname(), holder.pid, since]
    assert f"pid {holder.pid} on {socket.gethostname()}, since 20" in other.told("error")[1]
    gate.open()
    assert holder.wait() == 0


@STORES
def test_the_next_process_gets_the_run_though_the_dead_one_is_not_buried(store, world_of, gate_of, is_done_right):
    world = world_of("charge", store=store)
    gate = gate_of(world)
    holder = world.start({"charge 1 after": "hold"})
    gate.arrived()
    os.kill(holder.pid, signal.SIGKILL)
    world.forks.order("dead", holder.pid)
    world.finish()
    assert holder.wait() == -signal.SIGKILL
    is_done_right(world)


@STORES
def test_a_live_holder_is_ended_by_a_take_over(store, world_of, gate_of, is_done_right):
    world = world_of("send", store=store)
    gate = gate_of(world)
    holder = world.start({"send 1 after": "hold"})
    gate.arrived()
    assert world.live(take_over=True)["status"] == "done"
    assert holder.wait() == -signal.SIGTERM
    is_done_right(world)


@STORES
def test_a_stopped_holder_is_no_free_run_and_is_ended_by_a_take_over(store, world_of, gate_of, is_done_right):
    world = world_of("post", store=store)
    gate = gate_of(world)
    holder = world.start({"post 1 before": "hold"})
    gate.arrived()
    os.kill(holder.pid, signal.SIGSTOP)
    world.forks.order("stopped", holder.pid)
    assert world.start().wait() == HELD
    world.processes.pop()
    assert world.live(take_over=True, grace=0.05)["status"] == "done"
    assert holder.wait() == -signal.SIGKILL
    is_done_right(world)


@STORES
def test_a_forked_child_may_not_write_for_its_killed_parent(store, world_of, gate_of, is_done_right):
    world = world_of("send", store=store)
    gate = gate_of(world)
    parent = world.start({"append 2 after": "fork"})
    assert parent.wait() == -signal.SIGKILL
    assert gate.arrived() == "p0 forked"
    gate.open()
    assert gate.arrived() == "p0 Fenced"
    assert "is not held by this process any more (a forked child" in parent.told("error")[1]
    assert world.moments[-1] == "append 2 after"
    world.finish()
    is_done_right(world)


@STORES
def test_a_forked_child_may_not_write_once_another_has_carried_the_run_on(store, world_of, gate_of, is_done_right):
    """It forked behind the look at the lease, right before the store: there the token stops it."""
    world = world_of("send", store=store)
    gate = gate_of(world)
    child = world.start({"append 3 before": "fork"})
    child.wait()
    gate.arrived()
    journal = world.finish()["journal"]
    gate.open()
    assert gate.arrived() == "p0 Fenced"
    assert "was taken by a newer holder (token 2)" in child.told("error")[1]
    assert world.live()["journal"] == journal
    is_done_right(world)


@STORES
def test_a_command_goes_on_behind_what_a_person_decides_meanwhile(store, world_of, gate_of):
    world = world_of("doubt and read", store=store, mode="command")
    gate = gate_of(world)
    dying = world.start({"pay 1 after": "hold", "look 2 before": "hold"})
    assert {gate.arrived(), gate.arrived()} == {"p0 pay 1 after", "p0 look 2 before"}
    dying.kill()
    process = world.start({"look 2 before": "hold"})
    assert gate.arrived() == "p1 look 2 before"
    world.live(mode="blocking", decide=["toolu_0_0", "happened"])
    gate.open()
    assert process.wait() == 0, process.words
