"""One poll of work that another side has accepted: the tool's poll is run here, and nothing is decided."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from midstride.core.reconcile import Seen
from midstride.core.run import Call
from midstride.core.steps import Ended
from midstride.drive.attempts import bounded
from midstride.drive.calls import Calls, awaited
from midstride.tools import CannotTell, DidNotHappen, Happened, Pending, content_of, text_of_error
from midstride.tools.content import Keep
from midstride.tools.schema import Problem, Valid

Ask = tuple[Callable[..., Any], dict[str, Any]]

CANCELLED = Seen("failed", why="It was cancelled.")
"""What a poll gave whose coroutine was cancelled, and not its driver."""


def poll(calls: Calls, call: Call, timeout: float) -> Seen:
    """Ask the tool's poll, in a thread; what raises, hangs for *timeout* seconds or answers else has failed."""
    with calls.observed.look(call) as note:
        seen = _poll(calls, call, timeout)
        note(seen)
        return seen


async def poll_async(calls: Calls, call: Call, timeout: float) -> Seen:
    """Ask a poll that is a coroutine function."""
    with calls.observed.look(call) as note:
        seen = await _poll_async(calls, call, timeout)
        note(seen)
        return seen


def _poll(calls: Calls, call: Call, timeout: float) -> Seen:
    def body() -> Ended:
        asking = _asking(calls, call)
        if isinstance(asking, Seen):
            return Ended(call.key, "returned", asking)
        ask, arguments = asking
        try:
            answer = ask(**arguments)
            answer = asyncio.run(awaited(answer)) if inspect.isawaitable(answer) else answer
            return Ended(call.key, "returned", _seen(answer, calls.keep))
        except asyncio.CancelledError:
            return Ended(call.key, "returned", CANCELLED)
        except Exception as error:
            return Ended(call.key, "returned", _raised(error))

    ended = bounded(body, call.key, timeout, f"poll {call.name}")
    seen: Seen = ended.content if ended.how == "returned" else _too_long(timeout)
    return seen


async def _poll_async(calls: Calls, call: Call, timeout: float) -> Seen:
    asking = _asking(calls, call)
    if isinstance(asking, Seen):
        return asking
    ask, arguments = asking
    try:
        async with asyncio.timeout(timeout) as limit:
            return _seen(await ask(**arguments), calls.keep)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # its driver's
        return CANCELLED
    except Exception as error:
        return _too_long(timeout) if limit.expired() else _raised(error)


def is_async(calls: Calls, call: Call) -> bool:
    """Tell whether the call's poll is a coroutine function."""
    tool = calls.find(call)
    return tool is not None and tool.polling is not None and tool.polling.is_async


def _asking(calls: Calls, call: Call) -> Ask | Seen:
    """Return the poll and its arguments; "cannot" where the program has nobody to ask."""
    tool = calls.find(call)
    if tool is None:
        return Seen("cannot", why=f"The program has no tool {call.name} any more.")
    if tool.polling is None:
        return Seen("cannot", why=f"The program has no way to ask: its tool has no poll (@{call.name}.poll).")
    valid = tool.validate(call.arguments) if tool.polling.names else Valid({})
    if isinstance(valid, Problem):
        return Seen("cannot", why="The program's poll takes other arguments now than when this call was made.")
    return tool.polling.function, tool.poll_arguments(
        tool.polling, call.handle, valid, calls.context(call, call.attempts)
    )


def _raised(error: Exception) -> Seen:
    if isinstance(error, DidNotHappen):
        return Seen("did not", why=error.why)
    return Seen("failed", why=f"It raised {text_of_error(error)}.")


def _too_long(timeout: float) -> Seen:
    return Seen("failed", why=f"It did not end within {timeout:g} s.")


def _seen(answer: Any, keep: Keep | None) -> Seen:
    match answer:
        case Happened(result):
            return Seen("happened", content_of(result, keep=keep))
        case Pending():
            return Seen("pending", after=answer.seconds)
        case DidNotHappen():
            return Seen("did not", why=answer.why)
        case type() as kind if kind is DidNotHappen:  # `return DidNotHappen`, as one may raise it
            return Seen("did not")
        case CannotTell(why):
            return Seen("cannot", why=why)
        case other:
            wanted = "Happened, Pending, DidNotHappen or CannotTell"
            return Seen("failed", why=f"It returned {type(other).__name__}, wanted {wanted}.")
