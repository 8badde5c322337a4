"""What a person can do wrong: one line that helps, the documented exit code, and nothing is changed."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from cli.agents import hello
from cli.using import AGENTS, STORE, User
from stores.places import as_another_user, fill, on_a_small_disk, open_folder

RUN = ("run", "agents.py:hello", "--task", "t")


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A folder with two runs, `notes-48`, done, and `in-doubt`, for commands that change nothing."""
    folder = tmp_path_factory.mktemp("there")
    shutil.copy(AGENTS, folder / "agents.py")
    user = User(folder)
    (folder / "send.kill").touch()
    user.do_forked("run", "agents.py:mail", "--task", "t", "--id", "in-doubt")
    user.do_forked("resume", "in-doubt")
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "notes-48")
    (folder / "broken.py").write_text("import nothing_like_that\n")
    (folder / "wrong.py").write_text("agent = (\n")
    (folder / "leaves.py").write_text("print('NOISE')\nraise SystemExit(7)\n")
    (folder / "package.json").write_text('{"name": "my package"}')
    (folder / "notes.txt").write_text("These are my notes.")
    (folder / "cut.jsonl").write_text('{"midstride": {"format": 1, "run": "x", "length": 3}}\n')
    (folder / "newer.jsonl").write_text('{"midstride": {"format": 7, "run": "x", "length": 3}}\n')
    (folder / "headless.jsonl").write_text('{"midstride": {}}\n')
    return user


WRONG = {
    # an id that is not there
    ("show", "notes-84"): "there is no run 'notes-84' in sqlite:.midstride/runs.db; did you mean 'notes-48'?",
    ("resume", "zzz"): "there is no run 'zzz' in sqlite:.midstride/runs.db; it has 2: midstride runs",
    ("plan", "zzz"): "there is no run 'zzz' in sqlite:.midstride/runs.db; it has 2: midstride runs",
    ("log", "notes"): "there is no run 'notes' in sqlite:.midstride/runs.db; did you mean 'notes-48'?",
    ("doubts", "in-dubt"): "there is no run 'in-dubt' in sqlite:.midstride/runs.db; did you mean 'in-doubt'?",
    ("say", "zzz", "x"): "there is no run 'zzz'",
    ("cancel", "zzz"): "there is no run 'zzz'",
    ("extend", "zzz", "--turns", "3"): "there is no run 'zzz'",
    ("export", "zzz"): "there is no run 'zzz'",
    ("decide", "zzz", "c", "--rerun"): "there is no run 'zzz'",
    ("show", "notes-48", "--turn", "9"): "the run has no turn 9; it has 1",
    ("show", "in-doubt", "--call", "zzz"): "the run has no call 'zzz'; it has toolu_1_0, toolu_2_0",
    # an id that nobody could use
    (*RUN, "--id", ""): "'' is no id for a run: give some letters, on one line",
    (*RUN, "--id", "a\nb"): "'a\\nb' is no id for a run: give some letters, on one line",
    (*RUN, "--id", "\x1b[31m"): "'\\x1b[31m' is no id for a run: give some letters, on one line",
    (*RUN, "--id", b"caf\xe9"): "the run's id is no UTF-8: b'caf\\xe9'",
    ("show", b"caf\xe9"): "the run's id is no UTF-8: b'caf\\xe9'",
    # a text that says nothing
    ("run", "agents.py:hello", "--task", " "): "--task is empty: give some text",
    ("run", "agents.py:hello", "--task", b"\xff"): "--task is no UTF-8: b'\\xff'",
    ("say", "notes-48", ""): "TEXT is empty: give some text",
    ("decide", "in-doubt", "toolu_2_0", "--happened", " "): "--happened is empty: give some text",
    # a TARGET that is none
    ("run", "agents.py", "--task", "t"): "'agents.py' is no TARGET: wanted module:agent or path/to/file.py:agent",
    ("run", "none.py:agent", "--task", "t"): "none.py:agent cannot be used: there is no file /",
    ("run", "nowhere:agent", "--task", "t"): (
        "nowhere:agent cannot be imported: ModuleNotFoundError: No module named 'nowhere'"
    ),
    ("run", "agents:agent", "--task", "t"): "agents has no 'agent'; its agents are: mail, letter, film, payment, ",
    ("run", "agents.py:no_agent", "--task", "t"): "agents.py:no_agent is a str, wanted a midstride.Agent",
    ("run", "json:agent", "--task", "t"): "json has no 'agent'; it holds no agent",
    ("run", "broken.py:agent", "--task", "t"): "broken.py:agent cannot be imported: ModuleNotFoundError: No module ",
    ("run", "wrong.py:agent", "--task", "t"): "wrong.py:agent cannot be imported: SyntaxError: '(' was never closed",
    ("run", "leaves.py:agent", "--task", "t"): (
        "leaves.py:agent cannot be imported: it ends the process (exit 7); put what it runs under `if __name__ == "
    ),
    ("resume", "notes-48", "none.py:agent"): "none.py:agent cannot be used: there is no file /",
    ("plan", "notes-48", "none.py:agent"): "none.py:agent cannot be used: there is no file /",
    # a store that is none
    ("runs", "--store", "runs.db"): "'runs.db' is no store URL: wanted sqlite:PATH, checkpoint:PATH (one run, the ",
    ("runs", "--store", ""): "--store is empty: give sqlite:PATH or checkpoint:PATH, or leave it out",
    ("runs", "--store", "sqlite://x"): "the store URL 'sqlite://x' has slashes before its path: write sqlite:PATH",
    ("run", "agents.py:in_memory", "--task", "t"): "a memory: store is gone with this process, so nothing could be ",
    ("show", "notes-48", "--store", "sqlite:none.db"): (
        "there is no run 'notes-48' in sqlite:none.db; it has no runs at all: is it the right --store?"
    ),
    # another task under an id that is taken
    ("run", "agents.py:hello", "--task", "other", "--id", "notes-48"): "run 'notes-48' is about another task: it was ",
    # a decision that does not fit
    (
        "decide",
        "in-doubt",
        "toolu_1_0",
        "--rerun",
    ): "the run has no call toolu_1_0 to decide about; in doubt: toolu_2_0",
    ("decide", "in-doubt", "zzz", "--rerun"): "the run has no call zzz to decide about; in doubt: toolu_2_0",
    ("decide", "in-doubt", "toolu_2_0"): "give one of --happened TEXT, --rerun, --unknown, --approve, --deny",
    ("decide", "in-doubt", "toolu_2_0", "--rerun", "--unknown"): "give one of --happened TEXT, --rerun, --unknown",
    ("decide", "in-doubt", "toolu_2_0", "--rerun", "--approve"): "give one of --happened TEXT, --rerun, --unknown",
    ("cancel", "notes-48"): "a run that is done has no room for 'cancelled'; nothing was written",
    ("extend", "notes-48", "--turns", "3"): "a run that is done has no room for 'extended'; nothing was written",
    ("extend", "notes-48"): "give at least one of --turns, --tokens, --seconds, --cost",
    # one run, or all
    ("resume",): "give one run, or --all (midstride runs lists them)",
    ("resume", "notes-48", "--all"): "give one run, or --all (midstride runs lists them)",
    # runs to be removed
    ("gc",): "give --older-than AGE, as in 30d, or the runs by their ids",
    ("gc", "notes-48", "--older-than", "1d"): "a RUN that is named is removed whatever its age: leave out --older-than",
    ("gc", "notes-48", "--keep", "1"): "a RUN that is named is removed whatever its age: leave out --older-than",
    ("gc", "--forget"): "--forget is for runs that are named: give their ids",
    ("gc", "--older-than", "1d", "--forget"): "--forget is for runs that are named: give their ids",
    ("gc", "--older-than", "a month"): "--older-than 'a month' is no age: wanted a whole number with m, h, d or w",
    ("gc", "notes-48", "notes-84"): "there is no run 'notes-84' in sqlite:.midstride/runs.db; did you mean 'notes-48'?",
    ("gc", "notes-48", b"caf\xe9"): "the run's id is no UTF-8: b'caf\\xe9'",
    # a file that is none
    ("import", "none.json"): "there is no file none.json",
    ("import", "."): ". is a folder: wanted a checkpoint.json or an exported journal",
    ("import", "agents.py", "--id", ""): "'' is no id for a run: give some letters, on one line",
    ("export", "notes-48", "--as", "yaml"): "--as yaml is no form: wanted checkpoint, journal, messages",
    ("export", "notes-48", "--out", "agents.py"): "agents.py is there already, and is not overwritten: give another ",
}

UNREADABLE = {
    ("import", "package.json"): "is no checkpoint: wanted an object with the fields version, task, turns, ",
    ("plan", "package.json"): "is no checkpoint: wanted an object with the fields version, task, turns, ",
    ("import", "notes.txt"): "is cut or damaged (Expecting value",
    ("plan", "notes.txt"): "is cut or damaged (Expecting value",
    ("import", "cut.jsonl"): "cut.jsonl holds 0 entries where its first line says 3: it was cut",
    ("import", "newer.jsonl"): "newer.jsonl is format 7, this code reads format 1: use a newer midstride",
    ("import", "headless.jsonl"): "headless.jsonl: its first line is none of an exported journal: wanted format, run ",
    ("export", "notes-48", "--out", "none/x.json"): "none/x.json could not be written (No such file or directory)",
}


def refused(user, words, code, said):
    """Do what is wrong: one line with these words on standard error, and not one entry or file is changed."""
    before, files = user.journals(), {p for p in user.files() if ".midstride" not in p.parts}
    ended = user.do_forked(*words)
    assert (ended.code, ended.out) == (code, "")
    lines = [line for line in ended.err.splitlines() if line != "NOISE"]
    assert len(lines) == 1, ended.err
    assert lines[0].startswith("midstride: ")
    assert said in lines[0]
    assert (user.journals(), {p for p in user.files() if ".midstride" not in p.parts}) == (before, files)


def named(words):
    return " ".join(w if isinstance(w, str) else repr(w) for w in words)


@pytest.mark.parametrize("words", WRONG, ids=named)
def test_bad_input_ends_with_2_and_a_line_that_helps(words, there):
    refused(there, words, 2, WRONG[words])


@pytest.mark.parametrize("words", UNREADABLE, ids=named)
def test_a_file_that_cannot_be_used_ends_with_9_and_a_line_that_helps(words, there):
    refused(there, words, 9, UNREADABLE[words])


OPTIONS = {
    ("decide", "in-doubt", "toolu_2_0", "--happened"): "Option '--happened' requires an argument.",
    ("run", "agents.py:hello"): "Missing option '--task'.",
    ("show",): "Missing argument 'RUN'.",
    ("extend", "notes-48", "--turns", "0"): "'--turns': Input should be greater than or equal to 1",
    ("show", "notes-48", "--turn", "x"): "'--turn': Input should be a valid integer",
    ("gc", "--older-than", "1d", "--keep", "-1"): "'--keep': Input should be greater than or equal to 0",
    ("gc", "--older-than", "1d", "--keep", "x"): "'--keep': Input should be a valid integer",
    ("gc", "--older-than"): "Option '--older-than' requires an argument.",
    ("runs", "--nothing"): "No such option: --nothing",
    ("rums",): "No such command 'rums'. Did you mean 'runs'",
}


@pytest.mark.parametrize("words", OPTIONS, ids=named)
def test_a_wrong_option_ends_with_2_and_names_it(words, there):
    ended = there.do_forked(*words)
    assert (ended.code, ended.out) == (2, "")
    assert OPTIONS[words] in ended.err.splitlines()[-1]


def test_nothing_is_made_where_there_is_nothing(user):
    for words in [("runs",), ("doubts",), ("show", "x"), ("say", "x", "y"), ("resume", "--all"), ("decide", "x", "y")]:
        user.do_forked(*words)
    assert sorted(os.listdir(user.folder)) == ["agents.py"]


def test_a_run_of_ones_own_program_says_that_a_target_is_missing(user):
    replace(hello, store=f"sqlite:{user.folder / STORE}").run("t", "r")
    ended = user.do_forked("resume", "r")
    assert ended.code == 2
    assert ended.err == (
        "midstride: run 'r' was not started by `midstride run`, so its program is not known: give TARGET, as "
        "module:agent or path/to/file.py:agent, or run its own program again\n"
    )


def test_a_stored_target_that_is_gone_is_named(user):
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r")
    (user.folder / "agents.py").rename(user.folder / "moved.py")
    ended = user.do_forked("resume", "r")
    path = user.folder / "agents.py"
    assert ended.code == 2
    assert ended.err == (
        f"midstride: run 'r' was last driven with {path}:hello, but {path}:hello cannot be used: there is no file "
        f"{path}; give TARGET\n"
    )
    assert user.do_forked("resume", "r", "moved.py:hello").out == "Hello.\n"


def test_a_lessons_checkpoint_without_a_target_is_not_imported(user):
    checkpoint = {"version": 1, "task": "t", "turns": 0, "tokensUsed": 0, "messages": [], "pendingToolUse": None}
    (user.folder / "checkpoint.json").write_text(json.dumps(checkpoint))
    refused(user, ("import", "checkpoint.json"), 2, "give TARGET, the agent that is to carry it on")


def test_a_journal_that_is_damaged_hides_no_other_run(user):
    for name in ("one", "two"):
        user.do_forked("run", "agents.py:hello", "--task", "t", "--id", name)
    user.do_forked("say", "one", "And now?")  # a run that is over is looked into by `verify` alone
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute("delete from midstride_entries where run = 1 and seq = 2")
    listed = user.do_forked("runs")
    assert listed.code == 9
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["one", "unread"], ["two", "done"]]
    doubted = user.do_forked("doubts")
    assert (doubted.code, doubted.out) == (9, "")
    assert doubted.err.splitlines()[0].endswith("entry 2 is missing; the journal was left as it is")
    resumed = user.do_forked("resume", "--all", "--json")
    assert [(row["run"], row["exit"]) for row in json.loads(resumed.out)] == [("one", 9)]
    assert resumed.code == 9


def test_a_store_of_another_user_is_one_line():
    with open_folder() as folder:
        shutil.copy(AGENTS, folder / "agents.py")
        user = User(folder)
        user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r")
        (folder / ".midstride").chmod(0o755)
        as_another_user(lambda: store_refused(user))


def store_refused(user):
    for words in (("runs",), ("resume", "r"), ("say", "r", "more"), ("run", "agents.py:hello", "--task", "t")):
        ended = user.do_forked(*words)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (9, "", 1), ended
        assert f"by user {os.geteuid()}" in ended.err


def test_a_disk_that_is_full_is_one_line_and_the_run_carries_on(user, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")

    def work():
        shutil.copy(AGENTS, folder / "agents.py")
        here = User(folder)
        here.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r")
        fill(folder / "ballast", leave=0)
        for words in (("say", "r", "more"), ("run", "agents.py:mail", "--task", "t" * 40_000)):
            ended = here.do_forked(*words)
            assert (ended.code, ended.out, len(ended.err.splitlines())) == (9, "", 1), ended
            assert "the disk is full: nothing was written" in ended.err
        exported = here.do_forked("export", "r", "--out", "r.json")
        assert (exported.code, (folder / "r.json").exists()) == (9, False)
        (folder / "ballast").unlink()
        assert here.do_forked("resume", "r").out == "Hello.\n"

    on_a_small_disk(folder, work, size="2m")
