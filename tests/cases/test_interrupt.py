"""Ctrl-C and cancellation: in a batch, in a save, at a tool that hangs, and at one with a child of its own."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from contextlib import closing

import pytest

from cases.stage import Stage, fork, forked
from crash.checks import check
from crash.plan import Plan, carry_out
from docs.blocks import block_with
from midstride import Runs, tool
from midstride.drive import shell
from midstride.errors import NotAllowed
from midstride.stores import open_store
from midstride.testing import Answer, calls


@tool
def a() -> str:
    return "a is done"


@tool
def b() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()  # it goes on until its process ends
    raise AssertionError("unreachable")


@tool
def c() -> str:
    raise AssertionError("it may not begin")


def test_case_205_ctrl_c_in_batch(stage, url):
    """Ctrl-C in the second of three tools: the first one's result is real, the second is unknown, the third not begun.

    All three stand in one message, before what the user says then.
    """
    stage.says(calls(("a", {}), ("b", {}), ("c", {})), Answer("Done."))

    def program():
        with closing(open_store(url)) as store:
            interrupted = Stage(stage.way, store)
            interrupted.server = stage.server
            interrupted.run(a, b, c)

    assert forked(program) == 130
    Runs(stage.store).say("run", "go on")
    assert stage.run(a, b, c).status == "done"
    *_, told, said = stage.server.requests[-1]["messages"]
    assert [content.split(":")[0] for content, _ in stage.results] == ["a is done", "Outcome unknown", "Not started"]
    assert [block["type"] for block in told["content"]] == ["tool_result"] * 3
    assert said == {"role": "user", "content": "go on"}


# ---- a tool that hangs


class Hanging:
    """Tools that hang until the test is over, and say so."""

    def __init__(self):
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        self.over.wait()
        return "at last"

    async def hang(self):
        self.begun.set()
        while not self.over.is_set():
            await asyncio.sleep(3600)


@pytest.fixture
def hanging():
    made = Hanging()
    yield made
    made.over.set()
    for thread in threading.enumerate():
        if thread.name.startswith("midstride"):
            thread.join()


@pytest.fixture
def soon(monkeypatch):
    """Lets a driver look every 20 ms, and give what runs 100 ms once the run is cancelled."""
    monkeypatch.setattr(shell, "LISTEN_SECONDS", 0.02)
    monkeypatch.setattr("midstride.drive.blocking.LISTEN_SECONDS", 0.02)
    monkeypatch.setattr(shell, "GRACE_SECONDS", 0.1)


@pytest.mark.parametrize("effect", ["read_only", "unsafe", "coroutine"])
def test_case_207_hung_tool_ignores_abort(effect, hanging, soon, stage):
    """The tool never ends and the user calls the run off: its driver comes back, and the call has the true answer."""
    if effect == "coroutine":

        @tool
        async def fetch(url: str) -> str:
            return await hanging.hang()

        if stage.way == "blocking":  # there it runs in a thread, which nobody can cancel
            fetch = tool(name="fetch")(lambda_of(hanging))
    else:
        fetch = (tool if effect == "unsafe" else tool.read_only)(name="fetch")(lambda_of(hanging))

    @tool
    def send(to: str) -> str:
        raise AssertionError("it may not begin")

    def cancel():
        assert hanging.begun.wait(60)
        Runs(stage.store).cancel("run", "enough")

    behind = [] if effect == "read_only" else [("send", {"to": "ann"})]  # an effect does not wait for a read
    stage.says(calls(("fetch", {"url": "x"}), *behind), Answer("Done."))
    person = threading.Thread(target=cancel)
    person.start()
    result = stage.run(fetch, send)
    person.join()
    assert (result.status, len(stage.server.requests)) == ("cancelled", 1)
    told = {entry["index"]: entry for entry in stage.entries("settled")}
    if effect == "read_only":
        assert told[0]["outcome"] == "failed"
        assert "did not end within 0.1 s after the run was cancelled" in told[0]["content"]
    else:
        assert [told[0]["outcome"], told[1]["outcome"]] == ["unknown", "not started"]
    assert stage.run(fetch, send).status == "cancelled"


def lambda_of(hanging):
    def fetch(url: str) -> str:
        return hanging()

    return fetch


def test_case_207_what_is_said_and_decided_while_a_tool_hangs_is_heard(hanging, soon, stage):
    """A tool hangs beside a call that waits for a yes: the yes is heard at once, and the approved call runs."""
    approved = []

    @tool.read_only
    def fetch(url: str) -> str:
        return hanging()

    @tool(approval=True)
    def send(to: str) -> str:
        approved.append(to)
        hanging.over.set()
        return "sent"

    def decide():
        assert hanging.begun.wait(60)
        runs = Runs(stage.store)
        while not approved:
            try:
                runs.decide("run", "toolu_0_1", "allow")
                return
            except NotAllowed:
                continue  # it has not been asked about yet

    stage.says(calls(("fetch", {"url": "x"}), ("send", {"to": "ann"})), Answer("Done."))
    person = threading.Thread(target=decide)
    person.start()
    assert stage.run(fetch, send).status == "done"
    person.join()
    assert (approved, stage.results) == (["ann"], [("at last", False), ("sent", False)])


def test_case_207_ctrl_c_at_a_hung_tool_gives_control_back(stage, url):
    """The same without a second process: Ctrl-C ends the wait, whatever the tool does."""
    stage.says(calls(("b", {})), Answer("Done."))

    def program():
        with closing(open_store(url)) as store:
            interrupted = Stage(stage.way, store)
            interrupted.server = stage.server
            interrupted.run(b)

    assert forked(program) == 130


# ---- within a save


@pytest.mark.parametrize("at", range(1, 5))
def test_case_208_cancel_during_save(at, stage):
    """Ctrl-C comes twice inside a save: what was being saved is saved wholly or not at all, and no effect is lost."""
    sent = []

    @tool
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    stage.says(calls(("send", {"to": "ann"})), Answer("Done."))
    real = stage.store
    stage.store = InterruptedStore(real, at)
    with pytest.raises(KeyboardInterrupt):
        stage.run(send)
    stage.store = real
    assert stage.run(send).status == "done"
    ((content, is_error),) = stage.results
    assert (content, is_error, sent) == ("sent", False, ["ann"]) or (at == 3 and content.startswith("Outcome unknown"))
    assert [entry.seq for entry in real.read("run")] == list(range(1, len(real.read("run")) + 1))


class InterruptedStore:
    """A store in whose *at*-th append Ctrl-C is pressed twice."""

    def __init__(self, inner, at):
        self.inner, self.at, self.appends = inner, at, 0
        self.url, self.transactional = inner.url, inner.transactional

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, run_id, entries, **more):
        self.appends += 1
        if self.appends == self.at:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        self.inner.append(run_id, entries, **more)


@pytest.mark.parametrize(("store", "mode"), [("sqlite", "async"), ("checkpoint", "blocking")], ids=lambda word: word)
def test_case_208_killed_in_the_save_of_a_result(store, mode, forks, server, folder):
    """The same, harder: the process is gone around the save of the result."""
    bare = Plan(store, mode, "send")
    unkilled = carry_out(bare, bare.world(folder / "unkilled", server, forks))
    for moment in ("append 4 before", "append 4 after"):
        plan = Plan(store, mode, "send", (moment,))
        check(carry_out(plan, plan.world(folder / moment, server, forks)), unkilled)


# ---- a tool with a child of its own


def ended(reader):
    """Tell whether every writer of this FIFO has ended, waiting for it."""
    return bool(select.select([reader], [], [], 30)[0]) and os.read(reader, 1) == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_case_206_child_process_survives(number, stage, url, folder):
    """The program is ended while its tool's command runs, as the recipe has it: the command ends too.

    What it would have printed later comes nowhere: the call is unknown, and its result stands at its own call.
    """
    names = {}
    exec(block_with("docs/tools.md", "def run_command"), names)
    for name in ("fifo", "begun"):
        os.mkfifo(folder / name)
    reader, begun = (os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK) for name in ("fifo", "begun"))
    words = f"exec 9> {folder}/fifo; echo > {folder}/begun; sleep 600; echo late"
    stage.says(calls(("run_command", {"command": words})), Answer("Done."))

    def program():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with closing(open_store(url)) as store:
            child = Stage(stage.way, store)
            child.server = stage.server
            child.run(names["run_command"])

    pid = fork(program)
    assert select.select([begun], [], [], 60)[0]  # until the command has begun
    os.kill(pid, number)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (-number, 130)
    assert ended(reader)
    os.close(reader)
    os.close(begun)
    assert stage.run(names["run_command"]).status == "done"
    assert stage.results[0][0].startswith("Outcome unknown")
    assert (len(stage.blocks("tool_result")), "late" in str(stage.blocks("text"))) == (1, False)
