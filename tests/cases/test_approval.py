"""A person's yes is for one call and is spent once; a no stays a no, whoever dies behind it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from cases.stage import Killed
from crash.checks import check, results_told
from crash.plan import Plan, and_then, carry_out, each_moment
from midstride import Context, DidNotHappen, Happened, Runs, tool
from midstride.core.steps import LookUp, Start, Transact
from midstride.testing import Answer, calls

WAYS = [("sqlite", "blocking"), ("sqlite", "async"), ("checkpoint", "threads"), ("checkpoint", "async-loop")]
EACH_WAY = pytest.mark.parametrize(("store", "mode"), WAYS, ids=lambda word: word)


def approved_before_intended(journal):
    """Tell of each attempt whether its very call was approved before, and how often that was spent."""
    allowed, spent = [], []
    for entry in map(json.loads, journal):
        key = (entry.get("turn"), entry.get("index"))
        if entry["kind"] == "decided" and entry["verdict"] == "allow":
            allowed.append(key)
        elif entry["kind"] == "intended":
            assert key in allowed, f"{key} was started without a yes"
            spent.append(key)
    return allowed, spent


@EACH_WAY
def test_case_202_approval_replayed(store, mode, world_of):
    """A yes to the first deletion was taken for one to the next, after a restart: each call is asked about."""
    world = world_of("wipe twice", store=store, mode=mode)
    assert world.live()["approvals"] == ["toolu_0_0"]
    world.live(decide=["toolu_0_0", "allow"])
    world.die("wipe 1 after")
    result = world.live()
    assert (result["status"], result["approvals"]) == ("waiting", ["toolu_1_0"])
    assert world.live()["approvals"] == ["toolu_1_0"]
    assert world.outside.effects() == ["wipe 1"]
    assert approved_before_intended(result["journal"]) == ([(1, 0)], [(1, 0)])


@pytest.mark.parametrize(("store", "mode"), [("sqlite", "blocking"), ("checkpoint", "async")])
def test_case_202_approval_replayed_after_a_death_at_each_moment(store, mode, forks, server, folder):
    """The yes is spent by the intent of its call: whoever dies where, nothing is deleted without one, or twice."""
    plan = Plan(store, mode, "wipe")
    unkilled = carry_out(plan, plan.world(folder / "unkilled", server, forks))
    worlds = and_then(plan, plan.world(folder / "killed", server, forks), folder / "then")
    assert len(worlds) > 10
    for world in worlds.values():
        check(world, unkilled)
        allowed, spent = approved_before_intended(world.processes[-1].told("result")["journal"])
        assert (len(allowed), spent) == (1, allowed)


@pytest.mark.parametrize(("store", "mode"), [("sqlite", "async"), ("checkpoint", "blocking")])
def test_case_204_denied_stays_denied(store, mode, world_of, folder):
    """A no was forgotten by a death before its result was recorded: the decision itself is the result."""
    world = world_of("wipe twice", store=store, mode=mode)
    world.live()
    world.live(decide=["toolu_0_0", "deny"])
    worlds, (rested, result) = each_moment(world, folder / "denied")
    assert (result["status"], result["approvals"], len(worlds) > 3) == ("waiting", ["toolu_1_0"], True)
    for each in (*worlds.values(), rested):
        assert each.outside.count("wipe 1") == 0
        (told, *_) = results_told(each.bodies[-1].decode())
        assert told.is_error
        assert told.text == "Denied: a person decided that this call is not to be run. It had no effect."


# ---- neighbours: each effect, a batch, a changed program


def tools_with_approval(deeds):
    @tool(approval=True)
    def unsafe(n: int) -> str:
        return deeds(n)

    @tool.idempotent(key_life=60, approval=True)
    def idempotent(n: int) -> str:
        return deeds(n)

    @tool.verifiable(timeout=60, approval=True)
    def verifiable(n: int) -> str:
        return deeds(n)

    @verifiable.verify
    def find(n: int) -> Happened | DidNotHappen:
        return DidNotHappen("not there") if n not in deeds.done else Happened(f"did {n}")

    @tool.read_only(approval=True)
    def read_only(n: int) -> str:
        return deeds(n)

    return {made.name: made for made in (unsafe, idempotent, verifiable, read_only)}


class Deeds:
    def __init__(self):
        self.done = []

    def __call__(self, n):
        self.done.append(n)
        return f"did {n}"


def dies_at(kinds):
    def watch(event):
        if isinstance(event, kinds):
            raise Killed

    return watch


@pytest.mark.parametrize("effect", ["unsafe", "idempotent", "verifiable", "read_only"])
def test_case_202_approval_replayed_for_each_effect(effect, stage):
    """Of any effect, no call runs before its own yes; one that died behind it is not asked about again."""
    deeds = Deeds()
    made = tools_with_approval(deeds)[effect]
    stage.says(calls((effect, {"n": 1})), calls((effect, {"n": 2})), Answer("Done."))
    runs = Runs(stage.store)
    assert [call.id for call in stage.run(made).approvals] == ["toolu_0_0"]
    runs.decide("run", "toolu_0_0", "allow")
    stage.killed(made, watch=dies_at((Start,)))
    result = stage.run(made)
    assert ([call.id for call in result.approvals], result.status) == (["toolu_1_0"], "waiting")
    assert deeds.done == ([] if effect == "unsafe" else [1])  # whether the unsafe one began nobody can know
    runs.decide("run", "toolu_1_0", "deny", "Enough.")
    assert stage.run(made).status == "done"
    assert stage.results[1] == (
        "Denied: a person decided that this call is not to be run. It had no effect. The person said: Enough.",
        True,
    )
    assert 2 not in deeds.done


def test_case_202_approval_of_what_is_not_there_is_still_that_call_s(stage):
    """A call that was looked up and had not happened runs again under its own yes, not under a second one."""
    deeds = Deeds()
    made = tools_with_approval(deeds)["verifiable"]
    stage.says(calls(("verifiable", {"n": 1})), Answer("Done."))
    stage.run(made)
    Runs(stage.store).decide("run", "toolu_0_0", "allow")
    stage.killed(made, watch=dies_at((Start,)))
    stage.killed(made, watch=dies_at((LookUp,)))
    assert (stage.run(made).status, deeds.done) == ("done", [1])


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_case_202_approval_of_a_transaction(stage, folder):
    """A booking that needs a yes commits once, with its result, though its process dies in between."""

    @tool.transactional(approval=True)
    def book(n: int, context: Context[sqlite3.Connection]) -> str:
        context.transaction.execute("insert into seats values (?)", (n,))
        return f"booked {n}"

    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        connection.execute("create table seats (n)")
        stage.says(calls(("book", {"n": 1})), calls(("book", {"n": 2})), Answer("Done."))
        stage.run(book)
        Runs(stage.store).decide("run", "toolu_0_0", "allow")
        stage.killed(book, watch=dies_at((Transact,)))
        assert [call.id for call in stage.run(book).approvals] == ["toolu_1_0"]
        assert connection.execute("select n from seats").fetchall() == [(1,)]


def test_case_204_denied_in_a_batch_starts_nothing_behind_it(stage):
    """Of three deletions of one answer the second is denied: the first runs, the third is not started."""
    deeds = Deeds()
    made = tools_with_approval(deeds)["unsafe"]
    stage.says(calls(*[("unsafe", {"n": n}) for n in (1, 2, 3)]), Answer("Done."))
    assert [call.id for call in stage.run(made).approvals] == ["toolu_0_0", "toolu_0_1", "toolu_0_2"]
    runs = Runs(stage.store)
    runs.decide("run", "toolu_0_2", "allow")
    runs.decide("run", "toolu_0_1", "deny")
    runs.decide("run", "toolu_0_0", "allow")
    assert (stage.run(made).status, deeds.done) == ("done", [1])
    assert [content.split(":")[0] for content, _ in stage.results] == ["did 1", "Denied", "Not started"]


def test_case_202_a_yes_is_no_yes_to_a_tool_that_has_changed(stage):
    """Between the yes and the run the tool was given other parameters: the yes was for the call as it was."""
    deeds = Deeds()
    stage.says(calls(("unsafe", {"n": 1})), Answer("Done."))
    stage.run(tools_with_approval(deeds)["unsafe"])
    Runs(stage.store).decide("run", "toolu_0_0", "allow")

    @tool(approval=True)
    def unsafe(number: int) -> str:
        return deeds(number)

    assert (stage.run(unsafe).status, deeds.done) == ("done", [])
    ((content, is_error),) = stage.results
    assert is_error
    assert content.startswith("Failed: the tool unsafe takes other arguments now")


def test_case_202_a_tool_that_needs_a_yes_by_now_asks_for_a_call_of_before(stage):
    """The call was recorded when its tool needed no yes; the program that carries on needs one: it is asked."""
    deeds = Deeds()

    @tool
    def unsafe(n: int) -> str:
        return deeds(n)

    def before_intent(event):
        if getattr(getattr(event, "body", None), "kind", "") == "responded":
            raise Killed

    stage.says(calls(("unsafe", {"n": 1})), Answer("Done."))
    stage.killed(unsafe, watch=before_intent)
    result = stage.run(tools_with_approval(deeds)["unsafe"])
    assert ([call.id for call in result.approvals], deeds.done) == (["toolu_0_0"], [])
