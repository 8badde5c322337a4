"""What a person sees, and what reaches their terminal, pipe or file: with a real terminal and real signals."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from cli.using import MIDSTRIDE, Terminal, end_of, plain, wait_for
from midstride.testing import Answer, FakeModel
from midstride.testing.fake_model import Hold

RUN = ("--task", "t", "--id", "r")


def lines(text):
    return [line for line in plain(text).split("\n") if line.strip()]


# ---- while a run works


def test_a_live_line_shows_turn_tool_tokens_and_time(user):
    gate = user.gate("send")
    terminal = Terminal(user, "run", "agents.py:mail", *RUN)
    gate.arrived()
    seen = terminal.sees("turn 2  send runs  210 tokens")
    assert re.search(r"turn 2  send runs  210 tokens  \d+ s", seen)
    assert lines(seen)[0] == "r: a new run"
    gate.open()
    assert terminal.end() == 0
    assert lines(terminal.seen)[-2:] == [
        "All is sent.",
        "r: done, 3 turns, 630 tokens. the model has given its final answer",
    ]
    assert '  send({"to": "ann"})  unsafe  ok  toolu_2_0' in plain(terminal.seen)


def test_an_answer_that_streams_is_drawn_as_a_draft(user, tmp_path):
    rest = tmp_path / "rest"
    with FakeModel([Hold(rest, Answer("The first words of many, and the last."), after_events=6)]) as model:
        environment = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
        terminal = Terminal(user, "run", "agents.py:claude", *RUN, **environment)
        terminal.sees("The first")
        assert "and the last." not in plain(terminal.seen)
        assert user.kinds("r") == ["started", "taken", "requested"]
        rest.touch()
        assert terminal.end() == 0
    assert lines(terminal.seen)[-2] == "The first words of many, and the last."


def test_without_a_terminal_there_is_no_live_line_whatever_force_color_says(user):
    user.environment["FORCE_COLOR"] = "1"
    gate = user.gate("send")
    process = user.start("run", "agents.py:mail", *RUN)
    gate.arrived()
    gate.open()
    assert len(end_of(process).err.splitlines()) == 3


def test_a_new_id_is_told_before_anything_else(user):
    ended = user.do_forked("run", "agents.py:hello", "--task", "t")
    (run_id,) = user.journals()
    assert re.fullmatch(r"run-[0-9a-f]{12}", run_id)
    assert ended.err.splitlines()[0] == f"{run_id}: a new run"


def test_what_tools_print_is_kept_out_of_the_answer(user):
    ended = user.do_forked("run", "agents.py:chatty", *RUN, "--json")
    assert json.loads(ended.out)["answer"] == "Done."
    assert "NOISE" in ended.err


def test_verbose_logs_every_entry_and_may_stand_anywhere(user):
    ended = user.do("run", "agents.py:hello", *RUN, "-v")
    logged = [line.split()[1:4] for line in ended.err.splitlines()[:-2]]
    assert logged == [["r", "1", "started"], ["r", "2", "taken"], ["r", "3", "requested"], ["r", "4", "responded"]]
    assert "r 1 started" in user.do("-v", "run", "agents.py:hello", "--task", "t", "--id", "r2").err.replace("r2", "r")


# ---- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_the_first_signal_lets_the_tool_end_and_starts_nothing_new(user, number):
    gate = user.gate("send")
    terminal = Terminal(user, "run", "agents.py:mail", *RUN, "--grace", "60")
    gate.arrived()
    os.kill(terminal.process.pid, number)
    terminal.sees("stopping: nothing new starts, running tools get 60 s; again to stop at once. Carry on with: "[:90])
    gate.open()
    assert terminal.end() == 8
    assert user.kinds("r")[-1] == "settled"
    assert "midstride resume r" in plain(terminal.seen).replace("\n", "")
    assert user.do_forked("resume", "r").out == "All is sent.\n"
    assert user.sent() == ["ann"]


def test_the_second_signal_ends_at_once_and_leaves_the_intent(user):
    gate = user.gate("send")
    terminal = Terminal(user, "run", "agents.py:mail", *RUN, "--grace", "60", columns=200)
    gate.arrived()
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.sees("stopping")
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 8
    assert "stopped at once; what was cut off is settled by: midstride resume r" in lines(terminal.seen)
    assert user.kinds("r")[-1] == "intended"
    assert terminal.seen.rstrip("\n").endswith("\x1b[?25h") or "\x1b[?25h" in terminal.seen  # the cursor is back


def test_a_tool_that_outlives_the_grace_is_left_intended(user):
    with open(user.folder / "agents.py", "a") as file:  # on a busy machine an end in order takes longer than 1.5 s
        file.write("\nfrom midstride.cli import signals\n\nsignals.MARGIN_SECONDS = 60.0\n")
    gate = user.gate("send")
    process = user.start("run", "agents.py:mail", *RUN, "--grace", "0")
    gate.arrived()
    process.send_signal(signal.SIGTERM)
    ended = end_of(process)
    assert ended.code == 8
    assert ended.err.splitlines()[-1] == (
        "midstride: the run stopped before its tools had ended; nothing is lost, run the same program again"
    )
    assert user.kinds("r")[-1] == "intended"


def test_a_tool_that_blocks_the_event_loop_cannot_keep_the_process(user):
    gate = user.gate("block")
    process = user.start("run", "agents.py:blocking", *RUN, "--grace", "0")
    gate.arrived()
    process.send_signal(signal.SIGTERM)
    ended = end_of(process)
    assert ended.code == 8
    assert ended.err.splitlines()[-1] == (
        "stopped: something did not end in its time; what was cut off is settled by: midstride resume r"
    )
    assert user.kinds("r")[-1] == "intended"


def test_a_signal_that_was_ignored_stays_ignored(user):
    gate = user.gate("send")
    ignoring = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({sys.executable!r}, "
    words = [*MIDSTRIDE, "run", "agents.py:mail", *RUN]
    process = subprocess.Popen(
        [sys.executable, "-c", f"{ignoring}{words!r})"],
        cwd=user.folder, env=user.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    gate.arrived()
    process.send_signal(signal.SIGHUP)
    gate.open()
    assert end_of(process).out == "All is sent.\n"


def test_a_signal_ends_resume_all_and_not_one_run_of_it(user):
    for name in ("one", "two"):
        user.do_forked("run", "agents.py:key_refused", "--task", "t", "--id", name)
    gate = user.gate("send")
    text = (user.folder / "agents.py").read_text()
    (user.folder / "agents.py").write_text(text.replace("key_refused = ", "key_refused = mail  # "))
    process = user.start("resume", "--all", "--grace", "60")
    gate.arrived()
    process.send_signal(signal.SIGINT)
    wait_for(process, "stopping")
    gate.open()
    assert end_of(process).code == 8
    assert user.kinds("two")[-1] == "requested"
    again = user.do("resume", "--all")
    assert (again.code, again.out) == (0, "All is sent.\nAll is sent.\n")
    assert user.do_forked("resume", "--all").err == "no run is interrupted\n"


# ---- text that would act on a terminal


HOSTILE = "\x1b]0;evil\x07 \u202egnp.exe \rover \x9b2J" + "x" * 10_000


@pytest.fixture
def hostile(user):
    """Somebody whose model and tools try to act on their terminal."""
    (user.folder / "hostile").write_text(HOSTILE, encoding="utf-8", newline="")
    return user


def acts(text):
    """Return the control characters in *text* that a terminal would act on, but for colours and the cursor."""
    ours = re.sub(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*[AK]|\x1b\[2K", "", text)
    return re.findall("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", ours)


def test_hostile_text_is_shown_and_not_executed_while_a_run_works(hostile):
    terminal = Terminal(hostile, "run", "agents.py:hostile", *RUN, columns=160)
    assert terminal.end() == 0
    assert acts(terminal.seen) == []
    assert r"\x1b[31mred\x1b[0m \u202egnp.exe\x0dover \x9b2J" in plain(terminal.seen)


def test_hostile_text_is_shown_and_not_executed_by_every_command_that_looks(hostile):
    assert hostile.do_forked("run", "agents.py:hostile", "--task", f"go {HOSTILE}", "--id", "r").code == 0
    words = [("show", "r"), ("show", "r", "--turn", "1"), ("show", "r", "--call", "toolu_1_0"), ("log", "r"), ("runs",)]
    for command in words:
        for ended in (hostile.do_forked(*command), hostile.do_forked(*command, "--json")):
            assert (ended.code, acts(ended.out)) == (0, [])
            assert "\r" not in ended.out
    assert "x" * 10_000 in hostile.do_forked("show", "r", "--turn", "1").out
    assert "x" * 1_000 not in hostile.do_forked("show", "r").out
    whole = json.loads(hostile.do_forked("show", "r", "--json").out)
    assert whole["turns_made"][0]["calls"][0]["result"] == HOSTILE


def test_an_error_that_repeats_hostile_text_is_harmless(hostile):
    hostile.do_forked("run", "agents.py:hello", "--task", HOSTILE, "--id", "r")
    refused = hostile.do_forked("run", "agents.py:hello", "--task", "other", "--id", "r")
    assert (refused.code, acts(refused.err), len(refused.err.splitlines())) == (2, [], 1)


# ---- terminals, pipes and files of all kinds


@pytest.fixture
def long_id(user):
    """A run with a long id, a task of no plain ASCII, and an answer."""
    user.id = "a-run-with-an-id-that-is-longer-than-narrow-terminals-are/wide 2026"
    user.do(
        "run", "agents.py:hello", "--task", "Grüße an 太郎 – alles Gute, und noch viele Worte mehr" * 3, "--id", user.id
    )
    return user


def test_a_narrow_terminal_and_a_pipe_never_cut_an_id(long_id):
    narrow = Terminal(long_id, "runs", columns=60)
    assert narrow.end() == 0
    assert long_id.id in plain(narrow.seen)
    assert long_id.id in long_id.shell("midstride runs | cat").out
    shown = Terminal(long_id, "show", long_id.id, columns=60)
    assert shown.end() == 0
    assert plain(shown.seen).startswith(long_id.id)


def test_a_terminal_without_colours_gets_none(long_id):
    terminal = Terminal(long_id, "runs", NO_COLOR="1")
    assert terminal.end() == 0
    assert "\x1b[3" not in terminal.seen


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"}]
)
def test_a_terminal_that_is_not_utf_8_gets_what_it_can_show(long_id, environment):
    long_id.environment |= environment
    ended = long_id.shell("midstride runs; midstride show r-none")
    assert ended.code == 2
    assert ("Gr" in ended.out, "\\u592a" in ended.out or "太" in ended.out) == (True, True)


@pytest.mark.parametrize("command", ["runs", "log r", "log r --follow", "show r", "runs --json", "resume r"])
def test_a_reader_that_has_enough_is_no_error(user, command):
    user.do_forked("run", "agents.py:hello", *RUN)
    ended = user.shell(f"midstride {command} | head -1; exit ${{PIPESTATUS[0]}}")
    assert (ended.code, "Traceback" in ended.err, "Exception" in ended.err) == (0, False, False)
    assert len(ended.out.splitlines()) == 1


def test_a_reader_that_goes_away_does_not_stop_the_run(user):
    gate = user.gate("send")
    process = user.start("run", "agents.py:mail", *RUN)
    gate.arrived()
    process.stderr.close()
    process.stdout.close()
    gate.open()
    assert process.wait(60) == 0
    assert user.kinds("r")[-1] == "responded"
    assert user.do_forked("resume", "r").out == "All is sent.\n"


def test_a_terminal_that_is_closed_ends_the_run_in_order(user):
    gate = user.gate("send")
    terminal = Terminal(user, "run", "agents.py:mail", *RUN, "--grace", "0")
    gate.arrived()
    terminal.hang_up()
    os.kill(terminal.process.pid, signal.SIGHUP)  # what the kernel sends to the session of a real terminal
    assert terminal.process.wait(60) == 8
    assert user.kinds("r")[-1] == "intended"


def test_an_output_that_is_full_or_closed_is_one_line(user):
    user.do_forked("run", "agents.py:hello", *RUN)
    full = user.shell("midstride runs > /dev/full")
    assert (full.code, full.err) == (9, "midstride: No space left on device; see to it and run the command again\n")
    unread = user.shell("midstride resume r > /dev/full")
    assert unread.code == 0
    assert (
        unread.err.splitlines()[0] == "the answer could not be written (No space left on device); midstride show has it"
    )
    assert user.shell("midstride runs >&-").code == 0
    assert user.shell("midstride show zzz 2>&-").code == 2
