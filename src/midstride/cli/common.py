"""What the commands share: how one is registered, its errors as one line and an exit code, its options, its runs."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import logging
import os
import sys
import traceback as tracebacks
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ParamSpec

import typer

from midstride.agent import Agent
from midstride.cli import completing, show, story, target
from midstride.cli.exits import MEANINGS, Exit, of_error
from midstride.core.run import Run
from midstride.drive import Runs
from midstride.errors import DeclarationError, MidstrideError, NotAllowed, UnknownRun
from midstride.hidden import redacted, show_everything
from midstride.redaction import use_environment
from midstride.stores import MemoryStore, Store, open_store
from midstride.visible import one_line

Json = Any
P = ParamSpec("P")

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code.value:>2}  {meaning}" for code, meaning in MEANINGS.items())

app = typer.Typer(
    name="midstride",
    help="LLM agent runs that are killed anywhere and carry on.\n\nEvery command has a --help of its own.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the runs are kept: sqlite:PATH or checkpoint:PATH. Else MIDSTRIDE_STORE, else "
        "sqlite:.midstride/runs.db.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the facts as JSON (docs/json.md).")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False, autocompletion=completing.run_ids)
]
MaybeTarget = Annotated[
    str | None, typer.Argument(metavar="TARGET", help=f"The agent, as {target.FORMS}.", show_default=False)
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log every entry as it is written.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show the traceback of an error.")]
Unredacted = Annotated[bool, typer.Option("--unredacted", help="Show what looks like a secret, too.")]


ERROR_WIDTH = 2_000
"""Characters of an error: enough for any of ours, and a bound for what a program of the user's may raise."""

NAMED = 20
"""Turns or calls that are named one by one where the one that was asked for is not there."""

NEAR = 1_000
"""An id that is not there is compared with so many of the newest."""


# ---- registering a command


class _Asked:
    """What was asked of this process beside the command."""

    traceback = False


def options(verbose: bool, traceback: bool) -> None:
    """Do what --verbose and --traceback ask for; both may stand before the command or behind it."""
    _Asked.traceback = _Asked.traceback or traceback
    if verbose:
        logging.getLogger("midstride").setLevel(logging.DEBUG)


def command(name: str, *examples: str, looks: bool = False) -> Callable[[Callable[P, Exit | None]], Callable[P, None]]:
    """Register a command; its errors are one line and an exit code. One that *looks* can show secrets, if asked to."""
    epilog = "\b\n" + "\n".join(["Examples:" if len(examples) > 1 else "Example:", *(f"  {e}" for e in examples)])

    def register(function: Callable[P, Exit | None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            options(bool(kwargs.pop("verbose", False)), bool(kwargs.pop("traceback", False)))
            if kwargs.pop("unredacted", False):
                show_everything()
            with _errors():
                use_environment()
                code = function(*args, **kwargs) or Exit.DONE
                show.flush()
                raise typer.Exit(code)

        run.__signature__ = _with_options(function, looks)  # type: ignore[attr-defined]
        app.command(name, epilog=epilog if examples else None)(run)
        return run

    return register


def _with_options(function: Callable[..., Any], looks: bool) -> inspect.Signature:
    signature = inspect.signature(function, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (*([("unredacted", Unredacted)] if looks else []), *_EVERYWHERE)
    ]
    return signature.replace(parameters=[*signature.parameters.values(), *added])


_EVERYWHERE = (("verbose", Verbose), ("traceback", Traceback))


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError:  # `midstride log ... | head`: the reader has enough
        show.drop_output()
        raise typer.Exit(Exit.DONE) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except Exception as error:
        if _Asked.traceback:
            sys.stderr.write(redacted("".join(tracebacks.format_exception(error))))
            raise typer.Exit(Exit.FAILED) from None
        words, code = told(error)
        show.note(f"midstride: {one_line(words, ERROR_WIDTH)}", "red")
        raise typer.Exit(code) from None


def told(error: Exception) -> tuple[str, Exit]:
    """Return what a person is told of *error*, in one line, and the exit code."""
    if isinstance(error, MidstrideError):
        return str(error), of_error(error)
    if isinstance(error, OSError):
        show.drop_output()
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{redacted(error.strerror or str(error))}; see to it and run the command again", Exit.STORE
    return (
        f"nobody foresaw this error ({type(error).__name__}: {redacted(str(error))}); what was recorded is safe, and "
        "--traceback shows where it comes from",
        Exit.UNEXPECTED,
    )


# ---- the store, and a run in it


def store_of(url: str | None, agent: Agent | None = None) -> Store:
    """Return the store: --store, else the agent's own, else MIDSTRIDE_STORE, else the default."""
    if url == "":
        raise DeclarationError("--store is empty: give sqlite:PATH or checkpoint:PATH, or leave it out")
    chosen = agent.store if url is None and agent is not None else url
    store = open_store(chosen) if chosen is None or isinstance(chosen, str) else chosen
    if isinstance(store, MemoryStore):
        raise DeclarationError(
            "a memory: store is gone with this process, so nothing could be carried on: give --store sqlite:PATH"
        )
    return store


@contextlib.contextmanager
def runs_of(url: str | None, agent: Agent | None = None) -> Iterator[Runs]:
    """Open the runs of a store for the block."""
    runs = Runs(store_of(url, agent))
    try:
        yield runs
    finally:
        runs.store.close()  # it was opened here, and Runs closes only what it opened itself


def get(runs: Runs, run_id: str) -> Run:
    """Return the run; an unknown id is told with the nearest ones."""
    try:
        return runs.get(_utf8(run_id, "the run's id"))
    except UnknownRun:
        raise UnknownRun(
            f"there is no run {run_id!r} in {runs.store.url}; {_near(run_id, runs.ids(newest=NEAR))}"
        ) from None


def _near(wanted: str, there: list[str]) -> str:
    if not there:
        return "it has no runs at all: is it the right --store?"
    near = difflib.get_close_matches(wanted, there, n=3, cutoff=0.5)
    many = f"{len(there)}" if len(there) < NEAR else "many"
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {many}: midstride runs"


def new_id(run_id: str) -> str:
    """Return an id for a new run; DeclarationError for one that nobody could type again."""
    if not run_id.strip() or not _utf8(run_id, "the run's id").isprintable():
        raise DeclarationError(f"{run_id!r} is no id for a run: give some letters, on one line")
    return run_id


def words_of(text: str, what: str) -> str:
    """Return what a person wants the model to read; DeclarationError when there is nothing to read."""
    if not _utf8(text, what).strip():
        raise DeclarationError(f"{what} is empty: give some text")
    return text


def _utf8(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DeclarationError(f"{what} is no UTF-8: {os.fsencode(text)!r}") from None
    return text


# ---- facts


def facts_of(runs: Runs, run_id: str) -> dict[str, Json]:
    """Return a run's row."""
    run = get(runs, run_id)
    status, why = runs.standing(run_id, run)
    return story.run_facts(run_id, run, status, why, runs.size(run_id))


def facts_of_all(runs: Runs, ids: Sequence[str]) -> list[dict[str, Json]]:
    """Return the row of every run; a journal that cannot be read is a row too, and hides no other."""
    rows = []
    for run_id in ids:
        try:
            rows.append(facts_of(runs, run_id))
        except MidstrideError as error:
            rows.append(story.unread_facts(run_id, str(error)))
    return rows


def code_of_all(rows: list[dict[str, Json]]) -> Exit:
    """Return 9 when a row could not be read."""
    return Exit.STORE if any(row["status"] == story.UNREAD for row in rows) else Exit.DONE


def found(chosen: list[Any], wanted: str, there: list[str]) -> list[Any]:
    """Return *chosen* unless it is empty: NotAllowed says what is *there* then."""
    if chosen:
        return chosen
    few = there if len(there) <= NAMED else [*there[:3], f"and so on to {there[-1]} ({len(there)} in all)"]
    raise NotAllowed(f"the run has no {wanted}; it has {', '.join(few) or 'none yet'}")


def print_facts(facts: Json, draw: Callable[[Any], None], as_json: bool) -> None:
    """Print facts, drawn or as JSON."""
    if as_json:
        show.print_json(facts)
    else:
        draw(facts)


class Log(logging.Handler):
    """Writes the library's log beside the output, around the live line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        show.note(f"{self.format(record)}", "dim" if record.levelno < logging.WARNING else "yellow")


def prepare_streams() -> None:
    """Make the streams take any text, whatever the terminal's encoding; a closed one takes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")
    log = logging.getLogger("midstride")
    handler = Log()
    # What entries say is drawn by the commands already; --verbose asks for the log's lines too.
    handler.addFilter(lambda record: log.level == logging.DEBUG or not hasattr(record, "kind"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    log.propagate = False
