"""Runs that would go round for ever: a tool that ends its own process, a request that is refused, cuts, pauses."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from cases.stage import Killed, Stage, forked
from midstride import tool
from midstride.stores import open_store
from midstride.testing import Answer, Fail, calls


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("effect", ["unsafe", "asked"])
def test_case_259_tool_restarts_own_process(effect, number, stage, url, folder):
    """The tool restarts the service, which is the agent itself: the call is unknown, and is not made a second time."""
    restarts = folder / "restarts"

    @tool(in_doubt="ask" if effect == "asked" else "report")
    def bash(c: str) -> str:
        with open(restarts, "a") as file:
            file.write(f"{c}\n")
        os.kill(os.getpid(), number)
        threading.Event().wait()
        raise AssertionError("unreachable")

    stage.says(calls(("bash", {"c": "restart agent"})), Answer("Restarted."))

    def program():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with closing(open_store(url)) as store:
            child = Stage(stage.way, store)
            child.server = stage.server
            (folder / "status").write_text(child.run(bash).status)

    codes = [forked(program) for _ in range(4)]
    status = (folder / "status").read_text()
    assert codes[0] in (-number, 130)
    assert (codes[1:], Path(restarts).read_text()) == ([0, 0, 0], "restart agent\n")
    assert status == ("waiting" if effect == "asked" else "done")
    if effect == "unsafe":
        ((content, is_error),) = stage.results
        assert (is_error, content.split(":")[0]) == (True, "Outcome unknown")
        assert "Its process ended before the result was recorded." in content


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_case_260_poisoned_history(status, stage):
    """The API refuses the request for good: it is sent once, also over three starts, and the run says what was said."""
    stage.says(lambda body, number: Fail(status, "invalid_request_error", "messages.1: bad"), by="request")
    results = [stage.run() for _ in range(3)]
    assert [(result.status, result.answer) for result in results] == [("failed", None)] * 3
    assert len(stage.server.requests) == 1
    assert f"HTTP {status}, messages.1: bad" in results[0].why
    assert stage.run(force=True).status == "failed"  # one that a person asks for is one more
    assert len(stage.server.requests) == 2


@pytest.mark.parametrize("name", ["write_file", "look"])
def test_case_261_length_stop_loop(name, stage):
    """Each answer is cut in the same call: it is never run, asked for twice more with more room, and then given up."""

    @(tool if name == "write_file" else tool.read_only)(name=name)
    def write(path: str) -> str:
        raise AssertionError("half of a call may not be run")

    cut = calls((name, {"path": "a"}), stop_reason="max_tokens")
    stage.says(lambda body, number: cut, by="request")
    statuses = [stage.run(write).status for _ in range(3)]
    rooms = [request["max_tokens"] for request in stage.server.requests]
    assert (statuses, rooms[:3]) == (["cut"] * 3, [100, 200, 400])
    assert len(rooms) == 3
    assert "intended" not in stage.kinds()


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tide table harbour"}}


@pytest.mark.parametrize("killed", [False, True], ids=["one process", "a process for each"])
def test_case_262_pause_turn_loop(killed, stage):
    """The turn is paused again and again: sent back as it is, and given up after ten, over however many processes."""
    stage.says(lambda body, number: Answer([SEARCH | {"id": f"srvtoolu_{number}"}], "pause_turn"), by="request")

    def dies(event):
        if getattr(getattr(event, "body", None), "kind", "") == "responded":
            raise Killed

    for _ in range(10 if killed else 0):
        stage.killed(watch=dies)
    result = stage.run()
    assert stage.run() == result
    assert (result.status, len(stage.server.requests), result.turns) == ("failed", 11, 11)
