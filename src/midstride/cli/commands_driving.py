"""The commands that drive runs: run and resume."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Any

import typer

from midstride.agent import Agent
from midstride.cli import completing, driving, hints, show, story, target
from midstride.cli.common import (
    JsonOption,
    MaybeTarget,
    StoreOption,
    command,
    facts_of,
    facts_of_all,
    get,
    new_id,
    runs_of,
    store_of,
    told,
    words_of,
)
from midstride.cli.exits import OF_STATUS, Exit
from midstride.core.run import Run
from midstride.drive import Result, Runs
from midstride.drive.stop import GRACE_SECONDS
from midstride.errors import DeclarationError, Interrupted, StoreError
from midstride.hidden import redacted
from midstride.stores import Store

Json = Any

TakeOver = Annotated[
    bool, typer.Option("--take-over", help="If a living process drives the run, end that one first (SIGTERM).")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Go on with a run that is held, was cut off, or has failed; ask another side at once."
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait", help="While another side works at what it has accepted, wait and ask again in time; Ctrl-C ends it."
    ),
]
Grace = Annotated[
    float,
    typer.Option("--grace", min=0, metavar="SECONDS", help="How long running tools may go on after Ctrl-C or SIGTERM."),
]


@command("run", "midstride run agent.py:agent --task 'Mail the decisions to the team' --id notes-48")
def run(
    target_: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"The agent, as {target.FORMS}.", show_default=False)
    ],
    task: Annotated[str, typer.Option("--task", help="What the run is about.", show_default=False)],
    id: Annotated[
        str | None, typer.Option("--id", help="The run's id. Without it the run is a new one.", show_default=False)
    ] = None,
    store: StoreOption = None,
    take_over: TakeOver = False,
    force: Force = False,
    wait: Wait = False,
    grace: Grace = GRACE_SECONDS,
    as_json: JsonOption = False,
) -> Exit:
    """Start a run, carry it on, or return its answer.

    The same --id is the same piece of work, for ever: a run that was killed is carried on, one that is done gives its
    answer at once, and another --task is refused. TARGET is stored with the run, so `midstride resume` finds it again.

    The answer goes to standard output, all else to standard error. Ctrl-C or SIGTERM stops in order: nothing new
    starts, running tools may end; a second one stops at once.
    """
    run_id = f"run-{uuid.uuid4().hex[:12]}" if id is None else new_id(id)
    task = words_of(task, "--task")
    agent = target.load(target_)
    named = id is not None
    order = driving.Order(run_id, task, target.absolute(target_), take_over, force, grace_seconds=grace, named=named)
    with runs_of(store, agent) as runs:
        return _driven(agent, runs.store, order, as_json, wait)


@command("resume", "midstride resume notes-48", "midstride resume --all")
def resume(
    run_: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run's id.", show_default=False, autocompletion=completing.run_ids),
    ] = None,
    target_: MaybeTarget = None,
    every: Annotated[bool, typer.Option("--all", help="Carry on every run that is interrupted.")] = False,
    store: StoreOption = None,
    take_over: TakeOver = False,
    force: Force = False,
    wait: Wait = False,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored", help="The store came back from a backup: every call of the last answer counts as started."
        ),
    ] = False,
    grace: Grace = GRACE_SECONDS,
    as_json: JsonOption = False,
) -> Exit:
    """Carry a run on from wherever it stands.

    Its task is stored with it, and so is its TARGET when `midstride run` started it; a run of your own program needs
    TARGET here, or that program run again.

    --all carries on every interrupted run, one after the other, asks another side about what is due, and ends with the
    highest exit code among them; work that is not due yet is reported as waiting.
    """
    if every == (run_ is not None):
        raise DeclarationError("give one run, or --all (midstride runs lists them)")
    if run_ is None and (take_over or force or wait):
        raise DeclarationError("--take-over, --force and --wait are for one run: give its id")
    if run_ is None:
        return _resume_all(store, grace, restored, as_json)
    agent, held, program = _program_of(run_, target_, store)
    with closing(held):
        order = driving.Order(run_, None, program, take_over, force, restored, grace)
        return _driven(agent, held, order, as_json, wait)


def _driven(agent: Agent, store: Store, order: driving.Order, as_json: bool, wait: bool) -> Exit:
    result = driving.drive_and_wait(agent, store, order) if wait else driving.drive(agent, store, order).result
    if not as_json:
        return driving.tell(result, store)
    show.print_json(_facts(result, store))
    return OF_STATUS[result.status]


def _facts(result: Result, store: Store) -> dict[str, Json]:
    return {
        **facts_of(Runs(store), result.id),
        "status": result.status,
        "why": result.why,
        "answer": redacted(result.answer),
    }


# ---- every run


def _resume_all(url: str | None, grace: float, restored: bool, as_json: bool) -> Exit:
    wanted = {"interrupted", story.UNREAD, *(["waiting"] if restored else [])}
    with runs_of(url) as runs:
        rows = [row for row in facts_of_all(runs, runs.unfinished()) if row["status"] in wanted or row["again_at"]]
        rows = [row for row in rows if row["api"] != hints.LEDGER]
    with asyncio.Runner() as runner:  # one loop for all, since a client of the user's may belong to it
        orders = [driving.Order(row["run"], restored=restored, grace_seconds=grace) for row in rows]
        done = [_resumed(row, url, order, runner, as_json) for row, order in zip(rows, orders, strict=True)]
    if as_json:
        show.print_json(done)
    elif not rows:
        show.note("no run is interrupted")
    return Exit(max((row["exit"] for row in done), default=Exit.DONE))


def _resumed(
    row: dict[str, Json], url: str | None, order: driving.Order, runner: asyncio.Runner, as_json: bool
) -> dict[str, Json]:
    """Resume one run and return its row; its error does not stop the others, a signal does."""
    if _is_early(row) and not order.restored:
        show.note(f"{order.run_id}: waiting. {row['why']}", show.STATUS_STYLE["waiting"])
        return {**row, "exit": int(Exit.WAITING), "error": None}
    error = None
    try:
        if row["status"] == story.UNREAD:
            raise StoreError(row["why"])
        agent, held, program = _program_of(order.run_id, None, url)
        with closing(held):
            rested = driving.drive(agent, held, replace(order, program=program), runner)
            code = OF_STATUS[rested.result.status] if as_json else driving.tell(rested.result, held)
            row = _facts(rested.result, held)
        if rested.asked_to_stop:
            raise Interrupted("stopped between two runs; carry the others on with: midstride resume --all")
    except Interrupted:
        raise
    except Exception as raised:
        error, code = told(raised)
        show.note(f"{order.run_id}: {error}", "red")
    return {**row, "exit": int(code), "error": error}


def _is_early(row: dict[str, Json]) -> bool:
    """Tell whether another side is at work and not to be asked yet; such times are ordered as their texts are."""
    return row["again_at"] is not None and row["again_at"] > str(story.iso(time.time()))


# ---- which program


def _program_of(run_id: str, target_: str | None, url: str | None) -> tuple[Agent, Store, str]:
    """Return the agent, the store in which the run is, and TARGET; without a TARGET the run's last one."""
    agent = target.load(target_) if target_ is not None else None
    store = store_of(url, agent)
    try:
        run = get(Runs(store), run_id)
        if run.begun.api == hints.LEDGER:
            raise DeclarationError(f"run {run_id!r} is one call of a ledger, and no agent's: {hints.AGAIN}")
        if agent is not None and target_ is not None:
            return agent, store, target.absolute(target_)
        program = _stored(run, run_id)
        return _load_stored(program, run_id), store, program
    except BaseException:
        store.close()
        raise


def _stored(run: Run, run_id: str) -> str:
    if run.holder is None or not run.holder.program:
        raise DeclarationError(
            f"run {run_id!r} was not started by `midstride run`, so its program is not known: give TARGET, as "
            f"{target.FORMS}, or run its own program again"
        )
    return run.holder.program


def _load_stored(program: str, run_id: str) -> Agent:
    try:
        return target.load(program)
    except DeclarationError as error:
        raise DeclarationError(f"run {run_id!r} was last driven with {program}, but {error}; give TARGET") from error
