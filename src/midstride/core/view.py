"""A run as the lesson's checkpoint: the six fields that the lesson's own code reads and writes.

The view is drawn from the run and never read back as truth: a store that keeps it beside the journal refuses a file
whose view and journal differ.
"""

from __future__ import annotations

from typing import Any

from midstride.core.run import FINISHED, Call, Run, State

VERSION = 1
"""The lesson's CHECKPOINT_VERSION."""

FIELDS = ("version", "task", "turns", "tokensUsed", "messages", "pendingToolUse")


def view(run: Run) -> dict[str, Any]:
    """Return the six fields: *turns* counts requests, *tokensUsed* is the current window."""
    return {
        "version": VERSION,
        "task": run.begun.task,
        "turns": run.turns,
        "tokensUsed": run.tokens_used,
        "messages": run.request,
        "pendingToolUse": _pending(run),
    }


def _pending(run: Run) -> dict[str, Any] | None:
    open_calls = [c for c in run.calls if c.state not in FINISHED]
    return _tool_use(open_calls[0]) if run.state is State.CALLS and open_calls else None


def _tool_use(call: Call) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "input": call.arguments}
