"""The commands over a transcript of anybody's: check and repair. They read a file, and no store."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.text import Text

from midstride.cli import exporting, reading, show, transcript_files
from midstride.cli.common import JsonOption, command
from midstride.cli.exits import Exit
from midstride.errors import DeclarationError
from midstride.hidden import redacted
from midstride.transcript import Change, Finding, Repair, check, remedy, repair
from midstride.visible import one_line, word

Json = Any

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help=f"{reading.SEVERAL}; - is standard input.", show_default=False),
]
ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--provider", metavar="NAME", help=f"{', '.join(reading.PROVIDERS)}; else guessed.", show_default=False
    ),
]

MUST = ("reject", "harness")
"""Levels of what has to be mended before anything is sent; the others are notes."""

STYLE = {"reject": "red", "harness": "red", "compat": "yellow", "quality": "dim"}


@command("check", "midstride check messages.json", "midstride export notes-48 --as messages | midstride check -")
def check_(file: FileArgument, provider: ProviderOption = None, as_json: JsonOption = False) -> Exit:
    """Check a transcript by the rules of its API.

    FILE is a message list, a request's body, a Claude Code session, an exported run or a checkpoint. Nothing is
    changed. Ends with 0 when there is nothing to say, and with 1 when there is: also of what the API takes at a loss
    (quality), or only strict servers refuse (compat).
    """
    source = reading.read(file, provider)
    findings = check(source.messages, provider=source.provider, request=source.request)
    if as_json:
        show.print_json({**_facts(source), "findings": [_finding(one, source.provider) for one in findings]})
    else:
        _tell(source)
        _draw(findings, source)
        print_last(findings, source, file)
    return Exit.FAILED if source.damage or findings else Exit.DONE


@command("repair", "midstride repair messages.json -o mended.json", "midstride repair session.jsonl --in-place")
def repair_(
    file: FileArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A new file; else standard output.", show_default=False),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace FILE; the original is kept as FILE.orig.")
    ] = False,
    provider: ProviderOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Mend a transcript by the smallest honest changes.

    What is changed is printed with its reason. No real result is lost, no call is deleted that may have had an effect,
    and no success is invented. The result has the form of FILE, and what was not mended is left as it was written; a
    clean file is left untouched. Ends with 1 when something is left that no change of the messages mends.
    """
    if in_place and (out is not None or str(file) == "-"):
        raise DeclarationError("--in-place replaces FILE: give it a file, and no -o beside it")
    if as_json and out is None and not in_place:
        raise DeclarationError("--json prints what was changed: give -o FILE or --in-place for the transcript")
    source = reading.read(file, provider)
    made = repair(source.messages, provider=source.provider, request=source.request)
    if in_place and source.rewritten is None and made.changes:
        raise DeclarationError(
            f"{source.name} is a {source.form}, which bears more than messages: write a list with -o"
        )
    changed = bool(made.changes or source.damage)
    written = _write(source, made, file, out, in_place) if changed or not in_place else None
    if as_json:
        show.print_json({**_repaired(source, made), "written": written})
    else:
        _tell(source)
        _report(source, made, written)
    return Exit.FAILED if _must(made.findings) else Exit.DONE


# ---- what is written


def _write(source: reading.Source, made: Repair, file: Path, out: Path | None, in_place: bool) -> str | None:
    """Write the result out, and return the sentence that says where."""
    if not made.changes and not source.damage and str(file) != "-":
        data = file.read_bytes()
    elif source.rewritten is not None:
        data = source.rewritten(made.messages)
    else:
        data = (json.dumps(made.messages, indent=2) + "\n").encode("ascii")
    if in_place:
        return f"{file} is replaced; the original is {transcript_files.replace(file, data)}"
    if out is not None:
        exporting.write_new(out, data)
        return f"written to {out}"
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    return None


def _report(source: reading.Source, made: Repair, written: str | None) -> None:
    for damage in source.damage:
        show.note(f"  {damage}: what is whole is kept, on a line of its own", "yellow")
    for change in made.changes:
        show.note(f"  {change.where} {redacted(change.what)}", "yellow")
        show.note(f"    {one_line(redacted(change.why), _width() - 4)}", "dim")
    for kind, left in (("to be sent once the open turn has ended", made.held), ("for the system prompt", made.system)):
        if left:
            show.note(f"  left out, {kind}: {one_line(json.dumps(redacted(left)), 400)}", "yellow")
    if source.rewritten is None and made.changes:
        show.note(f"  a {source.form} bears more than its messages, which would not fit any more: a list is written")
    for finding in [one for one in made.findings if one.level in MUST]:
        show.note(f"  not mended: {finding.rule} in message {finding.at}: {remedy(finding, source.provider)}", "red")
    nothing = "nothing could be mended" if _must(made.findings) else "nothing to mend"
    what = _count(len(made.changes) + len(source.damage), "change") if made.changes or source.damage else nothing
    show.note(f"{source.name}: {what}{f'; {written}' if written else ''}")


# ---- drawing


def _tell(source: reading.Source) -> None:
    if source.guessed:
        show.note("nothing in it tells whose API it is: read as anthropic (--provider says otherwise)", "yellow")
    if source.branches:
        ends = _count(source.branches, "other branch", "other branches")
        show.note(f"{source.name}: the newest branch is read; it has {ends}", "yellow")


def _draw(findings: Sequence[Finding], source: reading.Source) -> None:
    for damage in source.damage:
        show.say(damage, "yellow")
    if not findings:
        return
    rows = [
        (str(one.at), _block(one, source), (one.rule, STYLE[one.level]), _answer(one), remedy(one, source.provider))
        for one in findings
    ]
    _table(("message", "block", "rule", "the API says", "what mends it"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a line for each finding; on a terminal the two last columns share what is left of its width."""
    cells = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in [tuple(columns), *rows]]
    widths = [max(cell_len(word(row[at][0])) for row in cells) for at in range(3)]
    half = max(12, (_width() - sum(widths) - 8) // 2)
    for number, row in enumerate(cells):
        style = "bold" if number == 0 else ""
        parts = [
            (f"{word(t)}{' ' * (w - cell_len(word(t)) + 2)}", s or style)
            for (t, s), w in zip(row, widths, strict=False)
        ]
        says = one_line(row[3][0], half)
        mends = one_line(row[4][0], half)
        show.OUT.print(Text.assemble(*parts, (f"{says}{' ' * (half - cell_len(says) + 2)}", style), (mends, style)))


def _width() -> int:
    return show.OUT.width if show.OUT.is_terminal else 160


def _block(finding: Finding, source: reading.Source) -> str:
    """Return the places of the blocks concerned in their message, or their ids."""
    message = source.messages[finding.at] if finding.at < len(source.messages) else None
    content = message.get("content") if isinstance(message, dict) else None
    ids = [{one.get(n) for n in ("id", "tool_use_id")} for one in content or () if isinstance(one, dict)]
    places = [str(at) for at, known in enumerate(ids) if known & set(finding.ids)]
    return ",".join(places[:4]) or one_line(",".join(finding.ids), 24)


def _answer(finding: Finding) -> str:
    return str(redacted(finding.message)).rpartition("; ")[2]


def print_last(findings: Sequence[Finding], source: reading.Source, file: Path) -> None:
    """Say how many findings there are, and what mends them."""
    total = f"{_count(len(source.messages), 'message')}, {source.provider}, {source.form}"
    if not findings and not source.damage:
        show.say(f"clean: {total}")
        return
    counts = [f"{n} {level}" for level in STYLE if (n := sum(one.level == level for one in findings))]
    damage = [f"{len(source.damage)} of the file"] if source.damage else []
    mend = f"; mend: midstride repair {shlex.quote(str(file))}" if source.damage or _must(findings) else ""
    more = "" if not mend or str(file) == "-" or source.rewritten is None else " --in-place"
    if source.form in ("journal", "checkpoint") and mend:
        mend, more = f"{mend} (of a run of midstride's a resume settles the open calls)", ""
    show.say(f"{_count(len(findings), 'finding')} ({', '.join([*counts, *damage])}) in {total}{mend}{more}")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _must(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.level in MUST]


# ---- facts


def _facts(source: reading.Source) -> dict[str, Json]:
    return {
        "file": source.name,
        "form": source.form,
        "provider": source.provider,
        "guessed": source.guessed,
        "messages": len(source.messages),
        "branches": source.branches,
        "damage": list(source.damage),
    }


def _finding(one: Finding, provider: str) -> dict[str, Json]:
    named = {"rule": one.rule, "level": one.level, "at": one.at, "ids": list(one.ids)}
    return {**named, "message": redacted(one.message), "remedy": remedy(one, provider)}


def _repaired(source: reading.Source, made: Repair) -> dict[str, Json]:
    return {
        **_facts(source),
        "changes": [_change(one) for one in made.changes],
        "findings": [_finding(one, source.provider) for one in made.findings],
        "held": list(made.held),
        "system": list(made.system),
    }


def _change(one: Change) -> dict[str, Json]:
    return {"what": redacted(one.what), "where": one.where, "why": redacted(one.why)}
