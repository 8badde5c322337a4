"""Real processes: one is killed in the middle of a call, and a crowd makes the same deed at once."""

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from midstride import InDoubt, Ledger, tool
from midstride.errors import Held
from midstride.testing.conformance_claims import at_once

CROWD = 20

PROGRAM = """
import os, signal, sys
from midstride import CannotTell, Context, DidNotHappen, Happened, InDoubt, Ledger, tool

def note(line):
    descriptor = os.open("world.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (line + "\\n").encode())
    os.close(descriptor)

def die():
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)

@tool.idempotent(key_life=10**6)
def charge(context: Context) -> str:
    note(context.key)
    die()
    return "charged"

@tool.verifiable(timeout=1)
def post() -> str:
    note("posted")
    die()
    return "posted"

@post.verify
def find() -> Happened | DidNotHappen:
    return Happened("posted") if os.path.exists("world.txt") else DidNotHappen()

@tool
def send() -> str:
    note("sent")
    die()
    return "sent"

with Ledger("sqlite:calls.db") as ledger:
    for _ in range(2):
        try:
            print(ledger.once(globals()[sys.argv[1]], "c1", {}, scope="t"))
        except InDoubt as told:
            print(type(told).__name__)
"""


@pytest.mark.parametrize(
    ("name", "given", "deeds"), [("charge", "charged", 1), ("post", "posted", 1), ("send", "InDoubt", 1)]
)
def test_a_call_whose_process_was_killed_is_carried_on_by_the_next_one(tmp_path, name, given, deeds):
    def run(**more):
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), name]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, **more}, capture_output=True, text=True)

    assert run(DIE="1").returncode == -signal.SIGKILL
    ran = run()
    assert (ran.stdout, ran.stderr) == (f"{given}\n" * 2, "")
    assert len(set((tmp_path / "world.txt").read_text().splitlines())) == deeds


def note(path, line):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def test_of_a_crowd_of_processes_one_does_the_deed(tmp_path):
    @tool(key=lambda to: to)
    def send(to: str) -> str:
        note(tmp_path / "world.txt", to)
        return "sent"

    def call(number):
        with Ledger(f"sqlite:{tmp_path}/calls.db") as ledger:
            try:
                return ledger.once(send, f"c{number}", {"to": "ann"}, scope="t").split(":")[0]
            except InDoubt:
                return "in doubt elsewhere"

    told = Counter(at_once(CROWD, call))
    assert (tmp_path / "world.txt").read_text() == "ann\n"
    assert told["sent"] == 1
    assert told.keys() <= {"sent", "Already done", "in doubt elsewhere"}
    assert at_once(CROWD, lambda number: call(number + CROWD)) == ["Already done"] * CROWD


def test_of_a_crowd_of_processes_one_makes_the_call(tmp_path):
    @tool
    def send() -> str:
        note(tmp_path / "world.txt", "sent")
        return "sent"

    def call(number):
        with Ledger(f"sqlite:{tmp_path}/calls.db") as ledger:
            try:
                return ledger.once(send, "c1", {}, scope="t")
            except Held:
                return "held"

    told = Counter(at_once(CROWD, call))
    assert (tmp_path / "world.txt").read_text() == "sent\n"
    assert told.keys() <= {"sent", "held"}
    assert told["sent"] >= 1
