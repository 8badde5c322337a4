"""`midstride gc`: what it removes and what it leaves, what it says, and what is left of a run that is gone."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from cli.using import STORE, approval_asked
from midstride import Runs
from midstride.core.journal import Said
from midstride.stores import SqliteStore
from midstride.testing import SettableClock
from midstride.testing.conformance import AT, add, begin


def done(user, run_id, agent="hello"):
    assert user.do_forked("run", f"agents.py:{agent}", "--task", "t", "--id", run_id).code == 0


def in_doubt(user, run_id="doubtful"):
    (user.folder / "send.kill").touch()
    user.do_forked("run", "agents.py:mail", "--task", "t", "--id", run_id)
    (user.folder / "send.kill").unlink()
    assert user.do_forked("resume", run_id).code == 3


def old_run(user, run_id, words=1, size=10):
    """Make a run that ended years ago."""
    with closing(SqliteStore(user.folder / STORE)) as store:
        head = begin(store, run_id)
        for _ in range(words):
            head = add(store, head, Said("x" * size), token=1, run_id=run_id)
        Runs(store, clock=SettableClock(AT)).cancel(run_id)


def test_old_runs_are_removed_and_young_ones_left(user):
    old_run(user, "old")
    done(user, "young")
    dry = user.do_forked("gc", "--older-than", "30d", "--dry-run")
    first, summary = dry.out.splitlines()
    assert first.startswith("would remove old  cancelled  5 entries  ")
    assert first.endswith("  last 2023-11-14 22:13:20 UTC")
    assert summary.startswith("1 run would be removed: 5 entries, ")
    assert sorted(user.journals()) == ["old", "young"]
    ended = user.do_forked("gc", "--older-than", "30d")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("1 run removed: 5 entries, ")
    assert sorted(user.journals()) == ["young"]
    assert user.do_forked("gc", "--older-than", "30d").out == "nothing was removed\n"
    assert [line.split()[0] for line in user.do_forked("runs").out.splitlines()] == ["run", "young"]


def test_no_run_that_somebody_has_to_look_at_goes_unless_it_is_named(user):
    in_doubt(user)
    approval_asked(user, "approval")
    done(user, "over")
    user.do_forked("run", "agents.py:capped", "--task", "t", "--id", "capped")
    assert user.do_forked("gc", "--older-than", "0m").code == 0
    assert sorted(user.journals()) == ["approval", "capped", "doubtful"]
    ended = user.do_forked("gc", "doubtful", "approval", "capped")
    assert ended.code == 0
    assert ended.out.splitlines()[0].startswith("doubtful: was waiting (toolu_2_0 in doubt): ")
    assert ended.out.splitlines()[1].startswith("approval: was waiting (toolu_1_0 not approved): ")
    assert ended.out.splitlines()[2].startswith("capped: was capped: ")
    assert ended.out.splitlines()[3].startswith("3 runs removed: ")
    assert user.journals() == {}


def test_a_removed_run_is_not_begun_anew_unless_it_is_forgotten(user):
    done(user, "r", "letter")
    user.do_forked("gc", "r")
    for words in (
        ("run", "agents.py:letter", "--task", "t", "--id", "r"),
        *((name, "r") for name in ("resume", "show", "log", "plan", "doubts", "cancel", "export", "verify", "gc")),
        ("say", "r", "more"),
        ("extend", "r", "--turns", "3"),
        ("decide", "r", "c", "--rerun"),
    ):
        refused = user.do_forked(*words)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1), words
        assert "midstride: run 'r' was removed at 2" in refused.err, words
        assert "forget this one (midstride gc r --forget)" in refused.err
    assert user.sent() == ["ann"]
    assert user.do_forked("gc", "r", "--forget", "--dry-run").out.startswith(
        "would forget r  removed  0 entries  0 B\n"
    )
    forgotten = user.do_forked("gc", "r", "--forget")
    assert forgotten.out.startswith("1 run removed and forgotten: 0 entries, ")
    done(user, "r", "letter")
    assert user.sent() == ["ann", "ann"]


def test_a_run_is_removed_and_forgotten_at_once(user):
    done(user, "r")
    assert user.do_forked("gc", "r", "--forget").code == 0
    assert user.do_forked("show", "r").err.startswith("midstride: there is no run 'r'")
    done(user, "r")


def test_a_run_that_a_living_process_drives_is_left_and_the_others_go(user):
    gate = user.gate("send")
    driver = user.start("run", "agents.py:mail", "--task", "t", "--id", "driven", "--grace", "0")
    gate.arrived()
    done(user, "over")
    try:
        assert user.do_forked("gc", "--older-than", "0d").code == 0
        assert list(user.journals()) == ["driven"]
        done(user, "another")
        for more in (("--dry-run",), ()):
            ended = user.do_forked("gc", "driven", "another", *more)
            assert (ended.code, list(user.journals())) == (7, ["driven", "another"] if more else ["driven"])
            assert f"driven: run 'driven' is held by pid {driver.pid} on " in ended.err
    finally:
        driver.kill()
        driver.communicate()


def test_the_newest_are_spared(user):
    for run_id in "abc":
        old_run(user, run_id)
    assert user.do_forked("gc", "--older-than", "30d", "--keep", "2").code == 0
    assert sorted(user.journals()) == ["b", "c"]


def test_a_damaged_run_is_told_of_and_left_unless_it_is_named(user):
    for run_id in "ab":
        old_run(user, run_id)
    with closing(sqlite3.connect(user.folder / STORE)) as connection, connection:
        connection.execute("delete from midstride_entries where run = 1 and seq = 2")
    ended = user.do_forked("gc", "--older-than", "30d")
    assert (ended.code, ended.out.split(",")[0]) == (9, "1 run removed: 5 entries")
    assert "entry 2 is missing" in ended.err
    assert "the run was left, and is removed when it is named" in ended.err
    named = user.do_forked("gc", "a")
    assert (named.code, named.out.startswith("a: was unread: ")) == (0, True)
    assert user.journals() == {}


def test_space_is_returned_to_the_disk_and_measured(user):
    old_run(user, "large", words=300, size=20_000)
    done(user, "small")
    before = sum(path.stat().st_size for path in (user.folder / ".midstride").iterdir() if path.name != "runs.db.lock")
    facts = json.loads(user.do_forked("gc", "--older-than", "30d", "--json").out)
    after = (user.folder / STORE).stat().st_size
    assert facts["space"]["before"] == before
    assert (facts["space"]["after"], facts["space"]["freed"]) == (after, before - after)
    assert after < 500_000 < 6_000_000 < before
    assert [(row["run"], row["entries"]) for row in facts["runs"]] == [("large", 304)]
    assert facts["runs"][0]["size"] > 6_000_000


def test_the_size_of_a_run_is_shown(user):
    old_run(user, "large", words=3, size=20_000)
    done(user, "small")
    header, large, small = user.do_forked("runs").out.splitlines()
    assert "  size " in header
    assert ("  60.7 kB  " in large, "kB" in small) == (True, True)
    rows = json.loads(user.do_forked("runs", "--json").out)
    assert [row["size"] for row in rows] == [sum(map(len, user.journals()[name])) for name in ("large", "small")]


def test_looking_for_something_to_remove_makes_nothing(user):
    assert user.do_forked("gc", "--older-than", "30d").out == "nothing was removed\n"
    assert sorted(os.listdir(user.folder)) == ["agents.py"]


def test_a_store_of_one_run_says_what_to_delete(user):
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r", "--store", "checkpoint:c.json")
    for words in (("--older-than", "30d"), ("r",)):
        ended = user.do_forked("gc", *words, "--store", "checkpoint:c.json")
        assert (ended.code, ended.out) == (2, "")
        assert "checkpoint:c.json holds one run: delete the file" in ended.err


@pytest.mark.parametrize("age", ["", "30", "d", "-1d", "30 d", "1.5h", "30s", "30D", "\u0663d", "1h30m", "9999999d"])
def test_an_age_that_is_none_is_refused(user, age):
    ended = user.do_forked("gc", f"--older-than={age}")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"midstride: --older-than {age!r} is no age: wanted a whole number with m, h, d or w, as 90m, 12h, 30d or 2w\n"
    )
