"""`python -m midstride.demo`, with --json and on a terminal."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo.scenes import Command, Terminal
from midstride.demo.__main__ import main


def test_the_command_counts_two_mails_one_and_one(command: Command) -> None:
    counts = {name: part["mails"] for name, part in command.facts.items()}
    assert counts == {"naive": 2, "unsafe": 1, "verifiable": 1}


def test_the_command_ends_well_and_in_silence(command: Command) -> None:
    assert (command.returncode, command.errors) == (0, "")


def test_the_command_leaves_nothing_behind(command: Command) -> None:
    assert [list(folder.iterdir()) for folder in command.folders] == [[], []]


def test_a_demo_that_fails_says_so_and_keeps_what_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert main(["--json", "--keep"]) == 1
    kept, failure = re.fullmatch(r"kept: (.+)\n(.+)\n\n", capsys.readouterr().err).groups()  # type: ignore[union-attr]
    assert failure == "the program sent no mail; it printed:"
    assert sorted(path.name for path in Path(kept).iterdir()) == ["naive", "unsafe", "verifiable"]


# ---- on a terminal


def test_a_terminal_shows_the_counts_side_by_side(terminal: Terminal) -> None:
    (line,) = [line for line in terminal.lines if line.startswith(" 2 mails")]
    assert re.findall(r"\d mails?", line) == ["2 mails", "1 mail", "1 mail"]
    assert terminal.returncode == 0


def test_a_line_says_what_each_program_is_at_while_it_plays(terminal: Terminal) -> None:
    assert any("naive killed, run again" in line for line in terminal.lines)


def test_the_commands_to_play_on_work(terminal: Terminal) -> None:
    at = terminal.lines.index("Play on with the runs that were kept:")
    commands = [line.strip() for line in terminal.lines[at + 1 :] if line.startswith("  ")]
    ended = [subprocess.run(command, shell=True, capture_output=True, text=True) for command in commands]
    assert [shown.returncode for shown in ended] == [0, 0, 0, 0], ended
