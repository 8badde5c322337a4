"""Facts drawn for a terminal. Text from models and tools goes through `visible`, and never through markup.

What a program or a person copies, an id above all, is never cut or broken over lines, however narrow the terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from midstride.cli import hints
from midstride.visible import as_text, one_line, visible, word

Json = Any
Facts = Mapping[str, Json]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the caller decide; Rich would end the process with 1."""
        raise BrokenPipeError


OUT = _Console(highlight=False, soft_wrap=True)
ERR = _Console(highlight=False, soft_wrap=True, stderr=True)

STATUS_STYLE = {
    "done": "green",
    "working": "cyan",
    "interrupted": "yellow",
    "waiting": "magenta",
    "capped": "yellow",
    "held": "red",
    "cut": "red",
    "failed": "red",
    "cancelled": "dim",
    "unread": "red",
}


# ---- writing


def print_json(facts: Json) -> None:
    """Print facts as JSON: ASCII, so that every terminal and pipe takes it."""
    sys.stdout.write(json.dumps(facts, indent=2, ensure_ascii=True) + "\n")


def say(text: Any, style: str = "") -> None:
    """Print a text of anybody's, as it is but for what a terminal could act on."""
    if OUT.is_terminal and style:
        OUT.print(Text(visible(text), style=style))
    else:
        sys.stdout.write(f"{visible(text)}\n")


def say_bytes(data: bytes) -> None:
    """Print bytes of anybody's: on a terminal as text, elsewhere as they are."""
    if OUT.is_terminal:
        say(data.decode("utf-8", "replace"))
    else:
        flush()
        sys.stdout.buffer.write(data)


def note(text: Any, style: str = "") -> None:
    """Tell the person at the terminal something, beside the output; one who is gone is not told."""
    try:
        ERR.print(Text(visible(text), style=style))
    except OSError:
        drop_output()


def deliver(text: Any) -> None:
    """Print a text; that nobody reads it, or the disk is full, changes nothing about what the run came to."""
    try:
        say(text)
        flush()
    except OSError as error:
        drop_output()
        if not isinstance(error, BrokenPipeError):
            note(f"the answer could not be written ({error.strerror}); midstride show has it", "red")


def flush() -> None:
    """Write out what was printed, so that an error of the output is met here."""
    sys.stdout.flush()


def drop_output() -> None:
    """Let nothing more be written to an output that nobody reads, or that cannot be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
    os.close(null)


Cell = str | tuple[str, str]


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print rows; on a terminal the last column is shortened to its width, and no other is."""
    cells = [[_styled(cell) for cell in row] for row in rows]
    fixed = len(columns) - 1
    widths = [max(cell_len(t) for t in (columns[i], *(row[i][0] for row in cells))) for i in range(fixed)]
    left = max(20, OUT.width - sum(widths) - 2 * fixed) if OUT.is_terminal else None
    for row in [[(column, "bold") for column in columns], *cells]:
        last, style = row[-1]
        shown = one_line(last, left) if left is not None else last
        line = [
            (f"{text}{' ' * (width - cell_len(text) + 2)}", s) for (text, s), width in zip(row, widths, strict=False)
        ]
        text = Text.assemble(*line, (shown, style))
        text.rstrip()
        OUT.print(text)


def _styled(cell: Cell) -> tuple[str, str]:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return word(text), style


# ---- runs


def runs(rows: Sequence[Facts]) -> None:
    """Print a list of runs."""
    priced = any(row["cost"] is not None for row in rows)
    columns = ["run", "status", "turns", "tokens", *(["cost"] if priced else []), "doubts", "size", "last", "task"]
    table(columns, [_row(row, priced) for row in rows])


def _row(row: Facts, priced: bool) -> list[Cell]:
    status = (row["status"], STATUS_STYLE.get(row["status"], ""))
    if row["turns"] is None:  # its journal cannot be read
        return [row["run"], status, *[""] * (6 if priced else 5), (row["why"], "red")]
    limit = f"/{row['turns_max']}" if row["turns_max"] else ""
    doubts = (str(len(row["doubts"])), "red") if row["doubts"] else ""
    task = one_line(as_text(row["task"]), 100)
    counted: list[Cell] = [f"{row['turns']}{limit}", str(row["tokens_total"]), *([cost(row)] if priced else [])]
    return [row["run"], status, *counted, doubts, size(row["size"]), when(row["last"]), task]


def cost(facts: Facts) -> str:
    """Return what a run cost and may cost at most; nothing where no answer had a price."""
    most = "" if facts["cost_max"] is None else f"/{money(facts['cost_max'])}"
    return "" if facts["cost"] is None else f"{money(facts['cost'])}{most}"


def money(amount: float) -> str:
    """Return an amount in units of the user's currency, to four places or digits: its beginning is what counts."""
    return f"{amount:.4f}" if amount >= 0.001 else f"{amount:.4g}"


def size(count: int) -> str:
    """Return a number of bytes to two digits or more, as a person reads it."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.5 else f"{amount:.1f} {unit}"


def reasons(rows: Sequence[Facts]) -> None:
    """Tell why a run does not go on by itself."""
    for row in rows:
        if row["status"] in ("held", "failed", "cut") or row["again_at"]:
            note(f"  {word(row['run'])} is {row['status']}: {row['why']}")


def verdicts(facts: Facts) -> None:
    """Print what is whole and what is not."""
    if facts["runs"]:
        table(["run", "whole entries", "damage"], [_verdict(one) for one in facts["runs"]])
    else:
        note(f"there are no runs in {facts['store']}")
    for fault in facts["faults"]:
        note(fault, "red")


def _verdict(one: Facts) -> list[Cell]:
    return [one["run"], str(one["entries"]), (one["damage"], "red") if one["damage"] else ("none", "green")]


def header(facts: Facts) -> None:
    """Print one run's head."""
    OUT.print(Text.assemble((word(facts["run"]), "bold"), "  ", *_status(facts)))
    say(f"task     {one_line(as_text(facts['task']), 200)}")
    limit = f" of {facts['turns_max']}" if facts["turns_max"] else ""
    window = f"{facts['tokens_used']} in the window, {facts['tokens_total']} in all"
    say(
        f"turns    {facts['turns']}{limit}   tokens {window}   at work {facts['seconds']:g} s   last "
        f"{when(facts['last'])}"
    )
    for line in _counted(facts):
        say(line)
    if facts["program"]:
        say(f"program  {facts['program']}")


def _counted(facts: Facts) -> Iterator[str]:
    """Yield what is to be told of caches and cost, and what nobody knows about them."""
    if facts["cache_read"] or facts["cache_write"]:
        yield f"cache    {facts['cache_read']} tokens read, {facts['cache_write']} written"
    if facts["cost"] is not None:
        most = "" if facts["cost_max"] is None else f" of {money(facts['cost_max'])}"
        without = f"   {facts['unpriced']} of its answers without a price" if facts["unpriced"] else ""
        yield f"cost     {money(facts['cost'])}{most}{without}"
    if facts["unanswered"]:
        yield f"unknown  {facts['unanswered']} of the turns had no answer: what they took is not known"


def _status(facts: Facts) -> tuple[tuple[str, str], str]:
    return (facts["status"], STATUS_STYLE.get(facts["status"], "")), f": {visible(facts['why'])}"


def when(iso: str | None) -> str:
    """Return a time of the facts, to the second, as a person reads it."""
    return "" if iso is None else iso[:19].replace("T", " ") + " UTC" if iso.endswith("Z") else iso


# ---- turns and calls


def run(facts: Facts, *, left_out: int) -> None:
    """Print a run with its turns, in front of which so many are *left_out*."""
    header(facts)
    for said in facts["said"]:
        if said["turn"] == 0:
            _said(said)
    if left_out:
        note(f"  {left_out} older turns are left out: --all, or --turn N")
    for one in facts["turns_made"]:
        turn(one, whole=False)
        for said in facts["said"]:
            if said["turn"] == one["turn"]:
                _said(said)


def turn(facts: Facts, *, whole: bool) -> None:
    """Print one turn; *whole* leaves nothing out."""
    OUT.print()
    head = f"turn {facts['turn']}  {when(facts['at'])}  {visible(facts['stop'])}  {facts['tokens']} tokens"
    head += "" if facts["cost"] is None else f"  cost {money(facts['cost'])}"
    OUT.print(Text(head, "bold"))
    if facts["text"]:
        say(facts["text"] if whole else _shortened(facts["text"]))
    for call_facts in facts["calls"]:
        call(call_facts, whole=whole)


def _said(said: Facts) -> None:
    say(f"{said['by'] or 'somebody'} said: {as_text(said['content'])}", "cyan")


def call(facts: Facts, *, whole: bool) -> None:
    """Print one call and what came of it."""
    OUT.print(call_line(facts, 10_000_000 if whole else 100))
    if facts["result"] is not None:
        result = content_text(facts["result"])
        say(_indented(result if whole else _shortened(result)), "dim")


def call_line(facts: Facts, width: int = 100) -> Text:
    """Return a call on a line: what was asked for, its effect, what came of it, its id."""
    style = "red" if facts["in_doubt"] else "yellow" if facts["is_error"] else "green"
    outcome = facts["outcome"] or facts["state"]
    decided = f", decided: {facts['decided']}" if facts["decided"] else ""
    again = f", {facts['attempts']} attempts" if facts["attempts"] > 1 else ""
    return Text.assemble(
        f"  {asked_for(facts, width)}  {effect(facts)}  ",
        (f"{outcome}{decided}{again}", style),
        f"  {word(facts['call'])}",
    )


def asked_for(facts: Facts, width: int) -> str:
    """Return a call's tool and arguments on one line, the arguments in at most *width* characters."""
    return f"{word(facts['tool'])}({one_line(as_text(facts['arguments']), width)})"


def effect(facts: Facts) -> str:
    """Return the effect that is recorded with a call."""
    return facts["effect"] or "unknown effect"


def calls(rows: Sequence[Facts]) -> None:
    """Print calls whole."""
    for row in rows:
        call(row, whole=True)


def content_text(content: Json) -> str:
    """Return a result's content as text; what is none is named in brackets."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", f"({block.get('type')})")) for block in content)


def _shortened(text: str) -> str:
    return text if len(text) <= 600 else f"{text[:400]} ... ({len(text) - 550} more) ... {text[-150:]}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


# ---- plan and doubts


def plan(facts: Facts) -> None:
    """Print what a resume would do; a ledger's run goes on when its program makes the same call."""
    who = "calling it again" if facts["api"] == hints.LEDGER else "a resume"
    OUT.print(Text.assemble((word(facts["run"]), "bold"), "  ", *_status(facts)))
    for row in facts["calls"]:
        OUT.print(Text(f"  {asked_for(row, 100)}  {effect(row)}  {row['state']}  {word(row['call'])}"))
        at = f" (not before {when(row['not_before'])})" if row["not_before"] else ""
        OUT.print(Text.assemble(f"    {who} would ", (row["move"], "bold"), f"{at}: {visible(row['why'])}"))
    if not facts["calls"]:
        own = facts["next"]
        OUT.print(Text.assemble(f"  {who} would ", (own["move"], "bold"), f": {visible(own['why'])}"))


def doubts(rows: Sequence[Facts]) -> None:
    """Print the calls that somebody has to look into."""
    table(
        ["run", "call", "tool", "state", "started", "arguments"],
        [
            [
                row["run"],
                row["call"],
                row["tool"],
                (row["state"], "red" if row["in_doubt"] else "magenta"),
                when(row["started"]),
                one_line(as_text(row["arguments"]), 200),
            ]
            for row in rows
        ],
    )
