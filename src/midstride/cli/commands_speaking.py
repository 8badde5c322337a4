"""The commands by which a person speaks to a run, whether a process drives it or not: decide, say, cancel, extend."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from midstride.cli import completing, driving, show
from midstride.cli.common import (
    JsonOption,
    RunArgument,
    StoreOption,
    command,
    facts_of,
    get,
    runs_of,
    words_of,
)
from midstride.drive import Runs
from midstride.errors import DeclarationError

Json = Any

CHOICES = "give one of --happened TEXT, --rerun, --unknown, --approve, --deny"


@command(
    "decide",
    "midstride decide notes-48 toolu_01 --happened 'It is in the Sent folder.'",
    "midstride decide notes-48 toolu_01 --rerun",
)
def decide(
    run_: RunArgument,
    call: Annotated[
        str,
        typer.Argument(metavar="CALL", help="The call's id.", show_default=False, autocompletion=completing.call_ids),
    ],
    happened: Annotated[
        str | None,
        typer.Option(
            "--happened",
            metavar="TEXT",
            help="It took effect; TEXT is what the model is told of its result.",
            show_default=False,
        ),
    ] = None,
    rerun: Annotated[bool, typer.Option("--rerun", help="It did not happen, or may happen twice: run it.")] = False,
    unknown: Annotated[bool, typer.Option("--unknown", help="Nobody can know; the model is told so.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="It waits for an approval: it may run.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="It is not to be run.")] = False,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="What the model should know besides.", show_default=False)
    ] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide about a call that is in doubt or waits for approval.

    Look first whether it happened: `midstride doubts` lists what to decide. The decision is recorded, and takes effect
    when the run goes on.
    """
    chosen = {"happened": happened is not None, "allow": rerun or approve, "unknown": unknown, "deny": deny}
    verdicts = [verdict for verdict, given in chosen.items() if given]
    if len(verdicts) != 1 or (rerun and approve):
        raise DeclarationError(CHOICES)
    text = note if happened is None else words_of(happened, "--happened")
    if happened is not None and note:
        text = f"{happened} {note}"
    with runs_of(store) as runs:
        get(runs, run_)
        runs.decide(run_, call, verdicts[0], text)
        _recorded(runs, run_, f"decided about {call}", as_json)


@command("say", "midstride say notes-48 'Leave out the budget.'")
def say(
    run_: RunArgument,
    text: Annotated[str, typer.Argument(help="What to say.", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say something to the model.

    It comes with the run's next request. A run that is done goes on with it once it is resumed.
    """
    text = words_of(text, "TEXT")
    with runs_of(store) as runs:
        get(runs, run_)
        runs.say(run_, text)
        _recorded(runs, run_, "said", as_json)


@command("cancel", "midstride cancel notes-48 --reason 'the wrong week'")
def cancel(
    run_: RunArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.", show_default=False)] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Call a run off, for good.

    Nothing new starts; a call that has started still gets its real result, or is reported as unknown.
    """
    with runs_of(store) as runs:
        get(runs, run_)
        runs.cancel(run_, reason)
        _recorded(runs, run_, "called off", as_json)


@command("extend", "midstride extend notes-48 --turns 80")
def extend(
    run_: RunArgument,
    turns: Annotated[
        int | None,
        typer.Option("--turns", min=1, metavar="N", help="Requests in all, from its start.", show_default=False),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, metavar="N", help="Tokens in all.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.001, metavar="N", help="Seconds at work in all.", show_default=False),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            "--cost", min=0.000001, metavar="N", help="Cost in all, by its program's prices.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a run's limits anew.

    It also releases a run that is held, was cut off, or has failed. What is not given stays as it is.
    """
    if turns is None and tokens is None and seconds is None and cost is None:
        raise DeclarationError("give at least one of --turns, --tokens, --seconds, --cost")
    with runs_of(store) as runs:
        get(runs, run_)
        runs.extend(run_, turns=turns, tokens=tokens, seconds=seconds, cost=cost)
        _recorded(runs, run_, "its limits are set", as_json)


def _recorded(runs: Runs, run_id: str, what: str, as_json: bool) -> None:
    """Tell that it is recorded, how the run stands now, and what may be done next."""
    facts = facts_of(runs, run_id)
    if as_json:
        show.print_json(facts)
        return
    show.note(f"{run_id}: {what}; it is {facts['status']}: {facts['why']}")
    driving.tell_what_next(runs, run_id)
