"""What a newcomer reads: every command's help, and what the shell completes."""

import re

import pytest
import typer

from cli.using import AGENTS, STORE, User, approval_asked
from midstride.cli import app
from midstride.cli.exits import MEANINGS

COMMANDS = typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Somebody in a folder with one run, whose call `toolu_1_0` waits for an approval."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "agents.py").write_text(AGENTS.read_text())
    user = User(folder)
    approval_asked(user, "notes-48")
    return user


def test_the_help_lists_every_command_whole_and_every_exit_code(reader):
    shown = reader.do("--help").out
    assert "..." not in shown.partition("Commands:")[2]
    for name, command in COMMANDS.items():
        assert f"  {name.ljust(6)}  {command.help.splitlines()[0]}\n" in shown
    for code, meaning in MEANINGS.items():
        assert f"\n    {code.value:>2}  {meaning}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_says_what_it_does_what_it_takes_and_shows_it(name, reader):
    ended = reader.do_forked(name, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: midstride {name} ")
    assert max(map(len, ended.out.splitlines())) <= 100
    assert re.fullmatch(r"[A-Z][^.]*\.", COMMANDS[name].help.split("\n\n")[0])
    for parameter in COMMANDS[name].params:
        assert parameter.name == "help" or parameter.help, parameter.name
    assert name == "demo" or f"  midstride {name}" in ended.out
    assert "--traceback" in ended.out
    assert "\b" not in ended.out


def test_every_command_but_export_has_json():
    with_json = {name for name, command in COMMANDS.items() if any("--json" in p.opts for p in command.params)}
    assert set(COMMANDS) - with_json == {"export"}


def test_every_command_takes_a_store_but_those_that_use_none():
    with_store = {name for name, command in COMMANDS.items() if any("--store" in p.opts for p in command.params)}
    assert set(COMMANDS) - with_store == {"demo", "check", "repair"}


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_the_shell_is_printed(reader, shell):
    ended = User(reader.folder, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").do("--show-completion", shell)
    assert ended.code == 0
    assert "_MIDSTRIDE_COMPLETE" in ended.out


def completed(user, line):
    """Return what bash offers for the last word of *line*."""
    words = line.split(" ")
    user = User(user.folder, _MIDSTRIDE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    ended = user.do_forked()
    return ended.out.split(), ended.err


def test_commands_runs_and_calls_are_completed(reader):
    assert completed(reader, "midstride res") == (["resume"], "")
    assert completed(reader, "midstride show no") == (["notes-48"], "")
    assert completed(reader, "midstride show x") == ([], "")
    assert completed(reader, "midstride decide notes-48 ") == (["toolu_1_0"], "")
    assert completed(reader, "midstride show --store sqlite:none.db ") == ([], "")


def test_a_store_that_is_open_to_others_is_completed_in_silence(user):
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "notes-49")
    (user.folder / STORE).chmod(0o644)
    assert "is open to every user" in user.do_forked("runs").err
    assert completed(user, "midstride show ") == (["notes-49"], "")


def test_a_store_that_cannot_be_read_offers_nothing_and_says_nothing(user):
    (user.folder / ".midstride").mkdir()
    (user.folder / ".midstride/runs.db").write_bytes(b"These are my notes. " * 100)
    assert completed(user, "midstride show ") == ([], "")
