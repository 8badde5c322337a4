"""What a resume would do, and why; nothing is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from midstride.core.fold import fold
from midstride.core.imports import Foreign, imported
from midstride.core.journal import Limits, Recorded, Started, seal
from midstride.core.moves import Move, next_move, plan_calls
from midstride.core.reconcile import CallMove, Program
from midstride.core.run import NEW, Call, Run
from midstride.drive.history import History
from midstride.drive.plan import Plan
from midstride.errors import UnknownRun
from midstride.stores import CheckpointStore
from midstride.tools import Toolbox

Json = object


@dataclass(frozen=True, slots=True)
class Planned:
    """The run's next move, and what would be done about each call that has no result."""

    run: Run
    next: Move
    calls: list[tuple[Call, CallMove]]


def planned(run: Run, *, now: float, program: Program) -> Planned:
    """Return what a resume of *run* would do; *program* None goes by the terms recorded with the calls."""
    return Planned(run, next_move(run, now=now, program=program), plan_calls(run, now=now, program=program))


def run_of_file(path: Path, toolbox: Toolbox | None, *, prefill: bool, now: float) -> tuple[str, Run]:
    """Return the id and the run in a checkpoint file, the lesson's or ours, as a resume would begin with it.

    Without a *toolbox* the effects of the lesson's calls are not known, so they count as unsafe.
    """
    store = CheckpointStore(path)
    ids = store.runs()
    if ids:
        return ids[0], History.read(store, ids[0]).run
    checkpoint = store.foreign("")
    if checkpoint is None:
        raise UnknownRun(f"there is no checkpoint at {path}")
    foreign = Foreign.of(checkpoint)

    def frozen(*, messages: list[object], turns: int, tokens: int) -> Started:
        return Started(foreign.task, foreign.api, messages, "", None, (), Limits(), turns, tokens, imported=True)

    record = Plan(None, toolbox=toolbox).record if toolbox is not None else lambda call: Recorded()
    bodies = imported(foreign, frozen=frozen, record=record, prefill=prefill)
    return path.stem, fold(seal(bodies, NEW.head, now))
