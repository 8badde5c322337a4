"""The command that removes what nobody needs any more: gc."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from midstride.cli import completing, driving, show, story
from midstride.cli.common import JsonOption, StoreOption, command, get, runs_of, told
from midstride.cli.exits import Exit
from midstride.drive import Removable, Runs
from midstride.errors import DeclarationError, Held, JournalError, KeyMissing, Moved, Removed
from midstride.stores import Freed
from midstride.visible import word

Json = Any

SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@command(
    "gc",
    "midstride gc --older-than 30d --dry-run",
    "midstride gc --older-than 30d --keep 1000",
    "midstride gc notes-48",
)
def gc(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs by their ids, whatever their age and state.",
            show_default=False,
            autocompletion=completing.run_ids,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Runs that are over, and had their last entry so long ago: 90m, 12h, 30d, 2w.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=0, metavar="N", help="Spare the newest N runs of the store.", show_default=False),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Let the ids of the named RUNs begin anew: they may do all of it again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Remove runs that are over, and give their space back.

    A run that somebody drives, that can be carried on, that waits or that is in doubt is left, unless it is named; one
    that a living process drives is never removed. Nothing begins anew under the id of a removed run.
    """
    seconds = _checked(names or [], older_than, keep, forget)
    with runs_of(store) as runs:
        gone = _Gone(runs, dry_run)
        if seconds is None:
            gone.named(list(dict.fromkeys(names or [])), forget)
        else:
            gone.old(seconds, keep or 0)
        freed = None if dry_run else runs.shrink()
    _print(gone, freed, as_json)
    return gone.code


def _checked(names: Sequence[str], older_than: str | None, keep: int | None, forget: bool) -> int | None:
    """Return --older-than in seconds, None for runs that are named; raises DeclarationError for what does not fit."""
    if names and (older_than is not None or keep is not None):
        raise DeclarationError("a RUN that is named is removed whatever its age: leave out --older-than and --keep")
    if names:
        return None
    if forget:
        raise DeclarationError("--forget is for runs that are named: give their ids")
    if older_than is None:
        raise DeclarationError("give --older-than AGE, as in 30d, or the runs by their ids")
    fits = re.fullmatch(r"([0-9]{1,6})([mhdw])", older_than)
    if fits is None:
        raise DeclarationError(
            f"--older-than {older_than!r} is no age: wanted a whole number with m, h, d or w, as 90m, 12h, 30d or 2w"
        )
    return int(fits[1]) * SECONDS[fits[2]]


class _Gone:
    """What is removed, or would be: a row for each run."""

    def __init__(self, runs: Runs, dry_run: bool) -> None:
        self._runs, self.dry_run = runs, dry_run
        self.rows: list[dict[str, Json]] = []
        self.code = Exit.DONE

    def old(self, seconds: int, keep: int) -> None:
        """Remove the runs that are over for so long."""
        for found in self._runs.old(seconds, keep=keep):
            if found.damage:
                self._failed(found.id, f"{found.damage}; the run was left, and is removed when it is named", Exit.STORE)
                continue
            row = self._row(found)
            if not self.dry_run:
                try:
                    self._runs.remove(found)
                except (Held, Moved, Removed):  # somebody was quicker: it goes on, or is gone already
                    continue
            self.rows.append(row)

    def named(self, names: Sequence[str], forget: bool) -> None:
        """Remove the runs with these ids; nothing is removed when one of them is unknown."""
        removed = [self._is_removed(name, forget) for name in names]
        for name, gone in zip(names, removed, strict=True):
            try:
                row = _nothing(name) if gone else self._one(name)
                if forget and not self.dry_run:
                    self._runs.forget(name)
            except Held as held:
                self._failed(name, *told(held))
            else:
                self.rows.append({**row, "forgotten": forget})

    def _is_removed(self, name: str, forget: bool) -> bool:
        try:
            get(self._runs, name)
        except Removed:
            if not forget:
                raise
            return True
        except (JournalError, KeyMissing):
            pass  # it is named, so it goes all the same
        return False

    def _one(self, name: str) -> dict[str, Json]:
        if not self.dry_run:
            return self._row(self._runs.remove(name))
        if (holder := self._runs.store.holder(name)) is not None:
            raise Held(f"run {name!r} is held by pid {holder.pid} on {holder.host}", holder)
        return self._row(self._runs.look(name))

    def _failed(self, name: str, why: str, code: Exit) -> None:
        show.note(f"{name}: {why}", "red")
        self.code = max(self.code, code)

    def _row(self, found: Removable) -> dict[str, Json]:
        row = {"entries": found.entries, "size": found.size, "last": story.iso(found.last), "forgotten": False}
        if found.run is None:
            return {**_nothing(found.id), **row, "status": story.UNREAD, "why": found.damage, "given_up": True}
        status, why = self._runs.standing(found.id, found.run)
        asked = driving.questions_of(self._runs, found.id, found.run)
        return {
            "run": found.id,
            "status": status,
            "why": why,
            "doubts": [one["call"] for one in asked if one["in_doubt"]],
            "approvals": [one["call"] for one in asked if not one["in_doubt"]],
            "given_up": not found.over,
            **row,
        }


def _nothing(name: str) -> dict[str, Json]:
    """Return the row of a run of which nothing is known any more."""
    return {
        "run": name,
        "status": "removed",
        "why": "it was removed before",
        "doubts": [],
        "approvals": [],
        "given_up": False,
        "entries": 0,
        "size": 0,
        "last": None,
        "forgotten": False,
    }


# ---- what is told


def _print(gone: _Gone, freed: Freed | None, as_json: bool) -> None:
    if as_json:
        space = None if freed is None else {**asdict(freed), "freed": freed.before - freed.after}
        show.print_json({"dry_run": gone.dry_run, "runs": gone.rows, "space": space})
        return
    for row in gone.rows:
        for line in _lines(row, gone.dry_run):
            show.say(line)
    show.say(_summary(gone.rows, freed))
    if freed is not None and freed.note and gone.rows:
        show.note(f"  {freed.note}")


def _lines(row: dict[str, Json], dry_run: bool) -> Iterator[str]:
    """Yield what is told of one run: what would be done, and what is given up with one that is not over."""
    size, last = show.size(row["size"]), show.when(row["last"])
    if dry_run:
        deed = "forget" if row["forgotten"] else "remove"
        facts = f"  last {last}" if last else ""
        yield f"would {deed} {word(row['run'])}  {row['status']}  {_count(row['entries'], 'entry')}  {size}{facts}"
    if row["given_up"]:
        lost = [f"{call} in doubt" for call in row["doubts"]] + [f"{call} not approved" for call in row["approvals"]]
        calls = f" ({', '.join(lost)})" if lost else ""
        yield f"{word(row['run'])}: {'is' if dry_run else 'was'} {row['status']}{calls}: {row['why']}"


def _summary(rows: Sequence[dict[str, Json]], freed: Freed | None) -> str:
    runs, entries = _count(len(rows), "run"), _count(sum(row["entries"] for row in rows), "entry")
    if freed is None:
        return f"{runs} would be removed: {entries}, {show.size(sum(row['size'] for row in rows))}"
    if not rows and freed.before <= freed.after:
        return "nothing was removed"
    space = f"{show.size(freed.before - freed.after)} freed" if freed.before > freed.after else "nothing freed"
    deed = "removed and forgotten" if any(row["forgotten"] for row in rows) else "removed"
    return f"{runs} {deed}: {entries}, {space} ({show.size(freed.before)} before, {show.size(freed.after)} now)"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else {'entry': 'entries'}.get(noun, noun + 's')}"
