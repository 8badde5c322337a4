"""`midstride`, the command line: the library's nouns and verbs; every command reads its input, asks the library, and
draws the facts."""

from __future__ import annotations

from typing import NoReturn

from midstride.cli import commands_driving as _driving  # noqa: F401  # the order of --help
from midstride.cli import commands_looking as _looking  # noqa: F401
from midstride.cli import commands_speaking as _speaking  # noqa: F401
from midstride.cli import common

from midstride.cli import commands_checking as _checking  # noqa: F401  # isort: skip
from midstride.cli import commands_removing as _removing  # noqa: F401  # isort: skip
from midstride.cli import commands_transcripts as _transcripts  # noqa: F401  # isort: skip
from midstride.cli import commands_moving as _moving  # noqa: F401  # isort: skip
from midstride.cli.common import Traceback, Verbose, app
from midstride.cli.exits import Exit


@app.callback()
def options(verbose: Verbose = False, traceback: Traceback = False) -> None:
    """LLM agent runs that are killed anywhere and carry on."""
    common.options(verbose, traceback)


def main() -> NoReturn:
    """Run the command line."""
    common.prepare_streams()
    app(prog_name="midstride")
    raise SystemExit(Exit.DONE)
