"""A store that is checked, what can be saved of a damaged one, and a run that came back from a backup."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from cli.using import STORE
from midstride.core.journal import Taken, head_of, seal


@pytest.fixture
def two_runs(user):
    """Somebody with two runs, the first of which is damaged in its fourth entry."""
    for name in ("one", "two"):
        user.do_forked("run", "agents.py:hello", "--task", "t", "--id", name)
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute(
            "update midstride_entries set body = replace(body, 'end_turn', 'ond_turn') where run = 1 and seq = 4"
        )
    return user


def test_a_journal_as_it_was_written_is_whole(two_runs):
    ended = two_runs.do_forked("verify", "two")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split() for line in ended.out.splitlines()] == [
        ["run", "whole", "entries", "damage"], ["two", "4", "none"],
    ]  # fmt: skip


def test_damage_is_located_and_the_whole_part_offered(two_runs):
    before = (two_runs.folder / STORE).read_bytes()
    ended = two_runs.do_forked("verify", "--all")
    assert ended.code == 9
    one, two = ended.out.splitlines()[1:]
    assert one.split()[:2] == ["one", "3"]
    assert "entry 4 is not as it was written (its digest differs)" in one
    assert two.split() == ["two", "4", "none"]
    assert ended.err == "  its whole part can be written out: midstride export one --as journal -o FILE\n"
    assert (two_runs.folder / STORE).read_bytes() == before


def test_the_facts_of_a_check_are_json(two_runs):
    facts = json.loads(two_runs.do_forked("verify", "--all", "--json").out)
    assert (facts["faults"], [one["entries"] for one in facts["runs"]]) == ([], [3, 4])
    assert [bool(one["damage"]) for one in facts["runs"]] == [True, False]


def test_what_is_verified_must_be_there(two_runs):
    assert two_runs.do_forked("verify", "tvo").err.startswith("midstride: there is no run 'tvo' in ")
    assert two_runs.do_forked("verify").code == 2
    assert two_runs.do_forked("verify", "one", "--all").code == 2


def test_an_empty_store_is_whole(user):
    ended = user.do_forked("verify", "--all")
    assert (ended.code, ended.out, ended.err.startswith("there are no runs in ")) == (0, "", True)


def test_a_database_with_damaged_pages_is_told(user):
    """A page of an index nobody reads from is overwritten: no journal is damaged, and the database is."""
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "one")
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute("create table seats (n)")
        connection.execute("create index seat on seats (n)")
        connection.executemany("insert into seats values (?)", [(n,) for n in range(100)])
        (page,) = connection.execute("select rootpage from sqlite_master where name = 'seat'").fetchone()
    with open(user.folder / STORE, "r+b") as file:
        file.seek((page - 1) * 16384 + 16000)
        file.write(b"\x55" * 100)
    ended = user.do_forked("verify", "--all", "--json")
    facts = json.loads(ended.out)
    assert (ended.code, [one["damage"] for one in facts["runs"]]) == (9, [None])
    assert facts["faults"]


@pytest.mark.parametrize("form", ["journal", "checkpoint", "messages"])
def test_the_part_before_the_damage_is_exported(two_runs, form):
    ended = two_runs.do_forked("export", "one", "--as", form, "--out", "saved")
    assert ended.code == 9
    assert "one: only the 3 entries before the damage were written: " in ended.err
    if form == "journal":
        assert two_runs.do_forked("import", "saved", "--id", "three").code == 0
        with two_runs.runs() as runs:
            assert [entry.body.kind for entry in runs.store.read("three")] == ["started", "taken", "requested"]


def test_a_damaged_checkpoint_gives_its_whole_part(user):
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "one", "--store", "checkpoint:run.json")
    path = user.folder / "run.json"
    (user.folder / "run.json.prev").unlink()
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"responded") - 20])
    ended = user.do_forked("export", "one", "--as", "journal", "--store", "checkpoint:run.json")
    assert ended.code == 9
    assert [json.loads(line)["entry"]["kind"] for line in ended.out.splitlines()[1:]] == [
        "started", "taken", "requested",
    ]  # fmt: skip
    verified = json.loads(user.do_forked("verify", "one", "--json", "--store", "checkpoint:run.json").out)
    assert (verified["runs"][0]["entries"], len(verified["faults"])) == (3, 1)


# ---- a backup


@pytest.mark.parametrize(("every", "sent"), [(False, ["ann"]), (True, ["ann"])])
def test_a_run_from_a_backup_does_nothing_twice(user, every, sent):
    """The backup was made behind the answer and before the intent; the mail went out afterwards."""
    (user.folder / "post.kill").touch()
    user.do("run", "agents.py:letter", "--task", "t", "--id", "r")
    (user.folder / "post.kill").unlink()
    assert user.kinds("r")[-1] == "intended"
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute("delete from midstride_entries where seq > 4")
    ended = user.do_forked("resume", *(["--all"] if every else ["r"]), "--restored")
    assert (ended.code, user.sent()) == (0, sent), ended.err
    shown = user.do_forked("show", "r").out
    assert "Outcome unknown" in shown


def test_without_being_told_a_backup_is_believed(user):
    (user.folder / "post.kill").touch()
    user.do("run", "agents.py:letter", "--task", "t", "--id", "r")
    (user.folder / "post.kill").unlink()
    shutil.copy(user.folder / STORE, user.folder / "copy.db")
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute("delete from midstride_entries where seq > 4")
    assert user.do_forked("resume", "r").code == 0
    assert user.sent() == ["ann", "ann"]


# ---- a crash loop


def test_a_held_run_says_why_in_the_list(user):
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r")
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute("delete from midstride_entries where seq > 3")
    with user.runs() as runs:
        crash_in_a_row(runs.store, 4)
    ended = user.do_forked("runs")
    assert ended.out.splitlines()[1].split()[:2] == ["r", "held"]
    assert ended.err == (
        "  r is held: it was taken up 4 times in a row without progress, the last time while the model was asked: "
        "something ends it every time\n"
    )
    assert user.do_forked("resume", "r", "agents.py:hello").code == 5
    assert user.do_forked("resume", "r", "agents.py:hello", "--force").out == "Hello.\n"


def crash_in_a_row(store, times):
    """Append what so many processes leave that take the run up and die."""
    for token in range(2, 2 + times):
        entries = seal([Taken(token, "host", 1, clean=False)], head_of(store.read("r")), 1_790_000_000.0)
        store.append("r", entries, token=token)
