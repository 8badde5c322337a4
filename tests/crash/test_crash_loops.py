"""What ends its process every time is not tried for ever, and no death makes a run forget what it has used."""

from __future__ import annotations

import json

import pytest

from crash.checks import effects
from midstride.testing.crash_judge import results_told

pytestmark = pytest.mark.fault("something ends its process every time", "real processes")

MODES = pytest.mark.parametrize("mode", ["blocking", "async"])


def only_result(world):
    (told,) = results_told(world.bodies[-1].decode())
    return told


@MODES
def test_a_read_that_ends_its_process_is_unknown_after_three_attempts(mode, world_of):
    world = world_of("look", mode=mode)
    for _ in range(3):
        world.die("look 1 before")
    assert world.live(at={"look 1 before": "kill"})["status"] == "done"
    assert "It was tried 3 times, and each time it ended its process." in only_result(world).text


@pytest.mark.parametrize("task", ["charge", "post"])
def test_an_effect_that_ends_its_process_is_unknown_after_three_attempts(task, world_of):
    world = world_of(task)
    for _ in range(3):
        world.die(f"{task} 1 before")
    assert world.live()["status"] == "done"
    assert only_result(world).text.startswith(f"Outcome unknown: {task}(")


@MODES
def test_a_model_call_that_ends_its_process_every_time_is_held_until_it_is_forced(mode, world_of):
    world = world_of("look", mode=mode)
    for _ in range(4):
        world.die("draft 1")
    assert [world.live()["status"], world.live()["status"]] == ["held", "held"]
    assert len(world.bodies) == 4
    result = world.live(force=True)
    assert (result["status"], result["turns"]) == ("done", 6)


def test_a_held_run_says_why(world_of):
    world = world_of("look")
    for _ in range(4):
        world.die("draft 1")
    assert world.live()["why"] == (
        "it was taken up 4 times in a row without progress, the last time while the model was asked: something ends it "
        "every time"
    )


@MODES
def test_a_run_whose_process_died_rests_before_it_goes_on(mode, world_of):
    world = world_of("look", mode=mode)
    world.die("draft 1")
    result = world.live(rests=[1.0, 10.0, 60.0])
    journal = [json.loads(line) for line in result["journal"]]
    asked = [entry["at"] for entry in journal if entry["kind"] == "requested"]
    assert asked[1] - asked[0] >= 1.0
    assert result["status"] == "done"


def test_a_verify_that_ends_its_process_every_time_is_held(world_of):
    world = world_of("post")
    world.die("post 1 after")
    for _ in range(3):
        world.die("verify 1 before")
    assert world.live()["status"] == "held"
    assert world.live(force=True)["status"] == "done"
    assert (only_result(world).text, world.outside.count("post 1")) == ("posted 1", 1)


def test_a_transaction_that_ends_its_process_every_time_is_held(world_of):
    world = world_of("book")
    for _ in range(4):
        world.die("book 1 after")
    assert world.live()["status"] == "held"
    assert world.live(force=True)["status"] == "done"
    assert effects(world, only_result(world)) == 1


@MODES
@pytest.mark.parametrize("store", ["sqlite", "checkpoint"])
def test_a_run_that_dies_at_every_second_request_asks_no_more_often_than_its_limit(store, mode, world_of):
    world = world_of("endless", store=store, mode=mode, turns=6)
    for requests in (2, 4, 6):
        world.die("draft 2")
        assert len(world.bodies) == requests
    result = world.live()
    assert (result["status"], result["turns"], len(world.bodies)) == ("capped", 6, 6)
    world.turns = 8
    result = world.live()
    assert (result["status"], result["turns"], len(world.bodies)) == ("capped", 8, 8)


def test_tokens_of_answers_before_a_death_stay_counted(world_of):
    world = world_of("endless", turns=3)
    world.die("append 3 before")
    result = world.live()
    usages = [e["response"]["usage"] for e in map(json.loads, result["journal"]) if e["kind"] == "responded"]
    tokens = [usage["input_tokens"] + usage["output_tokens"] for usage in usages]
    assert (len(tokens), result["tokens_total"], result["tokens_used"]) == (3, sum(tokens), tokens[-1])
