"""The commands as an operator uses them: looking, while a run works and afterwards, and speaking to it."""

import json
import os
import select
import signal
import sys

import pytest

from cli.using import approval_asked, end_of
from midstride.cli.exits import Exit
from midstride.core.journal import Decided, Failed, Requested, seal

RUN = ("--task", "t", "--id", "r")


@pytest.fixture
def working(user):
    """Somebody whose run `r` works: its tool `send` waits at `user.gate_of_send`."""
    user.gate_of_send = user.gate("send")
    user.process = user.start("run", "agents.py:mail", *RUN)
    user.gate_of_send.arrived()
    yield user
    user.process.kill()
    user.process.communicate()


@pytest.fixture
def doubtful(user):
    """Somebody whose run `r` was killed behind its effect, and put to a person."""
    (user.folder / "send.kill").touch()
    assert user.do_forked("run", "agents.py:mail", *RUN).code == -signal.SIGKILL
    (user.folder / "send.kill").unlink()
    assert user.do_forked("resume", "r").code == 3
    return user


def row(user, run_id="r"):
    return next(one for one in json.loads(user.do_forked("runs", "--json").out) if one["run"] == run_id)


# ---- while a run works


def test_a_call_that_a_living_process_runs_is_in_no_doubt(working):
    assert (row(working)["status"], row(working)["doubts"]) == ("working", [])
    looked = working.do_forked("doubts", "--fail-if-any")
    assert (looked.code, looked.out, looked.err) == (0, "", "nothing is in doubt\n")
    shown = working.do_forked("show", "r").out
    assert 'send({"to": "ann"})  unsafe  running  toolu_2_0' in shown
    working.process.kill()
    working.process.communicate()
    assert (row(working)["status"], row(working)["doubts"]) == ("interrupted", ["toolu_2_0"])
    assert working.do_forked("doubts", "--fail-if-any").code == 3
    assert working.do_forked("doubts", "--fail-if-any", "--json").code == 3


def test_a_plan_of_a_working_run_says_who_drives_it(working):
    told = working.do_forked("plan", "r").out.splitlines()
    assert told[0].startswith(f"r  working: driven by pid {working.process.pid} on ")
    assert told[0].endswith("; this is what would be done if that process died now")
    assert told[2] == "    a resume would ask a person whether it happened: nobody can know: a person is asked"
    assert working.sent() == ["ann"]


def test_a_log_that_follows_sees_the_entries_of_a_live_run_until_ctrl_c(working):
    log = working.start("log", "r", "--follow")
    seen = [log.stdout.readline().split()[4] for _ in range(8)]
    assert seen == ["started", "taken", "requested", "responded", "settled", "requested", "responded", "intended"]
    working.gate_of_send.open()
    assert [log.stdout.readline().split()[4] for _ in range(3)] == ["settled", "requested", "responded"]
    log.send_signal(signal.SIGINT)
    assert (end_of(log).code, working.process.wait(60)) == (0, 0)


def test_what_is_said_to_a_working_run_comes_with_its_next_request(working):
    assert working.do_forked("say", "r", "Leave out the budget.").err == (
        f"r: said; it is working: driven by pid {working.process.pid} on {row(working)['why'].split()[-1]}\n"
    )
    working.gate_of_send.open()
    assert end_of(working.process).code == 0
    assert '"Leave out the budget."' in working.do_forked("export", "r", "--as", "messages").out
    assert "somebody said: Leave out the budget." in working.do_forked("show", "r").out


def test_a_working_run_that_is_cancelled_keeps_the_real_result(working):
    assert working.do_forked("cancel", "r").code == 0
    working.gate_of_send.open()
    assert end_of(working.process).code == 6
    assert 'send({"to": "ann"})  unsafe  ok  toolu_2_0' in working.do_forked("show", "r").out


# ---- deciding


@pytest.mark.parametrize(
    ("words", "sent", "told"),
    [
        (["--happened", "It is in the Sent folder.", "--note", "Thanks."], 1, "It is in the Sent folder. Thanks."),
        (["--rerun"], 2, "sent to ann"),
        (
            ["--unknown", "--note", "Ask Ann."],
            1,
            "cannot tell whether this call took effect. The person said: Ask",
        ),
        (["--deny"], 1, "a person decided that this call is not to be run again; it may have happened."),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_decision_is_told_to_the_model_and_only_rerun_runs_it_again(doubtful, words, sent, told):
    decided = doubtful.do_forked("decide", "r", "toolu_2_0", *words)
    assert decided.err.splitlines() == [
        "r: decided about toolu_2_0; it is interrupted: nobody drives it; a resume goes on: "
        + ("its turn has come" if words == ["--rerun"] else "a request is owed"),
        "  go on with: midstride resume r",
    ]
    assert doubtful.do_forked("resume", "r").out == "All is sent.\n"
    assert len(doubtful.sent()) == sent
    assert told in doubtful.do_forked("show", "r", "--call", "toolu_2_0").out


def test_a_call_that_was_denied_approval_never_runs(user):
    approval_asked(user)
    listed = user.do_forked("doubts")
    assert listed.out.splitlines()[1].split()[:5] == ["r", "toolu_1_0", "pay", "asking", "approval"]
    assert listed.err == "  approve pay: midstride decide r toolu_1_0 --approve | --deny\n"
    assert (row(user)["doubts"], row(user)["approvals"]) == ([], ["toolu_1_0"])
    assert user.do_forked("decide", "r", "toolu_1_0", "--deny", "--note", "Too much.").code == 0
    assert user.do_forked("resume", "r", "agents.py:payment").out == "Paid.\n"
    assert user.sent() == []
    assert "Denied: a person decided that this call is not to be run. It had no effect." in (
        user.do_forked("show", "r").out
    )


@pytest.mark.parametrize(
    ("word", "sent", "shown"), [("--approve", ["100"], "transferred 100"), ("--deny", [], "Denied:")]
)
def test_a_tool_that_needs_an_approval_waits_for_it_and_does_as_it_is_told(user, word, sent, shown):
    asked = user.do_forked("run", "agents.py:transferring", *RUN)
    assert (asked.code, user.sent()) == (3, [])
    assert user.do_forked("resume", "r").code == 3
    assert user.do_forked("decide", "r", "toolu_1_0", word).code == 0
    assert user.do_forked("decide", "r", "toolu_1_0", "--approve").code == 2
    assert user.do_forked("resume", "r").out == "Transferred.\n"
    assert user.sent() == sent
    assert shown in user.do_forked("show", "r", "--call", "toolu_1_0").out


def test_a_call_whose_process_died_is_for_a_resume_to_settle(user):
    (user.folder / "send.kill").touch()
    user.do_forked("run", "agents.py:mail", *RUN)
    assert user.do_forked("doubts").err == "  send is for a resume to settle: midstride resume r\n"
    assert user.do_forked("decide", "r", "toolu_2_0", "--rerun").code == 2


# ---- looking


def test_show_picks_a_turn_or_a_call(doubtful):
    turn = json.loads(doubtful.do_forked("show", "r", "--turn", "2", "--json").out)
    assert (turn["turn"], [call["state"] for call in turn["calls"]]) == (2, ["asking doubt"])
    (call,) = json.loads(doubtful.do_forked("show", "r", "--call", "toolu_1_0", "--json").out)
    assert (call["tool"], call["result"]) == ("look", "seen monday")
    assert doubtful.do_forked("show", "r", "--call", "toolu_1_0").out == (
        '  look({"name": "monday"})  read_only  ok  toolu_1_0\n    seen monday\n'
    )


def test_the_log_has_a_line_for_each_entry_and_all_of_it_as_json(doubtful):
    lines = doubtful.do_forked("log", "r").out.splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1, 11)]
    assert lines[-1].split()[4:] == ["asked", "turn", "2", "call", "0:", "doubt"]
    rows = [json.loads(line) for line in doubtful.do_forked("log", "r", "--json").out.splitlines()]
    assert [entry["kind"] for entry in rows] == doubtful.kinds("r")
    assert rows[3]["response"]["stop_reason"] == "tool_use"


def test_what_a_run_cost_is_shown_and_more_of_it_allowed(user):
    ended = user.do_forked("run", "agents.py:costly", *RUN)
    assert (ended.code, "cost 0.0020" in ended.err) == (4, True)
    assert ended.err.splitlines()[-2] == "  allow it more: midstride extend r --cost N"
    assert user.do_forked("extend", "r", "--cost", "0.1").code == 0
    assert user.do_forked("resume", "r").out == "Done.\n"
    shown = user.do_forked("show", "r").out
    assert "cost     0.0050 of 0.1000\n" in shown
    assert [line.split("  ")[-1] for line in shown.splitlines() if line.startswith("turn ")] == [
        "cost 0.0020",
        "cost 0.0030",
    ]
    user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "free")
    listed = [line.split() for line in user.do_forked("runs").out.splitlines()]
    assert (listed[0][2:5], listed[1][2:5]) == (["turns", "tokens", "cost"], ["2/40", "320", "0.0050/0.1000"])
    assert (listed[2][:4], listed[2][8]) == (["free", "done", "1/40", "110"], "UTC")  # no cost stands between
    assert [row(user)[name] for name in ("cost", "cost_max", "unpriced", "unanswered")] == [0.005, 0.1, 0, 0]


def test_what_nobody_knows_about_a_cost_is_shown(doubtful):
    assert "unknown" not in doubtful.do_forked("show", "r").out
    with doubtful.runs() as runs:
        head = runs.get("r").head
        entries = seal([Decided(2, 0, "unknown"), Requested(), Failed("413")], head, 0)
        runs.store.append("r", entries, token=runs.get("r").token)
    shown = doubtful.do_forked("show", "r").out
    assert "unknown  1 of the turns had no answer: what they took is not known\n" in shown
    assert row(doubtful)["unanswered"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_command_that_a_tool_runs_ends_with_the_process_whatever_ends_it(user, number):
    os.mkfifo(user.folder / "fifo")
    reader = os.open(user.folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    process = user.start("run", "agents.py:making", *RUN, "--grace", "0.2")
    assert select.select([reader], [], [], 60)[0]
    assert os.read(reader, 100) == b"begun\n"
    process.send_signal(number)
    assert end_of(process).code == (-number if number == signal.SIGKILL else Exit.INTERRUPTED)
    assert select.select([reader], [], [], 60)[0]
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert row(user)["status"] == "interrupted"
    assert user.do_forked("resume", "r").out == "Made.\n"
    assert "Outcome unknown" in user.do_forked("show", "r").out


def test_a_list_of_no_runs_says_where_it_looked(user):
    ended = user.do_forked("runs")
    assert (ended.code, ended.out, ended.err) == (0, "", "there are no runs in sqlite:.midstride/runs.db\n")
    assert user.do_forked("runs", "--json").out == "[]\n"


def test_resume_all_carries_on_what_is_interrupted_and_leaves_the_rest(user):
    for name, agent in (("one", "key_refused"), ("two", "capped"), ("three", "key_refused")):
        user.do_forked("run", f"agents.py:{agent}", "--task", "t", "--id", name)
    assert user.do_forked("resume", "--all").code == 8
    text = (user.folder / "agents.py").read_text()
    (user.folder / "agents.py").write_text(text.replace("key_refused = ", "key_refused = hello  # "))
    rows = json.loads(user.do_forked("resume", "--all", "--json").out)
    assert [(one["run"], one["status"], one["exit"], one["error"]) for one in rows] == [
        ("one", "done", 0, None),
        ("three", "done", 0, None),
    ]
    assert row(user, "two")["status"] == "capped"


def test_a_store_may_come_from_the_environment_and_the_option_wins(user):
    user.environment["MIDSTRIDE_STORE"] = "sqlite:mine.db"
    assert user.do_forked("run", "agents.py:hello", *RUN).code == 0
    assert row(user)["run"] == "r"
    assert user.do_forked("runs", "--json", "--store", "sqlite:.midstride/runs.db").out == "[]\n"
    assert not (user.folder / ".midstride").exists()


def test_a_checkpoint_file_is_a_store_too(user):
    store = ("--store", "checkpoint:checkpoint.json")
    assert user.do_forked("run", "agents.py:mail", *RUN, *store).out == "All is sent.\n"
    assert user.do_forked("resume", "r", *store).out == "All is sent.\n"
    assert json.loads((user.folder / "checkpoint.json").read_text())["turns"] == 3


def test_the_demo_is_played_and_tells_its_facts(user):
    played = end_of(user.start("demo", "--json"), 180)  # six processes, one after the other
    assert played.code == 0
    assert {name: facts["mails"] for name, facts in json.loads(played.out).items()} == {
        "naive": 2,
        "unsafe": 1,
        "verifiable": 1,
    }


def test_a_demo_without_its_extra_names_it(user):
    program = "import sys; sys.modules['aiosmtpd'] = None; import midstride.cli; midstride.cli.main()"
    ended = user.shell(f'{sys.executable} -c "{program}" demo')
    assert (ended.code, ended.err) == (2, "midstride: the demo needs aiosmtpd: pip install 'midstride[demo]'\n")


def test_a_module_is_a_target_from_the_folder_it_is_in(user):
    assert user.do_forked("run", "agents:hello", *RUN).out == "Hello.\n"
    assert row(user)["program"] == "agents:hello"


def test_a_target_called_like_a_module_stands_in_for_none(user):
    (user.folder / "agents.py").rename(user.folder / "json.py")
    assert user.do_forked("run", "json.py:hello", *RUN, "--json").code == 0
