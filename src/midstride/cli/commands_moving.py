"""The commands that take runs in and out of a store, import and export; and the demo."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from midstride.cli import driving, exporting, show, taking, target
from midstride.cli.common import (
    JsonOption,
    MaybeTarget,
    RunArgument,
    StoreOption,
    command,
    facts_of,
    get,
    new_id,
    runs_of,
)
from midstride.cli.exits import Exit
from midstride.core.run import CallState, Run
from midstride.errors import Damaged, DeclarationError
from midstride.hidden import redacted
from midstride.visible import word


@command("import", "midstride import checkpoint.json agent.py:agent --id notes-48", "midstride import notes-48.jsonl")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A checkpoint.json, an exported journal, or a transcript.", show_default=False
        ),
    ],
    target_: MaybeTarget = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="The run's id here; else the one in FILE, else FILE's name.", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", help="What a transcript is about; else its first words.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a checkpoint, journal or transcript into the store.

    FILE stays as it is. A checkpoint of another program needs TARGET, and so does a transcript (a message list, a
    request's body, a Claude Code session), which is mended first: its calls without a result count as started, and the
    agent's system prompt and tools are frozen into the run. A journal of midstride's own is taken as it is.
    """
    agent = target.load(target_) if target_ else None
    transcript, mended = taking.transcript_of(file, task, agent)
    if task is not None and transcript is None:
        raise DeclarationError(f"{file} says itself what it is about: leave --task out")
    program = target.absolute(target_) if target_ else ""
    run_id = None if id is None else new_id(id)
    with runs_of(store, agent) as runs:
        run_id = exporting.import_file(
            file, runs.store, run_id=run_id, agent=agent, program=program, transcript=transcript
        )
        _tell_what_was_done(mended, get(runs, run_id))
        facts = facts_of(runs, run_id)
        if as_json:
            show.print_json(facts)
            return
        show.note(f"{run_id}: imported; it is {facts['status']}: {facts['why']}")
        if facts["status"] not in ("done", "cancelled"):
            show.note("  it is a copy: carry it on here or where it came from, never at both places", "yellow")
        driving.tell_what_next(runs, run_id)


def _tell_what_was_done(mended: Sequence[str], run: Run) -> None:
    for line in mended:
        show.note(f"  mended: {redacted(line)}", "yellow")
    for call in run.calls:
        if call.imported and call.state is CallState.INTENDED:
            show.note(f"  left open, for the run to settle: {word(call.id)}, {word(call.name)}", "yellow")


@command("export", "midstride export notes-48 --as journal -o notes-48.jsonl")
def export(
    run_: RunArgument,
    form: Annotated[str, typer.Option("--as", metavar="FORM", help="checkpoint, journal or messages.")] = "checkpoint",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A new file; else standard output.", show_default=False),
    ] = None,
    store: StoreOption = None,
) -> Exit:
    """Write a run out, to look at it or to move it.

    As a checkpoint (the lesson's six fields, and the journal), as its journal (JSON lines), or as the messages of its
    next request. It is a faithful copy: nothing is redacted, so it holds whatever secrets the run holds. A file that is
    there already is never overwritten. Of a damaged journal the part before the damage is
    written, and the exit code is 9.
    """
    exporting.check_form(form)
    with runs_of(store) as runs:
        with contextlib.suppress(Damaged):
            get(runs, run_)
        parts, verdict = exporting.exported(runs, run_, form)
        if out is None:
            sys.stdout.writelines(parts)
        else:
            exporting.write_new(out, parts)
            show.note(f"{run_}: written to {out}")
    if verdict.damage is None:
        return Exit.DONE
    show.note(f"{run_}: only the {verdict.entries} entries before the damage were written: {verdict.damage}", "red")
    return Exit.STORE


@command("demo")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with mailboxes, journals and logs.")] = False,
    as_json: JsonOption = False,
) -> Exit:
    """Kill an agent behind a sent mail, and resume it.

    Three programs send a mail, are killed after the mail server took it, and are run again: one mails twice, two do
    not. It needs no key and no network.
    """
    for name in ("anthropic", "aiosmtpd"):
        if importlib.util.find_spec(name) is None:
            raise DeclarationError(f"the demo needs {name}: pip install 'midstride[demo]'")
    from midstride.demo.__main__ import main as play

    return Exit(play([*(["--json"] if as_json else []), *(["--keep"] if keep else [])]))
