"""The lesson's loop with the reconcile of its incident, in Python: the test of the test, since it sends two mails.

    python naive.py CHECKPOINT

Same tools, same SDK, same mail server; only what is kept between two processes is the lesson's. Not to be used.
"""

from __future__ import annotations

import json
import runpy
import sys
import uuid
from pathlib import Path
from typing import Any

import anthropic

from midstride import Context
from midstride.demo import EXAMPLES

VERSION = 1
MAX_TURNS = 40
NOTES = runpy.run_path(str(EXAMPLES / "notes.py"))
TOOLS = {tool.name: tool for tool in NOTES["agent"].tools}


def run_agent(path: Path, task: str) -> Any:
    """Carry the task on from its checkpoint, or begin it; returns the state at the end."""
    client = anthropic.Anthropic()
    state = load_checkpoint(path) or new_state(task)
    if state["pendingToolUse"]:
        state = reconcile(state)
    while state["turns"] < MAX_TURNS:
        state["turns"] += 1
        response: Any = client.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=8_192,
            messages=state["messages"],
            tools=[tool.definition for tool in TOOLS.values()],
            tool_choice={"type": "auto", "disable_parallel_tool_use": True},  # the loop knows one call an answer
        ).to_dict(mode="json")
        state["tokensUsed"] = response["usage"]["input_tokens"] + response["usage"]["output_tokens"]
        state["messages"].append({"role": "assistant", "content": response["content"]})
        call = next((block for block in response["content"] if block["type"] == "tool_use"), None)
        state["pendingToolUse"] = call and {name: call[name] for name in ("id", "name", "input")}
        save_checkpoint(path, state)  # save point A: after the model's response
        if call is None:
            break
        output = execute_tool(call["name"], call["input"])
        state["messages"].append(result_message(call["id"], output))
        state["pendingToolUse"] = None
        save_checkpoint(path, state)  # save point B: after the tool's result is recorded
    return state


def new_state(task: str) -> Any:
    """Return the lesson's six fields for a fresh start."""
    messages = [{"role": "user", "content": task}]
    counters = {"turns": 0, "tokensUsed": 0}
    return {"version": VERSION, "task": task, **counters, "messages": messages, "pendingToolUse": None}


def reconcile(checkpoint: Any) -> Any:
    """Run the call that has no result, whatever it does: the fault."""
    pending = checkpoint["pendingToolUse"]
    output = execute_tool(pending["name"], pending["input"])
    checkpoint["messages"].append(result_message(pending["id"], output))
    checkpoint["pendingToolUse"] = None
    return checkpoint


def result_message(call_id: str, output: str) -> Any:
    """Return the message that answers one call."""
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}]}


def execute_tool(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool; each time is a new mail to it, since nothing outlives the process but the checkpoint."""
    context = {"context": Context(uuid.uuid4().hex, "naive", name, 0, 0)} if name == "send_email" else {}
    output: Any = TOOLS[name](**arguments, **context)
    return output if isinstance(output, str) else json.dumps(output)


def save_checkpoint(path: Path, state: Any) -> None:
    """Replace the checkpoint in one step."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(state, indent=2))
    temporary.replace(path)


def load_checkpoint(path: Path) -> Any:
    """Return the checkpoint, or None."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    if found["version"] != VERSION:
        raise SystemExit(f"checkpoint version mismatch: file is v{found['version']}, code is v{VERSION}")
    return found


if __name__ == "__main__":
    final = run_agent(Path(sys.argv[1]), NOTES["TASK"])["messages"][-1]["content"]
    sys.stdout.write("".join(block.get("text", "") for block in final) + "\n")
