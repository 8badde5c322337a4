"""How the incident is told: as text, side by side, as JSON, and as the picture in the README."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from midstride.demo import columns, telling
from midstride.demo.answers import Result
from midstride.demo.incident import Incident, Mail

ROOT = Path(__file__).parents[2]


def incident(name: str, mails: int = 1, *, told: str = "Sent to a@b.example", is_error: bool = False) -> Incident:
    """Make an incident as it would be, but for what a test is about."""
    return Incident(
        name=name,
        pid=42,
        taken=1,
        saved=("started    the task", *["settled    read_note, ok"] * 6, "requested", "intended   send_email"),
        added=("taken      by process 43", "settled    send_email, ok"),
        told=Result("send_email", {}, told, is_error),
        answer="I mailed it.",
        mails=tuple(Mail(f"<{n}{'f' * 31}@example.com>", "a@b.example", "Decisions", "We move.") for n in range(mails)),
        store=None if name == "naive" else f"sqlite:/a folder/{name}/runs.db",
        seconds=1.5,
    )


def all_three() -> list[Incident]:
    doubt = 'Outcome unknown: send_email({"to": "a@b.example"}) may or may not have taken effect.'
    return [incident("naive", 2), incident("unsafe", told=doubt, is_error=True), incident("verifiable")]


def drawn(incidents: list[Incident], width: int, *, colour: bool = False) -> list[str]:
    """Return the lines of the columns on a terminal of *width*."""
    system = "standard" if colour else None
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=system, _environ={})  # type: ignore[arg-type]
    console.print(columns.SideBySide(incidents))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(lines: list[str], first: str) -> list[str]:
    """Return the three cells of the line whose first cell begins with *first*."""
    (found,) = [line for line in lines if line.startswith(f" {first}")]
    return [cell.strip() for cell in found.split("│")]


# ---- side by side


@pytest.mark.parametrize("width", [100, 120])
def test_the_three_counts_stand_at_one_height(width: int) -> None:
    assert [cell.split(",")[0] for cell in row(drawn(all_three(), width), "2 mails")] == ["2 mails", "1 mail", "1 mail"]


@pytest.mark.parametrize("width", [100, 107, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(all_three(), width))) <= width


def test_two_mails_are_red_and_one_is_green() -> None:
    (line,) = [line for line in drawn(all_three(), 120, colour=True) if "2 mails" in line]
    assert re.findall(r"\x1b\[1;3([12])m(\d mails?)", line) == [("1", "2 mails"), ("2", "1 mail"), ("2", "1 mail")]


def test_the_call_that_is_run_again_stands_beside_those_that_are_not() -> None:
    assert row(drawn(all_three(), 120), "Run again") == [
        "Run again, whatever it does",
        "Not run again: nobody can know",
        "Not run again: the mail is found",
    ]


def test_an_error_is_shown_as_one() -> None:
    assert "is_error: true" in row(drawn(all_three(), 120), "Sent to a@b.example")[1]


def test_of_a_long_journal_the_first_line_and_the_end_are_shown() -> None:
    many = (*(f"requested {n}" for n in range(9)), "intended   send_email")
    long = replace(incident("unsafe"), saved=many)
    lines = drawn([long] * 3, 120)
    shown = [row(lines, first)[0] for first in ("requested 0", "...", "requested 6", "requested 8", "intended")]
    assert shown == ["requested 0", "... 5 more", "requested 6", "requested 8", "intended   send_email"]


@pytest.mark.parametrize("field", ["answer", "told"])
def test_a_control_of_the_models_text_is_shown_and_not_acted_on(field: str) -> None:
    evil = "\x1b[2J\u202eevil"
    made = incident("unsafe", told=evil) if field == "told" else replace(incident("unsafe"), answer=evil)
    assert row(drawn([made] * 3, 120), r"\x1b")[0] == r"\x1b[2J\u202eevil"
    assert "\x1b" not in telling.told(made)


def test_a_program_that_mailed_twice_is_said_to_have_done_so_whatever_its_name() -> None:
    assert telling.verdict(incident("verifiable", 2)) == "the second one unasked"


def test_a_terminal_without_unicode_gets_bars_of_its_own() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file, width=120, force_terminal=True, color_system=None, _environ={})
    console.print(columns.SideBySide(all_three()))  # an ASCII file takes no other character
    file.flush()


# ---- as text


def test_equal_lines_of_a_journal_are_folded() -> None:
    assert "      settled    read_note, ok (6 times)" in telling.told(incident("unsafe")).splitlines()


def test_the_text_says_what_the_model_was_told_and_that_it_was_an_error() -> None:
    lines = telling.told(all_three()[1]).splitlines()
    at = lines.index("  It told the model of its mail, as an error:")
    assert lines[at + 2].startswith("      Outcome unknown: send_email(")


def test_the_mailboxes_are_shown_mail_by_mail() -> None:
    shown = telling.mailboxes(all_three())
    assert [line.split()[:2] for line in shown.splitlines() if "@example.com>" in line] == [
        ["naive", "1"], ["naive", "2"], ["unsafe", "1"], ["verifiable", "1"],
    ]  # fmt: skip


def test_a_long_text_loses_whole_words_of_its_middle() -> None:
    assert telling.shortened("one two " * 50 + "three four", 8, 11) == "one two [...] three four"


# ---- how to play on


def test_without_keep_the_reader_is_told_of_it() -> None:
    (line,) = telling.play_on(all_three(), Path("/gone"), keep=False)
    assert "demo --keep" in line


def test_each_run_that_is_kept_can_be_shown() -> None:
    commands = telling.play_on(all_three(), Path("/a folder"), keep=True)[1:]
    assert [command.partition(" show ")[2] for command in commands if " show " in command] == [
        "notes-2026-W48 --store 'sqlite:/a folder/unsafe/runs.db'",
        "notes-2026-W48 --store 'sqlite:/a folder/verifiable/runs.db'",
    ]


# ---- the picture


def test_the_picture_shows_the_three_counts() -> None:
    text = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert re.findall(r">(\d mails?)</text>", text) == ["2 mails", "1 mail", "1 mail"]


def test_the_picture_loads_nothing_and_runs_nothing() -> None:
    text = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert re.findall(r"(?:https?://|url\()(?!#)[^)\s\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in text
