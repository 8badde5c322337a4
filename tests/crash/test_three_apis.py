"""A real process is killed with SIGKILL at both save points and inside an effect, over each of the three APIs."""

import signal
import subprocess
import sys
import threading

import pytest

from crash.three_apis import agent_of
from midstride.testing import Answer, FakeModel, Hold, SettableClock, calls

APIS = ("anthropic", "openai-chat", "openai-responses")
ASKS = calls(("look", {"n": 1}), ("send", {"n": 2}), text="Two at once.")


def texts_of(request):
    """Return the results in a request, in order, whatever API it is of."""
    if "input" in request:
        return [one["output"] for one in request["input"] if one.get("type") == "function_call_output"]
    tools = [one["content"] for one in request["messages"] if one["role"] == "tool"]
    users = [one["content"] for one in request["messages"] if isinstance(one["content"], list)]
    return tools or [b["content"] for content in users for b in content if b["type"] == "tool_result"]


def killed(api, server, folder, until):
    """Run the program until *until* returns, and kill it there."""
    program = [sys.executable, "-m", "crash.three_apis", api, server.url, str(folder)]
    child = subprocess.Popen(program, cwd=folder.parent, env=environment())
    try:
        until(child)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def environment():
    import os

    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOME": "/nonexistent"}


def resumed(api, server, folder):
    agent, client = agent_of(api, server.url, folder, clock=SettableClock())
    with client:
        return agent.run("go", "run")


@pytest.mark.parametrize("api", APIS)
def test_a_request_that_was_lost_is_sent_again_byte_for_byte(api, tmp_path):
    (tmp_path / "go on").touch()
    held = threading.Event()
    with FakeModel([ASKS, [Hold(held, Answer("Done.")), Answer("Done.")]]) as server:
        killed(api, server, tmp_path, lambda child: server.wait_for(2, timeout=60))
        held.set()
        result = resumed(api, server, tmp_path)
    assert (result.answer, result.turns) == ("Done.", 3)
    assert server.bodies[2] == server.bodies[1]
    assert texts_of(server.requests[2]) == ["saw 1", "sent 2"]
    assert (tmp_path / "sent").read_text() == "2\n"


@pytest.mark.parametrize("api", APIS)
def test_an_effect_that_was_under_way_is_told_as_unknown_and_not_done_again(api, tmp_path):
    sent = tmp_path / "sent"

    def inside_the_effect(child):
        while not (sent.exists() and sent.read_text().endswith("\n")):  # it is there before its line is
            assert child.poll() is None
            threading.Event().wait(0.01)

    with FakeModel([ASKS, Answer("Done.")]) as server:
        killed(api, server, tmp_path, inside_the_effect)
        result = resumed(api, server, tmp_path)
    looked, told = texts_of(server.requests[-1])
    assert (result.answer, looked) == ("Done.", "saw 1")
    assert told.startswith('Outcome unknown: send({"n": 2}) may or may not have taken effect')
    assert sent.read_text() == "2\n"
    assert [call.name for call in result.doubts] == ["send"]
