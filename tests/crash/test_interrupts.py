"""Ctrl-C is a crash like any other; the program itself, started as its user starts it."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading

import pytest

from midstride import Agent, Context, models, tool
from midstride.core.journal import Entry, Taken

pytestmark = pytest.mark.fault("Ctrl-C or SIGTERM", "real processes")

MODES = pytest.mark.parametrize("mode", ["blocking", "async"])


@pytest.mark.parametrize("store", ["sqlite", "checkpoint"])
def test_the_program_itself_dies_by_sigkill_and_carries_on(store, world_of, is_done_right):
    world = world_of("send", store=store)
    died = world.start_alone({"append 4 before": "kill"})
    died.communicate()
    carried_on = world.start_alone({})
    words, _ = carried_on.communicate()
    assert (died.returncode, carried_on.returncode, words) == (-signal.SIGKILL, 0, "")
    world.live()
    is_done_right(world)


@MODES
@pytest.mark.parametrize("task", ["send", "charge"])
def test_ctrl_c_in_a_tool_is_a_crash_like_any_other(task, mode, world_of, gate_of, is_done_right):
    world = world_of(task, mode=mode)
    gate = gate_of(world)
    process = world.start_alone({f"{task} 1 after": "hold"})
    gate.arrived()
    process.send_signal(signal.SIGINT)
    words, _ = process.communicate()
    assert words.splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT
    world.finish()
    is_done_right(world)


# ---- in one process: a tool that goes on behind a Ctrl-C


class Interrupting:
    """A tool that sends its own process a Ctrl-C and goes on until it may end."""

    def __init__(self):
        self.begun, self.may_end = 0, threading.Event()

    def go(self):
        self.begun += 1
        if self.begun == 1:
            os.kill(os.getpid(), signal.SIGINT)
            assert self.may_end.wait(60)

    def end(self):
        """Let it end, and wait until it has."""
        self.may_end.set()
        for thread in threading.enumerate():
            if thread.name.startswith("midstride"):
                thread.join()

    def end_when_taken(self, event):
        """Let it end once the next driver has taken the run up; a watch."""
        if isinstance(event, Entry) and isinstance(event.body, Taken):
            self.may_end.set()


@pytest.fixture
def interrupting():
    made = Interrupting()
    yield made
    made.end()


def agent_with(function, tmp_path):
    model = models.Scripted([[(function.name, {"n": 1})], "Done."])
    return Agent(model, tools=[function], store=f"sqlite:{tmp_path / 'runs.db'}")


def last_result(agent):
    return agent.model.requests[-1]["messages"][-1]["content"][0]["content"]


def run(agent, mode, **more):
    if mode == "async":
        return asyncio.run(agent.run_async("t", "run-1", **more))
    return agent.run("t", "run-1", **more)


@MODES
def test_a_tool_that_ended_behind_a_ctrl_c_is_not_repeated(mode, interrupting, tmp_path):
    @tool
    def send(n: int) -> str:
        interrupting.go()
        return "sent"

    agent = agent_with(send, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(agent, mode)
    interrupting.end()
    assert run(agent, mode).status == "done"
    assert (last_result(agent), interrupting.begun) == ("sent", 1)


@MODES
def test_a_tool_that_still_runs_behind_a_ctrl_c_is_waited_for(mode, interrupting, tmp_path):
    @tool
    def send(n: int) -> str:
        interrupting.go()
        return "sent"

    agent = agent_with(send, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(agent, mode)
    assert run(agent, mode, watch=interrupting.end_when_taken).status == "done"
    assert (last_result(agent), interrupting.begun) == ("sent", 1)


def test_a_read_that_still_runs_behind_a_ctrl_c_is_not_repeated(interrupting, tmp_path):
    @tool.read_only
    def look(n: int) -> str:
        interrupting.go()
        return "seen"

    agent = agent_with(look, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(agent, "blocking")
    assert run(agent, "blocking", watch=interrupting.end_when_taken).status == "done"
    assert (last_result(agent), interrupting.begun) == ("seen", 1)


def test_a_coroutine_that_ctrl_c_cancelled_is_unknown_and_not_repeated(tmp_path):
    begun = []

    @tool
    async def send(n: int) -> str:
        begun.append(n)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return "sent"

    agent = agent_with(send, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(agent, "async")
    assert run(agent, "async").status == "done"
    assert last_result(agent).startswith("Outcome unknown: send(")
    assert begun == [1]


@pytest.fixture
def seats(tmp_path):
    """Counts the rows of a user's table in the store's database."""
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("create table seats (n)")
    yield lambda: connection.execute("select count(*) from seats").fetchone()[0]
    connection.close()


def test_a_transaction_that_ctrl_c_cut_off_writes_nothing_later(interrupting, seats, tmp_path):
    @tool.transactional
    def book(n: int, context: Context[sqlite3.Connection]) -> str:
        interrupting.go()
        context.transaction.execute("insert into seats values (?)", (n,))
        return "booked"

    agent = agent_with(book, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(agent, "blocking")
    assert run(agent, "blocking").status == "done"
    interrupting.end()
    assert (seats(), interrupting.begun, last_result(agent)) == (1, 2, "booked")


@MODES
def test_a_transaction_that_ctrl_c_met_is_committed_once(mode, seats, tmp_path):
    begun = []

    @tool.transactional
    def book(n: int, context: Context[sqlite3.Connection]) -> str:
        context.transaction.execute("insert into seats values (?)", (n,))
        begun.append(n)
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return "booked"

    agent = agent_with(book, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(agent, mode)
    assert run(agent, mode).status == "done"
    assert (seats(), last_result(agent)) == (1, "booked")
