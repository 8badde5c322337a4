"""Twenty processes want one run: one drives it, and when it is killed while the others retry, one of them does."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest

from crash.points import AT_ONCE

CROWD = 20
HELD = 3


def arrivals(gate, number):
    """Return where so many processes hold, by their names."""
    return dict(gate.arrived().split(" ", 1) for _ in range(number))


def check_refused(process, driver, journal):
    """Check that it was told, in one sentence, who drives the run and since when."""
    kind, sentence, holder = process.told("error")
    (since,) = (entry["at"] for entry in journal if entry["kind"] == "taken" and entry["pid"] == driver.pid)
    assert (kind, holder) == ("Held", [socket.gethostname(), driver.pid, since])
    assert f"is held by pid {driver.pid} on {socket.gethostname()}, since 20" in sentence
    assert "\n" not in sentence


@pytest.mark.fault("twenty carry one run on at once", "real processes")
@pytest.mark.parametrize("point", AT_ONCE, ids=str)
def test_of_twenty_one_drives_and_one_takes_over_when_it_is_killed(point, world_of, gate_of, is_done_right):
    world = world_of("send", store=point.store, mode=point.mode)
    gate = gate_of(world)
    holds = dict.fromkeys(("start", "held 1", "held 2", "draft 1"), "hold")
    crowd = {p.name: p for p in (world.start(holds, tries=3) for _ in range(CROWD))}
    assert set(arrivals(gate, CROWD).values()) == {"start"}

    gate.open(CROWD, "start")
    at = arrivals(gate, CROWD)
    assert sorted(at.values()) == ["draft 1", *["held 1"] * (CROWD - 1)]
    first = crowd.pop(next(name for name, moment in at.items() if moment == "draft 1"))
    assert {tuple(p.told("held 1")[:2]) for p in crowd.values()} == {(socket.gethostname(), first.pid)}

    assert first.kill() == -signal.SIGKILL
    gate.open(len(crowd), "held 1")
    at = arrivals(gate, len(crowd))
    assert sorted(at.values()) == ["draft 1", *["held 2"] * (CROWD - 2)]
    second = crowd.pop(next(name for name, moment in at.items() if moment == "draft 1"))
    gate.open(len(crowd), "held 2")
    assert [process.wait() for process in crowd.values()] == [HELD] * (CROWD - 2)
    gate.open()
    assert second.wait() == 0
    journal = [json.loads(line) for line in second.told("result")["journal"]]
    assert [entry["pid"] for entry in journal if entry["kind"] == "taken"] == [first.pid, second.pid]
    for process in crowd.values():
        check_refused(process, second, journal)
    world.processes = [first, second]
    is_done_right(world)


@pytest.mark.fault("twenty carry one run on at once", "real processes")
@pytest.mark.parametrize("point", AT_ONCE, ids=str)
def test_who_asks_in_the_moment_of_a_death_is_refused_or_drives(point, world_of, gate_of, is_done_right):
    """Nineteen ask while the driver is being killed; who comes too late finds the run done."""
    world = world_of("send", store=point.store, mode=point.mode)
    gate = gate_of(world)
    first = world.start({"append 2 after": "hold"})
    assert gate.arrived() == f"{first.name} append 2 after"
    crowd = [world.start({"start": "hold"}) for _ in range(CROWD - 1)]
    arrivals(gate, len(crowd))
    gate.open(len(crowd), "start")
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    codes = [process.wait() for process in crowd]
    assert set(codes) <= {0, HELD}, [p.words for p, code in zip(crowd, codes, strict=True) if code not in (0, HELD)]
    world.processes = [first, *(p for p, code in zip(crowd, codes, strict=True) if code == 0)][:2]
    journal = world.finish()["journal"]
    kinds = [json.loads(line)["kind"] for line in journal]
    assert (kinds.count("requested"), kinds.count("responded"), kinds.count("intended")) == (2, 2, 1)
    is_done_right(world)
