"""`python -m midstride.demo`: the incident of three programs at once, told side by side.

Ends with 0 when the mailboxes hold two mails, one and one, as they must; else with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from midstride.demo import columns, telling
from midstride.demo.incident import NAMES, Incident, Tell, Unexpected, play_all
from midstride.errors import MidstrideError

WANTED = {"naive": 2, "unsafe": 1, "verifiable": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the incidents and tell them; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m midstride.demo", description="SIGKILL between a mail and its 250.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--keep", action="store_true", help="keep the folder with mailboxes, journals and logs")
    given = parser.parse_args(arguments)
    show = as_json if given.json else as_shown
    try:
        with _folder(keep=given.keep) as folder:
            incidents = show(folder, real=bool(os.environ.get("ANTHROPIC_API_KEY")), keep=given.keep)
    except (Unexpected, MidstrideError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0 if {incident.name: len(incident.mails) for incident in incidents} == WANTED else 1


def as_json(folder: Path, *, real: bool, keep: bool) -> list[Incident]:
    """Play in *folder* and print one JSON object."""
    incidents = play_all(folder, real=real, tell=lambda name, what: None)
    shown = {incident.name: telling.as_json(incident) for incident in incidents}
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    return incidents


def as_shown(folder: Path, *, real: bool, keep: bool) -> list[Incident]:
    """Play in *folder* and tell it: side by side on a terminal that is wide enough, else one after another."""
    console = Console(highlight=False)
    if not columns.fits(console):
        return _as_text(folder, real=real, keep=keep, console=console)
    console.width = min(console.width, columns.WIDTH_MAX)
    console.print(columns.heading(real=real))
    with _stages(console) as tell:
        incidents = play_all(folder, real=real, tell=tell)
    console.print(columns.SideBySide(incidents))
    console.print(columns.closing(telling.play_on(incidents, folder, keep=keep)), soft_wrap=True)
    return incidents


def _as_text(folder: Path, *, real: bool, keep: bool, console: Console) -> list[Incident]:
    width = min(console.width, telling.WIDTH) if console.is_terminal else telling.WIDTH
    console.out(telling.wrapped(telling.opening(real=real), "", width) + "\n")
    with _stages(console) as tell:
        incidents = play_all(folder, real=real, tell=tell)
    console.out(telling.as_text(incidents, width))
    console.out("\n  ".join(telling.play_on(incidents, folder, keep=keep)))
    return incidents


@contextlib.contextmanager
def _stages(console: Console) -> Iterator[Tell]:
    """Show, while the block lasts, what each program is at; no terminal, no line."""
    doing = dict.fromkeys(NAMES, "starts")
    spinner = "line" if console.options.ascii_only else "dots"
    with console.status(columns.stages(doing), spinner=spinner) as line:

        def tell(name: str, what: str) -> None:
            doing[name] = what
            line.update(columns.stages(doing))

        yield tell


@contextlib.contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="midstride-demo-"))
    try:
        yield folder
    finally:
        if keep:
            sys.stderr.write(f"kept: {folder}\n")
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what a shell makes of Ctrl-C
