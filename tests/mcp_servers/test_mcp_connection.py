"""How long the connection to an MCP server lives: made when needed, made anew, shared, and gone with the process."""

import json
import os
import select
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp_program import start

from drive.scenes import Killed, agent_of, killed_at_start_of, results, says, uses
from midstride.errors import ToolsUnavailable
from midstride.stores import MemoryStore
from midstride.tools import mcp_tools
from midstride.tools.mcp.connection import NoAnswer


def test_a_server_that_died_is_connected_to_again(notes):
    with notes.tools() as tools:
        first = tools["pid"]()
        notes.kill()
        notes.start()
        assert tools["pid"]() != first
        assert tools["send"](text="a") == "sent a"
    assert notes.effects == ["sent a"]


def test_a_server_that_hangs_is_given_up_behind_a_call_without_an_answer(stdio):
    with stdio.tools(timeout=2) as tools:
        hanging = stdio.pid
        os.kill(hanging, signal.SIGSTOP)
        try:
            with pytest.raises(NoAnswer):
                tools["pid"]()
            assert tools["pid"]() not in (str(hanging), hanging)
        finally:
            os.kill(hanging, signal.SIGKILL)


def test_a_slow_call_costs_no_other_its_connection(stdio):
    with stdio.tools(timeout=2) as tools, stdio.held():
        with pytest.raises(NoAnswer):
            tools["look"](text="a")
        assert tools["pid"]() == str(stdio.pid)


def test_many_calls_at_once_share_one_server(notes):
    with notes.tools() as tools, ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: tools["pid"](), range(24)))
    assert found == {str(notes.pid)}


def test_two_runs_share_one_server(stdio, drive):
    store = MemoryStore()
    with stdio.tools() as tools:
        agent = agent_of([uses(("pid", {})), says("Done."), uses(("pid", {})), says("Done.")], tools, store=store)
        told = []
        for run_id in ("one", "two"):
            drive(agent, id=run_id)
            told += results(agent)
    assert told == [(str(stdio.pid), False)] * 2


def test_after_a_close_the_process_and_the_thread_are_gone_and_no_call_starts(stdio, drive):
    tools = stdio.tools()
    process = os.pidfd_open(stdio.pid)
    tools.close()
    assert select.select([process], [], [], 30)[0]
    os.close(process)
    assert [thread.name for thread in threading.enumerate() if "mcp" in thread.name] == []
    agent = agent_of([uses(("send", {"text": "a"})), says("Done.")], tools, store=MemoryStore())
    drive(agent)
    [(content, _)] = results(agent)
    assert content.startswith("Failed: it did not happen. The connection to the MCP server ")
    tools.close()


def test_a_forked_child_has_a_connection_of_its_own(notes):
    with notes.tools() as tools:
        before = tools["pid"]()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                told = {"pid": tools["pid"](), "sent": tools["send"](text="by the child")}
                os.write(writing, json.dumps(told).encode())
                tools.close()
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert select.select([pipe], [], [], 120)[0], "the forked child hangs"
            told = json.loads(pipe.read())
        os.waitpid(child, 0)
        assert told["sent"] == "sent by the child"
        assert (told["pid"] == before) == (notes.transport == "http")
        assert tools["pid"]() == before


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (
            ["no-such-command", "--token", "secret"],
            "MCP server no-such-command --token [redacted: token] cannot be reached: FileNotF",
        ),
        (["false"], "the MCP server false cannot be reached: "),
        (
            ["sh", "-c", "echo I want a key >&2; exit 1"],
            "(its last words: I want a key); nothing is lost, run the same",
        ),
        (
            "http://user:secret@127.0.0.1:1/mcp?key=secret",
            "the MCP server http://127.0.0.1:1/mcp cannot be reached: Co",
        ),
    ],
)
def test_a_server_that_is_down_when_its_tools_are_asked_for_is_named(server, why):
    with pytest.raises(ToolsUnavailable) as caught:
        mcp_tools(server)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_headers_are_sent_and_a_password_that_is_no_longer_good_is_a_definite_no(http, drive):
    http.kill()
    http.password = "opensesame"
    http.start()
    with pytest.raises(ToolsUnavailable):
        http.tools()
    with http.tools(headers={"Authorization": "Bearer opensesame"}) as tools:
        assert tools["pid"]() == str(http.pid)
        http.kill()
        http.password = "another"
        http.start()
        agent = agent_of([uses(("send", {"text": "a"})), says("Done.")], tools, store=MemoryStore())
        drive(agent)
        [(content, _)] = results(agent)
    assert content.startswith("Failed: it did not happen. ")
    assert "401" in content
    assert http.effects == []


def test_another_schema_of_the_server_is_reported_as_a_changed_tool(notes, drive):
    store = MemoryStore()
    script = [uses(("send", {"text": "a"})), says("Done.")]
    with notes.tools() as tools:
        agent = agent_of(script, tools, store=store)
        with pytest.raises(Killed):
            drive(agent, watch=killed_at_start_of("send"))
    notes.become("other schema")
    with notes.tools() as tools:
        agent = agent_of(script, tools, store=store)
        drive(agent)
        [(content, is_error)] = results(agent)
    assert "takes other arguments now than when this call was made" in content
    assert is_error
    assert notes.effects == []


# ---- a whole program


def killed_and_run_again(notes, name, before=lambda: None, **arguments):
    """Kill the program in the middle of the call, run it again, and return the result that its model is shown."""
    started = []
    with notes.in_the_middle(lambda: (before(), started[0].kill())):
        started.append(start(notes.folder, notes.server, name, **arguments))
        with started[0] as process:
            process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    with start(notes.folder, notes.server, name, **arguments) as process:
        printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(printed)


def test_a_program_that_is_killed_in_the_middle_of_an_effect_reports_it_as_unknown_and_its_server_dies_with_it(stdio):
    child = []
    result = killed_and_run_again(stdio, "send", lambda: child.append(os.pidfd_open(stdio.pid)), text="a")
    assert result["content"].startswith('Outcome unknown: send({"text": "a"}) may or may not have taken effect')
    assert result["is_error"]
    assert stdio.effects == ["sent a"]
    assert select.select(child, [], [], 30)[0]
    os.close(child[0])


def test_a_program_that_is_killed_in_the_middle_of_an_idempotent_call_repeats_it_with_its_key(http):
    result = killed_and_run_again(http, "charge", cents=5)
    assert result["content"].endswith(", known")
    assert http.effects == ["charged 5"]
