"""A call of a ledger at the command line: looked at and decided like any run, and carried on by its own program."""

import json
import os
import signal
import threading

import pytest

from cases.stage import fork, forked
from cli.using import STORE, User
from midstride import InDoubt, Ledger, tool
from midstride.errors import NeedsPerson


@tool
def mail(to: str) -> str:
    """Send a mail; in a child of the test it is its process's end."""
    if os.getpid() != PARENT:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"sent to {to}"


@tool(approval=True)
def pay(to: str) -> str:
    return f"paid {to}"


PARENT = os.getpid()
ANN = {"to": "ann"}


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


def once(user, made=mail, call_id="c1"):
    with Ledger(f"sqlite:{user.folder / STORE}") as ledger:
        return ledger.once(made, call_id, ANN, scope="t")


@pytest.fixture
def cut_off(user):
    """A call whose process was killed in its tool."""

    def program():
        once(user)

    assert forked(program) == -signal.SIGKILL


AGAIN = "its program goes on with it when it makes this call again"


def test_a_call_that_was_cut_off_is_for_its_own_program(user, cut_off):
    (row,) = json.loads(user.do_forked("runs", "--json").out)
    assert (row["run"], row["status"], row["api"], row["doubts"]) == ("t/c1", "interrupted", "ledger", ["c1"])
    assert row["task"] == {"tool": "mail", "arguments": ANN}
    assert AGAIN in user.do_forked("doubts").err
    refused = user.do_forked("resume", "t/c1")
    assert (refused.code, AGAIN in refused.err) == (2, True)
    everything = user.do_forked("resume", "--all")
    assert (everything.code, everything.err) == (0, "no run is interrupted\n")
    assert "    calling it again would report it as unknown: " in user.do_forked("plan", "t/c1").out


def test_a_doubt_is_decided_and_the_program_goes_on(user, cut_off):
    with pytest.raises(InDoubt):
        once(user)
    assert "midstride decide t/c1 c1 --happened TEXT | --rerun | --unknown" in user.do_forked("doubts").err
    decided = user.do_forked("decide", "t/c1", "c1", "--rerun")
    assert (decided.code, AGAIN in decided.err) == (0, True)
    assert "  calling it again would make the call anew: " in user.do_forked("plan", "t/c1").out
    assert once(user) == "sent to ann"
    shown = user.do_forked("show", "t/c1").out
    assert "done: its call has its result" in shown
    assert "sent to ann" in shown
    assert "responded  calls mail" in user.do_forked("log", "t/c1").out
    assert user.do_forked("verify", "t/c1").code == 0


def test_the_command_that_an_error_names_works(user):
    with pytest.raises(NeedsPerson) as caught:
        once(user, pay)
    command = str(caught.value).partition("midstride ")[2].replace("--approve | --deny", "--approve")
    assert user.shell(f"midstride {command}").code == 0
    assert once(user, pay) == "paid ann"


def test_nothing_can_be_said_to_a_call(user):
    once(user)
    assert user.do_forked("say", "t/c1", "hello").code == 2
    assert user.do_forked("cancel", "t/c1").code == 2


@pytest.mark.parametrize("form", ["journal", "checkpoint", "messages"])
def test_a_call_is_exported(user, form):
    once(user)
    assert user.do_forked("export", "t/c1", "--as", form, "--out", "out").code == 0
    assert "sent to ann" in (user.folder / "out").read_text()
    if form != "messages":
        assert user.do_forked("import", "out", "--id", "t/c2").code == 0
        assert once(user, call_id="c2") == "sent to ann"


@pytest.mark.parametrize("form", ["journal", "checkpoint"])
def test_a_call_is_no_transcript_to_check(user, form):
    once(user)
    user.do_forked("export", "t/c1", "--as", form, "--out", "out")
    checked = user.do_forked("check", "out")
    assert (checked.code, "no transcript of a model" in checked.err) == (2, True)


def test_a_living_call_is_told_as_working(user):
    gate, opened = os.pipe()

    @tool
    def wait() -> str:
        os.write(opened, b".")
        threading.Event().wait()
        return ""

    def program():
        with Ledger(f"sqlite:{user.folder / STORE}") as ledger:
            ledger.once(wait, "c1", {}, scope="t")

    pid = fork(program)
    os.close(opened)
    try:
        assert os.read(gate, 1) == b"."  # nothing, where it has ended
        (row,) = json.loads(user.do_forked("runs", "--json").out)
        assert (row["status"], row["doubts"]) == ("working", [])
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(gate)
