"""Faults that are planted on purpose are found, each by a plan that shows it, and the plan replays them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from midstride.core import reconcile, settle
from midstride.drive import calls
from midstride.testing import CrashFailure, CrashPlan, crash_everywhere, fuse
from midstride.testing.crash import carry_out
from proof.scenes import Case


def fault_in(case):
    """Return the first plan that fails, and why."""
    with pytest.raises(CrashFailure) as caught:
        crash_everywhere(case.scene)
    with pytest.raises(CrashFailure) as again:
        crash_everywhere(case.scene, only=caught.value.plan)
    assert str(again.value) == str(caught.value)
    return str(caught.value.plan), str(caught.value).partition("\n")[2]


@pytest.mark.parametrize(
    ("task", "effect", "move", "why"),
    [
        ("send", "unsafe", "again", r"was told 'sent 1' where \('Outcome unknown: ',\) was due"),
        ("post", "verifiable", "again", r"more often than without a death: \('post', 1\)"),
        ("charge", "idempotent", "doubt", "was told 'Outcome unknown: charge.* where .* was due"),
        ("look", "read_only", "doubt", "was told 'Outcome unknown: look.* where .* was due"),
    ],
)
def test_a_wrong_cell_of_the_reconcile_table_is_found(task, effect, move, why, monkeypatch):
    monkeypatch.setitem(reconcile.RECONCILE[effect], "dead", move)
    plan, found = fault_in(Case("memory", "blocking", task))
    assert re.search(why, found), (plan, found)


def test_a_key_that_changes_with_the_attempt_is_found(monkeypatch):
    context = calls.Calls.context
    monkeypatch.setattr(
        calls.Calls, "context", lambda self, call, n, *more: _with_key(context(self, call, n, *more), n)
    )
    plan, found = fault_in(Case("memory", "blocking", "charge"))
    assert (plan, "more often" in found) == ("charge 1.0 after", True)


def _with_key(context, attempt):
    return type(context)(f"{context.key}{attempt}", *(getattr(context, n) for n in type(context).__slots__[1:]))


def test_an_effect_without_an_intent_is_found(monkeypatch):
    execute = settle._execute
    monkeypatch.setattr(settle, "_execute", lambda desk, move: execute(desk, replace(move, intend=False)))
    plan, found = fault_in(Case("memory", "blocking", "send"))
    assert (plan, "more often" in found) == ("send 1.0 after", True)


def test_a_death_that_gives_the_run_back_in_order_would_be_seen(monkeypatch):
    monkeypatch.setattr(fuse.FusedStore, "bury", lambda self: [one.release(clean=True) for one in self._leases])
    _, crashed = _carried("append 2 after")
    assert [entry["clean"] for entry in crashed.journal if entry["kind"] == "taken"] == [True, True]
    monkeypatch.undo()
    _, crashed = _carried("append 2 after")
    assert [entry["clean"] for entry in crashed.journal if entry["kind"] == "taken"] == [True, False]


def _carried(plan):
    return carry_out(Case("memory", "blocking", "send").scene, CrashPlan.parse(plan), Path("/nowhere"))
