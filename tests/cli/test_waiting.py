"""Runs that wait for another side, at the command line: when to look again, asking what is due, waiting for it."""

import json
import re
import signal

import pytest

from cli.using import end_of, wait_for

RUN = ("agents.py:film", "--task", "t", "--id", "r")
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
AGAIN = f"accepted, to be asked again at {TIME}"


@pytest.fixture
def stands(user):
    """Say how the film stands: "done", or in how many seconds to ask again."""
    file = user.folder / "render.stands"
    return file.write_text


def row(user):
    (facts,) = json.loads(user.do_forked("runs", "--json").out)
    return facts


def test_a_run_that_waits_says_when_to_look_again(user, stands):
    stands("86400")
    ended = user.do_forked("run", *RUN)
    assert (ended.code, ended.out, user.sent()) == (3, "", ["Alps"])
    told = ended.err.splitlines()
    assert re.search(rf'r: waiting, 1 turn, .* render\(\{{"film": "Alps"\}}\) \({AGAIN}\)$', told[-3])
    assert told[-2:] == [
        "  ask at that time with: midstride resume r",
        "  ask at once with: midstride resume r --force",
    ]
    facts = row(user)
    assert (facts["status"], facts["doubts"], facts["approvals"]) == ("waiting", [], [])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT.*Z", facts["again_at"])


def test_the_commands_that_look_say_it_in_words(user, stands):
    stands("86400")
    user.do_forked("run", *RUN)
    assert re.search(rf"  r is waiting: .*{AGAIN}", user.do_forked("runs").err)
    assert re.search(rf"^r  waiting: .*{AGAIN}", user.do_forked("show", "r").out)
    assert re.search(
        rf"a resume would ask later how it stands .*: the other side has it: {AGAIN}", user.do_forked("plan", "r").out
    )
    log = user.do_forked("log", "r").out.splitlines()
    assert re.search(rf'accepted   turn 1 call 0: \{{"job": 7\}} \(to be asked again at {TIME}\)', log[-1])
    assert user.do_forked("doubts", "--fail-if-any").code == 0
    (call,) = json.loads(user.do_forked("plan", "r", "--json").out)["calls"]
    assert (call["state"], call["handle"], call["move"]) == ("accepted", {"job": 7}, "ask later how it stands")
    assert call["not_before"] == call["again_at"] == row(user)["again_at"]


def test_a_resume_before_its_time_asks_nobody_and_force_asks_at_once(user, stands):
    stands("86400")
    user.do_forked("run", *RUN)
    kinds = user.kinds("r")
    assert (user.do_forked("resume", "r").code, user.kinds("r")) == (3, kinds)
    stands("done")
    ended = user.do_forked("resume", "r", "--force")
    assert (ended.code, ended.out) == (0, "Rendered.\n")
    assert 'render({"film": "Alps"})  unsafe  ok, polled  toolu_1_0' in ended.err
    assert user.sent() == ["Alps"]


def test_resume_all_asks_what_is_due_and_reports_the_rest(user, stands):
    stands("0.001")
    user.do_forked("run", *RUN)
    stands("86400")
    user.do_forked("run", *RUN[:-1], "later")
    stands("done")
    ended = user.do_forked("resume", "--all")
    assert (ended.code, ended.out) == (3, "Rendered.\n")
    assert re.search(rf"^later: waiting\. .*{AGAIN}", ended.err, re.MULTILINE)
    rows = json.loads(user.do_forked("resume", "--all", "--json").out)
    assert [(one["run"], one["status"], one["exit"], one["error"]) for one in rows] == [("later", "waiting", 3, None)]
    assert user.sent() == ["Alps", "Alps"]


def test_a_due_run_is_told_as_waiting_for_a_resume(user, stands):
    stands("0.001")
    user.do_forked("run", *RUN)
    facts = row(user)
    assert (facts["status"], facts["why"].split(":")[0]) == ("waiting", "a resume asks the other side how it stands")
    assert "a resume would ask how it stands" in user.do_forked("plan", "r").out


def test_nobody_decides_about_what_another_side_has(user, stands):
    stands("86400")
    user.do_forked("run", *RUN)
    ended = user.do_forked("decide", "r", "toolu_1_0", "--happened", "yes")
    assert ended.code == 2
    assert "needs no decision, the other side has it" in ended.err


def test_wait_asks_again_in_time_until_it_is_done(user, stands):
    stands("0.01")
    with user.start("run", *RUN, "--wait") as process:
        wait_for(process, "accepted, to be asked again")
        wait_for(process, "accepted, to be asked again")
        stands("done")
        ended = end_of(process)
    assert (ended.code, ended.out, user.sent()) == (0, "Rendered.\n", ["Alps"])


def test_who_waits_hears_a_word_of_somebody_else(user, stands):
    stands("86400")
    user.do_forked("run", *RUN)
    with user.start("resume", "r", "--wait") as process:
        wait_for(process, "r: waiting. ")
        user.do_forked("cancel", "r", "--reason", "never mind")
        assert end_of(process).code == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_waits_holds_nothing_and_a_signal_ends_it(user, stands, number):
    stands("86400")
    user.do_forked("run", *RUN)
    with user.start("resume", "r", "--wait") as process:
        wait_for(process, "r: waiting. ")
        assert row(user)["status"] == "waiting"
        process.send_signal(number)
        ended = end_of(process)
    assert ended.code == 8
    assert ended.err.endswith("the other side goes on; ask again with: midstride resume r\n")
    stands("done")
    assert user.do_forked("resume", "r", "--force").code == 0


def test_all_waits_for_nobody(user):
    assert user.do_forked("resume", "--all", "--wait").code == 2
