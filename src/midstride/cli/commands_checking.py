"""The command that checks what is stored: verify."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Annotated, Any

import typer

from midstride.cli import completing, hints, show
from midstride.cli.common import JsonOption, StoreOption, command, get, print_facts, runs_of
from midstride.cli.exits import Exit
from midstride.errors import DeclarationError, JournalError, KeyMissing

Json = Any


@command("verify", "midstride verify notes-48", "midstride verify --all")
def verify(
    run_: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run's id.", show_default=False, autocompletion=completing.run_ids),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run of the store.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Check that a journal is as it was written.

    Every entry's digest covers the entry and all before it, so a changed, missing or moved one is found and named. The
    store's own files are checked too. Encrypted entries are checked without their key as well, as they are stored.
    Nothing is changed; ends with 9 when something is damaged.
    """
    if every == (run_ is not None):
        raise DeclarationError("give one run, or --all (midstride runs lists them)")
    with runs_of(store) as runs:
        with contextlib.suppress(JournalError, KeyMissing):
            if run_ is not None:
                get(runs, run_)  # an unknown id is told with the nearest ones
        verdicts = [runs.verify(run_id) for run_id in (runs.ids() if run_ is None else [run_])]
        facts = {"store": runs.store.url, "faults": runs.store.check(), "runs": [asdict(one) for one in verdicts]}
    print_facts(facts, show.verdicts, as_json)
    for one in verdicts:
        if one.damage and one.entries:
            export = hints.command(runs.store, "export", one.run, "--as", "journal", "-o", "FILE")
            show.note(f"  its whole part can be written out: {export}")
    if any(one.sealed for one in verdicts):
        show.note("  encrypted entries were checked without their key: whole as they are stored, and not looked into")
    return Exit.STORE if facts["faults"] or any(one.damage for one in verdicts) else Exit.DONE
