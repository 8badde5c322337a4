"""What others write into a run while a process drives it: the holder reads it before its next entry, and goes on."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest

from crash.checks import effects
from crash.plan import RUN
from midstride import Runs
from midstride.testing.crash_judge import results_told

pytestmark = pytest.mark.fault("others write meanwhile", "real processes")

WAYS = pytest.mark.parametrize(
    ("store", "mode"),
    [("sqlite", "blocking"), ("sqlite", "async"), ("checkpoint", "blocking"), ("checkpoint", "async")],
)
SAID = {"role": "user", "content": "And be quick."}


def held_at(world, gate, *moments):
    """Return a process that holds at all of these moments at once."""
    process = world.start(dict.fromkeys(moments, "hold"))
    assert {gate.arrived() for _ in moments} == {f"{process.name} {moment}" for moment in moments}
    return process


def say(world):
    with closing(Runs(world.url)) as runs:
        runs.say(RUN, "And be quick.")


def result_of(process):
    assert process.wait() == 0, process.words
    return process.told("result")


def last_messages(world):
    return json.loads(world.bodies[-1])["messages"]


@WAYS
def test_what_is_said_while_a_tool_runs_comes_behind_its_result(store, mode, world_of, gate_of):
    world = world_of("send", store=store, mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "send 1 after")
    say(world)
    gate.open()
    assert result_of(process)["status"] == "done"
    *_, results, said = last_messages(world)
    assert (results["content"][0]["content"], said) == ("sent 1", SAID)


@WAYS
def test_what_is_said_during_the_final_answer_comes_behind_it_and_is_answered(store, mode, world_of, gate_of):
    world = world_of("send", store=store, mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "draft 2")
    say(world)
    gate.open()
    result = result_of(process)
    *_, final, said = last_messages(world)
    assert (final["content"][0]["text"], said) == ("Done.", SAID)
    assert (result["status"], result["turns"]) == ("done", 3)


@WAYS
def test_what_is_said_during_an_answer_that_is_lost_comes_behind_the_next_one(store, mode, world_of, gate_of):
    world = world_of("send", store=store, mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "draft 1")
    say(world)
    process.kill()
    assert world.live()["status"] == "done"
    assert world.bodies[1] == world.bodies[0]
    assert last_messages(world)[-1] == SAID


@WAYS
def test_what_is_said_between_intent_and_effect_repeats_no_effect(store, mode, world_of, gate_of):
    world = world_of("send", store=store, mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "append 3 before")
    say(world)
    gate.open()
    assert result_of(process)["status"] == "done"
    assert world.outside.count("send 1") == 1


@pytest.mark.parametrize("mode", ["blocking", "async", "threads"])
def test_a_transaction_that_somebody_spoke_into_is_rolled_back_and_run_again(mode, world_of, gate_of):
    world = world_of("book", mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "append 3 after")
    say(world)
    gate.open()
    assert result_of(process)["status"] == "done"
    (told,) = results_told(json.dumps({"messages": last_messages(world)}))
    assert (world.moments.count("book 1 after"), effects(world, told), told.text) == (2, 1, "booked 1")


def test_what_is_said_while_a_transaction_is_open_is_said_behind_it(world_of, gate_of):
    world = world_of("book")
    gate = gate_of(world)
    process = held_at(world, gate, "book 1 after")
    speaker = threading.Thread(target=say, args=(world,))
    speaker.start()
    gate.open()
    assert result_of(process)["status"] == "done"
    speaker.join()
    kinds = [json.loads(line)["kind"] for line in world.live()["journal"]]
    assert kinds.index("said") > kinds.index("settled")


@WAYS
def test_a_cancelled_run_keeps_the_real_result_of_the_effect_under_way(store, mode, world_of, gate_of):
    world = world_of("send", store=store, mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "send 1 after")
    cancel(world)
    gate.open()
    result = result_of(process)
    settled = [e for e in map(json.loads, result["journal"]) if e["kind"] == "settled"]
    assert [(entry["outcome"], entry["content"]) for entry in settled] == [("ok", "sent 1")]
    assert (result["status"], result["why"], len(world.bodies)) == ("cancelled", "a mistake", 1)


@WAYS
def test_a_cancelled_run_whose_process_dies_reports_its_effect_as_unknown(store, mode, world_of, gate_of):
    world = world_of("send", store=store, mode=mode)
    gate = gate_of(world)
    process = held_at(world, gate, "send 1 after")
    cancel(world)
    process.kill()
    result = world.live()
    (text,) = (e["content"] for e in map(json.loads, result["journal"]) if e["kind"] == "settled")
    assert text.startswith("Outcome unknown: send(")
    assert (result["status"], result["doubts"]) == ("cancelled", ["toolu_0_0"])


def cancel(world):
    with closing(Runs(world.url)) as runs:
        runs.cancel(RUN, "a mistake")


@WAYS
def test_what_a_person_decides_while_a_read_runs_is_the_call_s_result(store, mode, world_of, gate_of):
    world = world_of("doubt and read", store=store, mode=mode)
    gate = gate_of(world)
    held_at(world, gate, "pay 1 after", "look 2 before").kill()
    process = held_at(world, gate, "look 2 before")
    with closing(Runs(world.url)) as runs:
        runs.decide(RUN, "toolu_0_0", "happened", "The bank says so.")
    gate.open()
    assert result_of(process)["status"] == "done"
    paid, seen = results_told(json.dumps({"messages": last_messages(world)}))
    assert paid.text == "Done: a person confirmed that this call took effect. The bank says so."
    assert (paid.is_error, seen.text, world.outside.count("pay 1")) == (False, "saw 2", 1)
