"""A process dies at every moment of a call of each effect, in each way to drive a run, on each store; another goes on.

Replay one plan with -k "sqlite and blocking and send_1_after".
"""

from __future__ import annotations

import random

import pytest

from crash.checks import check
from crash.plan import Plan
from crash.report import recorded

WAYS = [(s, m) for s in ("sqlite", "checkpoint") for m in ("blocking", "async", "threads", "loop", "async-loop")]
"""Store and driver; "threads" is the asynchronous one with tools that are plain functions."""

ONE_CALL = ("look", "charge", "book", "post", "send", "pay")
ANSWERED = ["append 1 before", "append 1 after", "draft 1", "stop 1", "append 2 before", "append 2 after"]


def moments_of_one_call(name: str) -> list[str]:
    """Return the moments of a process that starts a run, makes one call and ends the run."""
    if name == "look":  # a read has no intent
        return [*ANSWERED, "look 1 before", "look 1 after", *appends(3), "draft 2", "stop 2", *appends(4)]
    called = [*ANSWERED, *appends(3), f"{name} 1 before", f"{name} 1 after", *appends(4)]
    if name == "book":
        return [*called, "commit before", "commit after", *appends(5), "draft 2", "stop 2", *appends(6)]
    return [*called, "draft 2", "stop 2", *appends(5)]


def appends(number: int) -> list[str]:
    return [f"append {number} before", f"append {number} after"]


def moments_in(mode: str, task: str) -> list[str]:
    """Return the moments of *task* in this mode: a loop of one's own does not tell of its drafts."""
    told = ("append", "commit", task) if "loop" in mode else ("append", "commit", task, "draft", "stop")
    return [moment for moment in moments_of_one_call(task) if moment.startswith(told)]


def fits(store: str, task: str) -> bool:
    return store == "sqlite" or task not in ("book", "mixed")


def named(plan: Plan) -> str:
    return "-".join([plan.store, plan.mode, plan.task, *plan.deaths]).replace(" ", "_")


WHOLE = [(s, m) for s in ("sqlite", "checkpoint") for m in ("blocking", "async")]
"""The ways in which a call is killed at all its moments; in the others at those around its effect."""


def dies_at(store: str, mode: str, task: str) -> list[str]:
    return moments_in(mode, task) if (store, mode) in WHOLE else around_the_effect(task)


def around_the_effect(task: str) -> list[str]:
    """Return the moments from the recorded answer to the recorded result."""
    moments = moments_of_one_call(task)
    return moments[5 : moments.index("draft 2")]


def left_behind(task: str) -> list[str]:
    """Return the moments around the effect that leave something new behind: none of those called "before" does."""
    return [moment for moment in around_the_effect(task) if moment.endswith("after")]


UNKILLED = [Plan(s, m, task) for s, m in WAYS for task in ONE_CALL if fits(s, task)]
ONE_DEATH = [Plan(p.store, p.mode, p.task, (moment,)) for p in UNKILLED for moment in dies_at(p.store, p.mode, p.task)]
IN_A_BATCH = [
    *(Plan("sqlite", mode, "mixed") for mode in ("blocking", "async", "threads")),
    *(Plan("checkpoint", mode, "batch") for mode in ("blocking", "async")),
]
TWO_DEATHS = [
    *(Plan("sqlite", "blocking", task, (m,)) for task in ONE_CALL for m in left_behind(task)),
    *(Plan("sqlite", "async", task, (f"{task} 1 after",)) for task in ONE_CALL),
    *(Plan("checkpoint", "blocking", task, (f"{task} 1 after",)) for task in ONE_CALL if task != "book"),
    *(Plan("sqlite", "blocking", "mixed", (f"{name} 1 after",)) for name in ONE_CALL if name != "pay"),
    *(Plan("sqlite", "blocking", "mixed", (f"{name} 1 before",)) for name in ("book", "send")),
]


def walk(seed: int) -> Plan:
    """Return a plan with three deaths at random moments."""
    chance = random.Random(seed)
    store, mode = chance.choice(WAYS)
    deaths = (chance.randint(8, 40), chance.randint(2, 25), chance.randint(2, 15))
    return Plan(store, mode, "mixed" if store == "sqlite" else "batch", tuple(map(str, deaths)))


THREE_DEATHS = [walk(seed) for seed in range(40)]


@pytest.mark.parametrize("plan", UNKILLED, ids=named)
def test_a_run_that_nobody_kills_passes_these_moments(plan, carried):
    assert carried.moments == ["start", *moments_in(plan.mode, plan.task)]


@pytest.mark.fault("a process is killed", "real processes")
@pytest.mark.parametrize("plan", ONE_DEATH, ids=named)
def test_a_run_that_is_killed_anywhere_ends_as_if_it_had_not_been(plan, carried, unkilled):
    check(carried, unkilled)


@pytest.mark.fault("a process is killed, three times", "real processes")
@pytest.mark.parametrize("plan", THREE_DEATHS, ids=named)
def test_three_deaths_at_random_moments_change_nothing_either(plan, carried, unkilled):
    check(carried, unkilled)


@pytest.mark.parametrize("plan", IN_A_BATCH, ids=named)
def test_a_batch_that_is_killed_anywhere_gets_each_call_its_result(plan, then, unkilled):
    assert len(then) > 30
    check_each(plan, then, unkilled)


@pytest.mark.parametrize("plan", TWO_DEATHS, ids=named)
def test_a_process_that_carries_a_run_on_may_die_anywhere_too(plan, then, unkilled):
    assert len(then) >= 5
    check_each(plan, then, unkilled)


def check_each(plan, then, unkilled):
    """Check every world; what fails names the second death's number too."""
    with recorded("a process is killed, and the next one too", "real processes", len(then)):
        _check_each(plan, then, unkilled)


def _check_each(plan, then, unkilled):
    for number, world in then.items():
        try:
            check(world, unkilled)
        except AssertionError as error:
            error.add_note(f"plan: {plan}, then at moment {number}; its folder: {world.folder}")
            raise
