"""The three programs side by side, a row for each moment, for a terminal that is wide enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from midstride.demo import telling
from midstride.demo.incident import Incident
from midstride.visible import visible

WIDTH_MIN = 100
WIDTH_MAX = 120

JOURNAL_LINES = 6
"""Lines of a journal that are shown: as many as the lesson's checkpoint has fields."""

TITLE = "SIGKILL between a mail and its 250 OK"

HEADS = {
    "naive": ("the lesson's loop", "Its reconcile runs every pending call again."),
    "unsafe": ("@tool", "Carried by midstride; nobody can ask the mail server afterwards."),
    "verifiable": ("@tool.verifiable", "Carried by midstride; the mail can be looked for by its Message-ID."),
}

Cell = Callable[[Incident, int], Text]
"""Draws a moment of one program, given the characters that a line of its column has."""


def fits(console: Console) -> bool:
    """Tell whether three columns can be read on *console*."""
    return console.is_terminal and console.width >= WIDTH_MIN


def heading(*, real: bool) -> RenderableType:
    """Return what is shown before anything has happened."""
    return Group(Text(TITLE, "bold"), Text(telling.opening(real=real)), Text())


def stages(doing: Mapping[str, str]) -> Text:
    """Return one line that says what each program is at."""
    return Text("   ").join(Text.assemble((name, "bold"), f" {what}") for name, what in doing.items())


def closing(lines: Sequence[str]) -> RenderableType:
    """Return how to play on."""
    first, *commands = lines
    return Group(Text(), Text(first), *(Text(f"  {command}") for command in commands))


class SideBySide:
    """The incidents as columns, with equal moments at one height."""

    def __init__(self, incidents: Sequence[Incident]) -> None:
        self._incidents = incidents

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._row(_head, options)
        for number, (title, cell) in enumerate(MOMENTS, start=1):
            yield Rule(Text(f"{number}  {title}", "bold cyan"), align="left", style="dim")
            yield self._row(cell, options)
        yield Rule(characters="-" if options.ascii_only else "─", style="dim")

    def _row(self, cell: Cell, options: ConsoleOptions) -> Table:
        bars = ASCII_BARS if options.ascii_only else BARS
        width = options.max_width // len(self._incidents) - 3  # a space at each side, and a bar
        row = Table(box=bars, show_header=False, show_edge=False, border_style="dim", padding=(0, 1))
        for _ in self._incidents:
            row.add_column(width=width, overflow="fold")
        row.add_row(*(cell(incident, width) for incident in self._incidents))
        return row


BARS = box.Box("    \n" + "  │ \n" * 3 + "    \n" + "  │ \n" * 3)
ASCII_BARS = box.Box("    \n" + "  | \n" * 3 + "    \n" + "  | \n" * 3, ascii=True)


# ---- the cells


def _head(incident: Incident, width: int) -> Text:
    declared, meaning = HEADS[incident.name]
    return Text.assemble((incident.name, f"bold {_colour(incident)}"), f"  {declared}\n", (meaning, "dim"))


def _kill(incident: Incident, width: int) -> Text:
    return Text(f"process {incident.pid} killed; {telling.count(incident.taken)} taken")


def _saved(incident: Incident, width: int) -> Text:
    lines = list(telling.folded(incident.saved))
    if len(lines) > JOURNAL_LINES:
        tail = lines[2 - JOURNAL_LINES :]
        lines = [lines[0], f"... {len(lines) - 1 - len(tail)} more", *tail]
    shown = Text.assemble((f"{telling.kept_in(incident)}:", "dim"))
    for number, line in enumerate(lines, start=1):
        shown.append(f"\n{telling.cut(line, width)}", "bold yellow" if number == len(lines) else "")
    return shown


def _added(incident: Incident, width: int) -> Text:
    shown = Text.assemble((telling.decision(incident).capitalize(), _colour(incident)))
    for line in incident.added:
        about = "send_email" in line or "pendingToolUse" in line
        shown.append(f"\n{telling.cut(line, width)}", _colour(incident) if about else "")
    return shown


def _told(incident: Incident, width: int) -> Text:
    error = ("is_error: true\n", "yellow") if incident.told.is_error else ""
    text = telling.shortened(visible(incident.told.text), 64, 304)
    return Text.assemble(error, re.sub(r"\S+", lambda word: _middle_out(word[0], width), text))


def _answer(incident: Incident, width: int) -> Text:
    return Text(visible(incident.answer))


def _mailbox(incident: Incident, width: int) -> Text:
    number = (telling.count(len(incident.mails)), f"bold {_colour(incident)}")
    shown = Text.assemble(number, (f", {telling.verdict(incident)}", _colour(incident)))
    for mail in incident.mails:
        shown.append(f"\n{telling.cut(mail.subject, width)}")
        shown.append(f"\n{_middle_out(visible(mail.message_id), width)}", "dim")
    return shown


MOMENTS: tuple[tuple[str, Cell], ...] = (
    ("Killed, when the mail server had the mail and had not said so", _kill),
    ("On disk at that moment", _saved),
    ("Run again: what becomes of the call that has no result", _added),
    ("What the model is told of it, in the next request", _told),
    ("What the model answers", _answer),
    ("The mail server's mailbox", _mailbox),
)


def _colour(incident: Incident) -> str:
    return "red" if incident.mailed_again else "green"


def _middle_out(word: str, width: int) -> str:
    """Leave out the middle of a word that is longer than a line, such as a Message-ID; --json has it whole."""
    return word if len(word) <= width else f"{word[: width - 20]}...{word[-17:]}"
