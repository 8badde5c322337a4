"""The three programs that are killed, and what each has on disk, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstride.core.fold import fold
from midstride.core.journal import Entry, Responded, Settled, Started, Taken
from midstride.core.run import NEW, Run
from midstride.demo import EXAMPLES
from midstride.drive import Runs

Json = Any
HERE = Path(__file__).parent
RUN_ID = "notes-2026-W48"


@dataclass(frozen=True)
class Program:
    """A program to be killed: how it is started, and what it has *saved* (in words, and its transcript).

    *store* is the URL of its journal; None for a program that has none.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    saved: Callable[[], Iterable[str]]
    transcript: Callable[[], Sequence[Json]]
    store: str | None = None


def program(name: str, folder: Path) -> Program:
    """Return the program called *name*; it keeps in *folder* what it keeps."""
    return naive(folder) if name == "naive" else carried(folder, name)


def naive(folder: Path) -> Program:
    """The lesson's loop with its faulty reconcile."""
    checkpoint = folder / "checkpoint.json"

    def state() -> Json:
        return json.loads(checkpoint.read_text())

    return Program(
        "naive",
        (str(HERE / "naive.py"), str(checkpoint)),
        {},
        lambda: _fields(state()),
        lambda: state()["messages"],
    )


def carried(folder: Path, effect: str, store: str | None = None) -> Program:
    """The example, with send_email declared as *effect*; *store* is the URL of its store."""
    url = store or f"sqlite:{folder / 'runs.db'}"
    return Program(
        effect,
        (str(EXAMPLES / "notes.py"), RUN_ID),
        {"NOTES_EFFECT": effect, "MIDSTRIDE_STORE": url},
        lambda: _in_words(_entries(url)),
        lambda: fold(_entries(url)).messages,
        url,
    )


def news(before: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
    """Return what is *now* on disk and was not *before*: a journal's new lines, a checkpoint's changed ones."""
    return tuple(line for at, line in enumerate(now) if line not in before[at : at + 1])


def _fields(state: Json) -> Iterator[str]:
    """Name the lesson's six fields."""
    pending = (state["pendingToolUse"] or {}).get("name", "null")
    shown = {**state, "messages": f"{len(state['messages'])} of them", "pendingToolUse": pending}
    return (f"{field:<14} {value}" for field, value in shown.items())


def _entries(url: str) -> Sequence[Entry]:
    runs = Runs(url)
    try:
        return runs.store.read(RUN_ID)
    finally:
        runs.close()


def _in_words(entries: Sequence[Entry]) -> Iterator[str]:
    run = NEW
    for entry in entries:
        run = fold((entry,), run)
        yield f"{entry.body.kind:<10} {_about(entry.body, run)}".rstrip()


def _about(body: Any, run: Run) -> str:
    match body:
        case Started(task=task):
            return str(task)
        case Taken(pid=pid):
            return f"by process {pid}"
        case Responded(response=response):
            names = [block["name"] for block in response["content"] if block["type"] == "tool_use"]
            return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "the answer"
    call = run.call((body.turn, body.index)) if hasattr(body, "index") else None
    outcome = f", {body.outcome}" if isinstance(body, Settled) else ""
    return f"{call.name}{outcome}" if call else ""
