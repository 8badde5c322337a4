"""What the tests of the drivers share: a death, responses, and a look at what the model was told."""

import itertools
import signal

from midstride import Agent
from midstride.core.steps import Start, Transact
from midstride.drive.attempts import Attempts
from midstride.models import Scripted
from midstride.testing import SettableClock
from patience import SECONDS


class Killed(BaseException):
    """The process is gone, as far as the driver can tell: nobody catches a crash."""


def killed_at_start_of(name):
    """Return a watch that kills the driver when the intent of a call of *name* is saved and its tool not yet begun."""

    def watch(event):
        if isinstance(event, (Start, Transact)) and event.call.name == name:
            raise Killed

    return watch


def press_ctrl_c_behind(begun, monkeypatch):
    """Press Ctrl-C once, when the blocking driver waits for a tool that has said that it has *begun*."""
    really, pressed = Attempts.wait, []

    def wait(attempts, seconds):
        if attempts.running and not pressed:
            assert begun.wait(SECONDS)
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return really(attempts, seconds)

    monkeypatch.setattr(Attempts, "wait", wait)


def agent_of(script, tools=(), *, store, clock=None, **more):
    """Return an agent whose model answers from *script*; its clock stands still unless told otherwise."""
    return Agent(Scripted(script), tools, store=store, clock=clock or SettableClock(), **more)


def says(words):
    """Return a final response."""
    return _message([{"type": "text", "text": words}], "end_turn")


def uses(*named):
    """Return a response that calls tools by (name, arguments); every call ever made has an id of its own."""
    blocks = [{"type": "tool_use", "id": f"toolu_{next(_ids)}", "name": name, "input": given} for name, given in named]
    return _message(blocks, "tool_use")


_ids = itertools.count()


def _message(content, stop_reason):
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {"role": "assistant", "content": content, "stop_reason": stop_reason, "usage": usage}


def kinds(store, run_id="run"):
    """Return the kinds of the run's entries."""
    return [entry.body.kind for entry in store.read(run_id)]


def results(agent):
    """Return (content, is_error) of every result in the newest request to the agent's model."""
    blocks = [
        block
        for message in agent.model.requests[-1]["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    return [(block["content"], block.get("is_error", False)) for block in blocks]
