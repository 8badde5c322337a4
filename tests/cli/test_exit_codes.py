"""Every exit code, as a script meets it, and what the person is told beside it."""

import signal

import pytest

from cli.using import approval_asked, end_of
from midstride.core.journal import Taken, seal


def run(user, agent, *words, id="r", do="do_forked"):
    return getattr(user, do)("run", f"agents.py:{agent}", "--task", "t", "--id", id, *words)


def test_0_is_done_and_the_answer_alone_is_on_standard_output(user):
    ended = run(user, "mail", do="do")
    assert (ended.code, ended.out) == (0, "All is sent.\n")
    assert ended.err.splitlines() == [
        '  look({"name": "monday"})  read_only  ok  toolu_1_0',
        '  send({"to": "ann"})  unsafe  ok  toolu_2_0',
        "r: done, 3 turns, 630 tokens. the model has given its final answer",
    ]


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("refused", "r: failed, 1 turn, 0 tokens. the request is too long (413)"),
        ("cutting", "r: cut, 3 turns, 0 tokens. the answer was cut again and again, even with more room for it"),
    ],
)
def test_1_is_failed_and_says_how_to_try_again(user, agent, why):
    ended = run(user, agent)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [why, "  try again with: midstride resume r --force"]


def test_3_is_waiting_for_a_person_and_says_how_to_decide(user):
    (user.folder / "send.kill").touch()
    assert run(user, "mail").code == -signal.SIGKILL
    (user.folder / "send.kill").unlink()
    waiting = user.do_forked("resume", "r")
    assert waiting.code == 3
    assert waiting.err.splitlines()[-2:] == [
        "  did send happen? midstride decide r toolu_2_0 --happened TEXT | --rerun | --unknown",
        "  then go on with: midstride resume r",
    ]
    assert user.do_forked("decide", "r", "toolu_2_0", "--happened", "It is in the Sent folder.").code == 0
    assert (user.do_forked("resume", "r").out, user.sent()) == ("All is sent.\n", ["ann"])


def test_3_is_waiting_for_an_approval_and_says_how_to_give_it(user):
    approval_asked(user)
    waiting = user.do_forked("resume", "r", "agents.py:payment")
    assert (waiting.code, user.sent()) == (3, [])
    assert waiting.err.splitlines()[-2:] == [
        "  approve pay: midstride decide r toolu_1_0 --approve | --deny",
        "  then go on with: midstride resume r",
    ]
    assert user.do_forked("decide", "r", "toolu_1_0", "--approve").code == 0
    assert (user.do_forked("resume", "r", "agents.py:payment").out, user.sent()) == ("Paid.\n", ["100"])


def test_4_is_capped_and_extending_goes_on(user):
    ended = run(user, "capped")
    assert ended.code == 4
    assert ended.err.splitlines()[-2:] == [
        "  allow it more: midstride extend r --turns N",
        "  then go on with: midstride resume r",
    ]
    assert user.do_forked("extend", "r", "--turns", "5").code == 0
    assert user.do_forked("resume", "r").out == "Done.\n"


def test_5_is_held_and_force_goes_on(user):
    run(user, "capped")
    user.do_forked("extend", "r", "--turns", "5")
    with user.runs() as runs:
        for token in range(2, 6):
            entries = seal([Taken(token, "host", 1, clean=False)], runs.get("r").head, 0)
            runs.store.append("r", entries, token=token)
    held = user.do_forked("resume", "r", "agents.py:capped")
    assert held.code == 5
    assert held.err.splitlines()[-2:] == [
        "  see what ends it: midstride log r",
        "  then go on with: midstride resume r --force",
    ]
    assert user.do_forked("resume", "r", "agents.py:capped", "--force").out == "Done.\n"


def test_6_is_cancelled(user):
    run(user, "capped")
    assert user.do_forked("cancel", "r", "--reason", "the wrong week").code == 0
    ended = user.do_forked("resume", "r")
    assert (ended.code, ended.err) == (6, "r: cancelled, 1 turn, 110 tokens. the wrong week\n")


def test_7_is_driven_by_another_process_and_take_over_ends_that_one(user):
    gate = user.gate("send")
    first = user.start("run", "agents.py:mail", "--task", "t", "--id", "r", "--grace", "0")
    gate.arrived()
    ended = run(user, "mail")
    assert (ended.code, ended.out) == (7, "")
    assert f"run 'r' is held by pid {first.pid} on " in ended.err
    assert len(ended.err.splitlines()) == 1
    taken = user.do_forked("resume", "r", "--take-over")
    assert (taken.code, end_of(first).code) == (3, 8)
    assert user.sent() == ["ann"]


def test_8_is_stopped_by_a_signal_and_carried_on(user):
    gate = user.gate("send")
    first = user.start("run", "agents.py:mail", "--task", "t", "--id", "r", "--grace", "60")
    gate.arrived()
    first.send_signal(signal.SIGTERM)
    assert "stopping" in first.stderr.readline() + first.stderr.readline()
    gate.open()
    assert end_of(first).code == 8
    assert user.do_forked("resume", "r").out == "All is sent.\n"
    assert user.sent() == ["ann"]


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("key_refused", "midstride: the key is refused (401): set ANTHROPIC_API_KEY"),
        ("away", "midstride: the API asks to wait 700 s before it is asked again (overloaded); nothing is lost, run "),
        ("leaving", "midstride: the program ended itself (exit 3); carry on with: midstride resume r"),
    ],
)
def test_8_is_a_model_out_of_reach_or_a_program_that_ended_itself(user, agent, why):
    ended = run(user, agent)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (8, "", 1)
    assert ended.err.startswith(why)


def test_9_is_a_store_that_cannot_be_read(user):
    (user.folder / ".midstride").mkdir()
    (user.folder / ".midstride/runs.db").write_bytes(b"These are my notes. " * 100)
    ended = run(user, "hello")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (9, "", 1)
    assert "is no SQLite database" in ended.err


def test_10_is_an_error_that_nobody_foresaw_and_the_run_carries_on(user):
    ended = run(user, "broken")
    assert (ended.code, ended.out) == (10, "")
    assert ended.err == (
        "midstride: nobody foresaw this error (LookupError: a fault of the model's own code); what was recorded is "
        "safe, and --traceback shows where it comes from\n"
    )
    shown = user.do("resume", "r", "--traceback")
    assert "agents.py" in shown.err
    assert shown.err.splitlines()[-2:] == ["LookupError: a fault of the model's", "own code"]
    assert user.do_forked("resume", "r", "agents.py:hello").out == "Hello.\n"


def test_a_process_that_is_killed_is_carried_on_and_nothing_is_done_twice(user):
    (user.folder / "post.kill").touch()
    assert run(user, "letter").code == -signal.SIGKILL
    ended = user.do_forked("resume", "r")
    assert (ended.code, ended.out, user.sent()) == (0, "It is posted.\n", ["ann"])
    assert ended.err.splitlines() == [
        '  post({"to": "ann"})  unsafe  unknown  toolu_1_0',
        "r: done, 2 turns, 320 tokens, 1 in doubt. the model has given its final answer",
        "  did post happen? midstride decide r toolu_1_0 --happened TEXT | --rerun | --unknown",
    ]


def test_a_run_that_is_done_gives_its_answer_again_without_a_request(user):
    run(user, "hello")
    before = user.journals()
    again = run(user, "hello")
    assert (again.code, again.out, user.journals()) == (0, "Hello.\n", before)


def test_a_store_of_the_agents_own_is_named_in_what_to_do_next(user):
    ended = user.do_forked("run", "agents.py:own_store", "--task", "t", "--id", "r s")
    assert ended.out == "Hello.\n"
    assert user.do_forked("say", "r s", "more", "--store", "sqlite:own.db").err.splitlines() == [
        "r s: said; it is interrupted: nobody drives it; a resume goes on: a request is owed",
        "  go on with: midstride resume 'r s' --store sqlite:own.db",
    ]
