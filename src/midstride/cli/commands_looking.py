"""The commands that look and change nothing: plan, runs, show, log and doubts."""

from __future__ import annotations

import contextlib
import json
import select
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from midstride.agent import Agent
from midstride.cli import completing, driving, hints, show, story, target
from midstride.cli.common import (
    JsonOption,
    MaybeTarget,
    RunArgument,
    StoreOption,
    code_of_all,
    command,
    facts_of,
    facts_of_all,
    found,
    get,
    print_facts,
    runs_of,
    told,
)
from midstride.cli.exits import Exit
from midstride.core.moves import Rest, next_move
from midstride.core.run import Call, Run
from midstride.drive import Runs
from midstride.drive.history import entries_of
from midstride.drive.plan import check_api
from midstride.drive.planning import planned, run_of_file
from midstride.errors import DeclarationError, MidstrideError
from midstride.hidden import redacted
from midstride.stores import Store
from midstride.tools import Toolbox
from midstride.tools.content import kept_in

Json = Any

FOLLOW_SECONDS = 0.2
"""How often --follow asks the store: soon enough for a person, and no load."""

NEWEST = 20
"""How many of the newest runs are listed beside those that are not over: as many as one looks through."""

TURNS = 50
"""The newest turns of a run that are shown to a person."""

LINE = 300
"""Characters of what an entry says; --json has all of it."""


@command("plan", "midstride plan notes-48", "midstride plan checkpoint.json agent.py:agent", looks=True)
def plan(
    run_: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run's id, or a checkpoint file.",
            show_default=False,
            autocompletion=completing.run_ids,
        ),
    ],
    target_: MaybeTarget = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a resume would do, and why; nothing is done.

    For every call without a result: run it, run it again, look it up, report it as unknown, or ask a person. With
    TARGET this goes by the agent's tools as they are now, else by the effects that are recorded with the calls.
    """
    agent = target.load(target_) if target_ else None
    facts = _plan_of_run(run_, agent, store) if not _is_file(run_, agent, store) else _plan_of_file(Path(run_), agent)
    print_facts(facts, show.plan, as_json)
    if agent is None and any(call["effect"] is None for call in facts["calls"]) and not as_json:
        show.note("  an effect that nobody recorded counts as unsafe: give TARGET to go by the agent's tools")


def _is_file(name: str, agent: Agent | None, store: str | None) -> bool:
    """Tell whether *name* is a file, and no run that happens to be called like one."""
    if not Path(name).is_file():
        return False
    try:
        with runs_of(store, agent) as runs:
            return not runs.store.read(name)
    except MidstrideError:
        return True


def _plan_of_file(path: Path, agent: Agent | None) -> dict[str, Json]:
    prefill = agent.model.takes_prefill if agent else False
    run_id, run = run_of_file(path, Toolbox(agent.tools) if agent else None, prefill=prefill, now=time.time())
    move = next_move(run, now=time.time())
    status = move.status if isinstance(move, Rest) else "interrupted"
    return _plan_facts(run_id, run, agent, status, f"as the file {path} has it")


def _plan_of_run(run_id: str, agent: Agent | None, store: str | None) -> dict[str, Json]:
    with runs_of(store, agent) as runs:
        run = get(runs, run_id)
        status, why = runs.standing(run_id, run)
    if status == "working":
        why = f"{why}; this is what would be done if that process died now"
    return _plan_facts(run_id, run, agent, status, why)


def _plan_facts(run_id: str, run: Run, agent: Agent | None, status: str, why: str) -> dict[str, Json]:
    if agent is not None and run.api.loops:
        check_api(f"run {run_id!r}", run.begun.api, agent.model.api)
    program = Toolbox(agent.tools).terms if agent else None
    return story.plan_facts(run_id, planned(run, now=time.time(), program=program), status, why)


@command(
    "runs",
    "midstride runs",
    "midstride runs --json | jq -r '.[] | select(.status == \"interrupted\") | .run'",
    looks=True,
)
def list_runs(
    every: Annotated[bool, typer.Option("--all", help="List those that ended long ago, too.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """List the runs, the newest last.

    These are all that are not over, and the newest 20 of the others.

    Status is how a run stands: done, working (a living process drives it), interrupted (nobody does; resume it),
    waiting (for a person or another side), capped, held, cut, failed, cancelled, or unread (its journal is damaged or
    newer than this midstride).
    """
    with runs_of(store) as runs:
        ids, more = (runs.ids(), False) if every else _worth_a_look(runs)
        rows = facts_of_all(runs, ids)
        place = runs.store.url
    print_facts(rows, show.runs if rows else lambda _: show.note(f"there are no runs in {place}"), as_json)
    if not as_json:
        show.reasons(rows)
    if more:
        show.note("  older runs that are over are left out: --all")
    return code_of_all(rows)


def _worth_a_look(runs: Runs) -> tuple[list[str], bool]:
    """Return the ids of the runs that are not over, and of the newest; and whether there are more."""
    newest = runs.ids(newest=NEWEST + 1)
    shown = newest[-NEWEST:]
    older = [run_id for run_id in runs.unfinished() if run_id not in set(shown)]
    return older + shown, len(newest) > NEWEST and newest[0] not in older


@command(
    "show",
    "midstride show notes-48",
    "midstride show notes-48 --turn 3",
    "midstride show notes-48 --call toolu_1",
    looks=True,
)
def show_run(
    run_: RunArgument,
    turn: Annotated[
        int | None, typer.Option("--turn", metavar="N", help="This turn alone, nothing left out.", show_default=False)
    ] = None,
    call: Annotated[
        str | None,
        typer.Option("--call", metavar="ID", help="The calls with this id, nothing left out.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All turns of a long run, and not the newest alone.")] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Of --call the result alone, all of it, where the model was shown a part.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: its turns, their calls, the results.

    A turn is one request to the model with what came of it. Of a long run the newest 50 are shown. Long
    texts are shortened unless --turn or --call picks one. What looks like a secret is redacted unless --unredacted is
    given.
    """
    if whole and (call is None or as_json):
        raise DeclarationError("--whole prints the result of one call as it is: give --call ID, and no --json")
    with runs_of(store) as runs:
        facts = facts_of(runs, run_)
        turns, said = story.turns(entries_of(runs.store, run_))
        if whole and call is not None:
            show.say_bytes(_whole(story.call_facts(_called(call, turns)[-1]), runs.store))
            return
    working = facts["status"] == "working"
    if turn is not None:
        turns = found([t for t in turns if t.number == turn], f"turn {turn}", [str(t.number) for t in turns])
    if call is not None:
        calls = [story.call_facts(one, working=working) for one in _called(call, turns)]
        print_facts(calls, show.calls, as_json)
    elif turn is not None:
        print_facts(story.turn_facts(turns[0], working=working), lambda one: show.turn(one, whole=True), as_json)
    else:
        left_out = 0 if every or as_json else max(0, len(turns) - TURNS)
        made = [story.turn_facts(one, working=working) for one in turns[left_out:]]
        print_facts({**facts, "turns_made": made, "said": said}, partial(show.run, left_out=left_out), as_json)


def _whole(call: dict[str, Json], store: Store) -> bytes:
    """Return all of a call's result, from where it is kept if the model was shown a part."""
    shown = show.content_text(call["result"] or "")
    where = kept_in(shown)
    if not where:
        return shown.encode("utf-8", "surrogatepass")
    whole: str = redacted(store.kept(where).decode("utf-8", "surrogateescape"))
    return whole.encode("utf-8", "surrogateescape")


def _called(call: str, turns: list[story.Turn]) -> list[Call]:
    calls = [one for turn in turns for one in turn.calls]
    return found([one for one in calls if one.id == call], f"call {call!r}", [one.id for one in calls])


@command("log", "midstride log notes-48 --follow", looks=True)
def log(
    run_: RunArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on printing entries as they come, until Ctrl-C.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a run's journal, one entry a line.

    With --json every entry is one JSON object on one line, with all that is recorded; only what looks like a secret is
    redacted, unless --unredacted is given.
    """
    with runs_of(store) as runs:
        if not runs.store.read(run_, 0, 1):
            get(runs, run_)  # which says what there is instead
        seen = _log(runs, run_, 0, as_json)
        with contextlib.suppress(KeyboardInterrupt):
            while follow and _is_read():
                seen = _log(runs, run_, seen, as_json)


def _is_read() -> bool:
    """Write out what there is, wait a moment, and tell whether anybody still reads."""
    show.flush()
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)  # a reader that is gone is reported without being asked for
    news = output.poll(FOLLOW_SECONDS * 1000)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in news):
        return False
    if news:  # some systems cannot poll a terminal, and say so at once
        time.sleep(FOLLOW_SECONDS)
    return True


def _log(runs: Runs, run_id: str, seen: int, as_json: bool) -> int:
    """Print the entries behind seq *seen* and return the last one's."""
    for entry in entries_of(runs.store, run_id, seen):
        seen = entry.seq
        line = json.dumps(story.log_facts(entry)) if as_json else story.log_line(entry, LINE)
        sys.stdout.write(f"{line}\n")
    return seen


@command("doubts", "midstride doubts", "midstride doubts --fail-if-any || page-someone", looks=True)
def doubts(
    run_: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="One run; without it all.", show_default=False, autocompletion=completing.run_ids
        ),
    ] = None,
    fail_if_any: Annotated[bool, typer.Option("--fail-if-any", help="End with exit code 3 if there is one.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """List the calls that somebody has to look into.

    Those of which nobody knows whether they happened, and those that wait for an approval. A call that a living
    process is running is not in doubt.
    """
    rows, next_steps, unread = [], [], Exit.DONE
    with runs_of(store) as runs:
        for run_id in [run_] if run_ is not None else runs.unfinished():
            try:
                run = get(runs, run_id)
                asked = driving.questions_of(runs, run_id, run)
            except MidstrideError as error:
                if run_ is not None:
                    raise
                words, unread = told(error)  # a journal that cannot be read is not one without doubts
                show.note(f"{run_id}: {words}", "red")
                continue
            rows += [{"run": run_id, **one} for one in asked]
            next_steps += [hints.decide(runs.store, run_id, one, api=run.begun.api) for one in asked]
    print_facts(rows, lambda _: _draw_doubts(rows, next_steps), as_json)
    return unread or (Exit.WAITING if rows and fail_if_any else Exit.DONE)


def _draw_doubts(rows: list[dict[str, Json]], next_steps: list[str]) -> None:
    if not rows:
        show.note("nothing is in doubt")
        return
    show.doubts(rows)
    for step in next_steps:
        show.note(f"  {step}")
