"""The protocol's tasks extension (SEP-2663): a server that answers a call with a task goes on with it by itself.

The task's id is made by the server, and durably, before it answers; so it is the handle of accepted work, by which
this process or a later one asks how it stands. Before the answer came there is none: then the call is in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from mcp import types as protocol
from mcp.client import advertise

from midstride.tools.answers import CannotTell, DidNotHappen, Happened, Pending, Standing
from midstride.tools.mcp.content import error_text, value_of

__all__ = ["EXTENSION", "get_task", "standing_of", "task_of"]

Json = Any

EXTENSION = advertise("io.modelcontextprotocol/tasks")
"""Says to a server that it may answer with a task."""

AFTER_SECONDS = 5.0
"""When to ask again where the server does not say."""

AFTER_LEAST, AFTER_MOST = 0.1, 3600.0
"""Whatever it says: not in a tight loop, and not on another day."""


class _GetTaskParams(protocol.RequestParams):
    task_id: str


class _GetTask(protocol.Request[_GetTaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _GetTaskParams
    name_param: ClassVar[str | None] = "taskId"


def task_of(result: Mapping[str, Json]) -> str | None:
    """Return the id of the task that a call was answered with; None where it was answered with its result."""
    task = result.get("taskId")
    return task if result.get("resultType") == "task" and isinstance(task, str) else None


def get_task(task: str) -> protocol.Request[Any, Any]:
    """Return the request that asks how a task stands."""
    return _GetTask(params=_GetTaskParams(task_id=task))


def standing_of(answer: Mapping[str, Json]) -> Standing:
    """Return what a server says of a task: its result, or that it is under way, or that nothing comes of it."""
    said = f" {answer['statusMessage']}" if isinstance(answer.get("statusMessage"), str) else ""
    match answer.get("status"):
        case "working":
            return Pending(_after(answer.get("pollIntervalMs")))
        case "completed":
            return _completed(answer.get("result"))
        case "failed":
            error = answer.get("error")
            why = error.get("message", "") if isinstance(error, Mapping) else ""
            return DidNotHappen(f"The task failed.{said} {why}".strip())
        case "cancelled":
            return DidNotHappen(f"The task was cancelled.{said}")
        case "input_required":
            return CannotTell(f"The task waits for an input that cannot be given from here.{said}")
        case other:
            return CannotTell(f"The server says that the task is {other!r}, which is no status of the protocol.{said}")


def _completed(result: Json) -> Standing:
    if not isinstance(result, Mapping):
        return CannotTell("The task is completed, and the server does not give its result.")
    if result.get("isError"):
        return DidNotHappen(f"The task ended with an error: {error_text(result)}")
    return Happened(value_of(result))


def _after(milliseconds: Json) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, (int, float)):
        return AFTER_SECONDS
    return min(max(milliseconds / 1000, AFTER_LEAST), AFTER_MOST)
