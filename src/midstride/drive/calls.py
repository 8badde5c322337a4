"""One attempt of a call, and one look at it: the tool's function is run here, and nothing is decided."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from midstride.core.reconcile import Seen
from midstride.core.run import Call
from midstride.core.steps import Ended
from midstride.drive.attempts import bounded, handed_over
from midstride.drive.observing import NOBODY, Observed
from midstride.errors import DeclarationError
from midstride.tools import (
    Accepted,
    CannotTell,
    Context,
    DidNotHappen,
    Happened,
    Tool,
    Toolbox,
    content_of,
    text_of_error,
)
from midstride.tools.command import LEASH
from midstride.tools.content import Keep
from midstride.tools.context import Handed
from midstride.tools.schema import Problem


class Calls:
    """The calls of one run, with the program's tools."""

    def __init__(self, toolbox: Toolbox, run_id: str, nonce: str, keep: Keep | None = None) -> None:
        self._toolbox, self._run_id, self._nonce, self.keep = toolbox, run_id, nonce, keep
        self.observed: Observed = NOBODY

    def find(self, call: Call) -> Tool[..., Any] | None:
        """Return the call's tool, if the program has it."""
        return self._toolbox.get(call.name)

    def tool(self, call: Call) -> Tool[..., Any]:
        """Return the call's tool; the core starts no call whose tool is gone."""
        tool = self.find(call)
        if tool is None:
            raise DeclarationError(f"the program has no tool {call.name!r}: add it, and run the same program again")
        return tool

    def context(self, call: Call, attempt: int, handed: Handed | None = None) -> Context[Any]:
        """Return what the tool is told; its key is a hash of (nonce, turn, index), the same for every attempt."""
        key = hashlib.sha256(f"{self._nonce}/{call.turn}/{call.index}".encode()).hexdigest()
        leash = LEASH.get()
        return Context(key, self._run_id, call.id, call.turn, call.index, attempt, _handed=handed, _leash=leash)

    # ---- an attempt

    def attempt(
        self, call: Call, attempt: int, transaction: Any = None, handed: Handed | None = None
    ) -> Callable[[], Ended]:
        """Return the body of an attempt, to be run in a thread; *handed* has the handle as soon as there is one."""
        body = self._attempt(call, attempt, transaction, handed or Handed())

        def observed() -> Ended:
            with self.observed.attempt(call, attempt) as note:
                ended = body()
                note(ended)
                return ended

        return observed

    async def attempt_async(
        self, call: Call, attempt: int, transaction: Any = None, handed: Handed | None = None
    ) -> Ended:
        """Run an attempt of a coroutine tool."""
        with self.observed.attempt(call, attempt) as note:
            ended = await self._attempt_async(call, attempt, transaction, handed or Handed())
            note(ended)
            return ended

    def _attempt(self, call: Call, attempt: int, transaction: Any, handed: Handed) -> Callable[[], Ended]:
        def body() -> Ended:
            prepared = self._prepared(call, attempt, transaction, handed)
            if isinstance(prepared, Ended):
                return prepared
            tool, arguments = prepared
            try:
                made = tool.function(**arguments)
                made = asyncio.run(awaited(made)) if inspect.isawaitable(made) else made
                return self._returned(call, made, transaction)
            except Exception as error:
                return handed_over(call.key, handed) or raised(call, error)

        return body

    async def _attempt_async(self, call: Call, attempt: int, transaction: Any, handed: Handed) -> Ended:
        prepared = self._prepared(call, attempt, transaction, handed)
        if isinstance(prepared, Ended):
            return prepared
        tool, arguments = prepared
        try:
            return self._returned(call, await tool.function(**arguments), transaction)
        except Exception as error:
            return handed_over(call.key, handed) or raised(call, error)

    def _returned(self, call: Call, made: Any, transaction: Any) -> Ended:
        if not isinstance(made, Accepted):
            return Ended(call.key, "returned", content_of(made, keep=self.keep))
        if transaction is None:
            return Ended(call.key, "accepted", made.handle)
        raise DeclarationError("a transactional tool commits with its result, so it can hand nothing over")

    def _prepared(
        self, call: Call, attempt: int, transaction: Any, handed: Handed
    ) -> tuple[Tool[..., Any], dict[str, Any]] | Ended:
        tool, context = self.tool(call), self.context(call, attempt, handed)
        valid = tool.validate(call.arguments)
        if isinstance(valid, Problem):
            return Ended(call.key, "did not happen", valid.text)
        return tool, tool.call_arguments(valid, context if transaction is None else context.within(transaction))

    # ---- a look

    def look(self, call: Call, timeout: float) -> Seen:
        """Ask the tool's verify, in a thread; what raises, hangs or answers something else cannot tell."""
        with self.observed.look(call) as note:
            seen = self._look(call, timeout)
            note(seen)
            return seen

    async def look_async(self, call: Call, timeout: float) -> Seen:
        """Ask a verify that is a coroutine function."""
        with self.observed.look(call) as note:
            seen = await self._look_async(call, timeout)
            note(seen)
            return seen

    def _look(self, call: Call, timeout: float) -> Seen:
        def body() -> Ended:
            looking = self._looking(call)
            if isinstance(looking, Ended):
                return looking
            look, arguments = looking
            try:
                answer = look(**arguments)
                answer = asyncio.run(awaited(answer)) if inspect.isawaitable(answer) else answer
                return Ended(call.key, "returned", answer)
            except Exception as error:
                return _failed_look(call, error)

        return _seen(bounded(body, call.key, timeout, f"verify {call.name}"), self.keep)

    async def _look_async(self, call: Call, timeout: float) -> Seen:
        looking = self._looking(call)
        if isinstance(looking, Ended):
            return _seen(looking, None)
        look, arguments = looking
        try:
            async with asyncio.timeout(timeout):
                return _seen(Ended(call.key, "returned", await look(**arguments)), self.keep)
        except TimeoutError:
            return Seen("cannot", why=f"Its verify did not end within {timeout:g} s.")
        except Exception as error:
            return _seen(_failed_look(call, error), None)

    def _looking(self, call: Call) -> tuple[Callable[..., Any], dict[str, Any]] | Ended:
        tool = self.tool(call)
        valid = tool.validate(call.arguments)
        if tool.look is None or isinstance(valid, Problem):
            return Ended(call.key, "raised", "There is no verify to ask any more.")
        return tool.look, tool.look_arguments(valid, self.context(call, call.attempts))


async def awaited(made: Awaitable[Any]) -> Any:
    """Return what *made* comes to, as a coroutine of its own."""
    return await made


def raised(call: Call, error: Exception) -> Ended:
    """Return how an attempt ended that raised *error*."""
    if isinstance(error, DidNotHappen):
        return Ended(call.key, "did not happen", error.told, type=class_of(error))
    return Ended(call.key, "raised", f"It raised {text_of_error(error)}.", type=class_of(error))


def class_of(error: BaseException) -> str:
    """Return the name of an error's class, with its module unless it is Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _failed_look(call: Call, error: Exception) -> Ended:
    if isinstance(error, DidNotHappen):
        return Ended(call.key, "returned", error)
    return Ended(call.key, "raised", f"Its verify raised {text_of_error(error)}.")


def _seen(ended: Ended, keep: Keep | None) -> Seen:
    if ended.how != "returned":
        return Seen("cannot", why=str(ended.content))
    match ended.content:
        case Happened(result):
            return Seen("happened", content_of(result, keep=keep))
        case DidNotHappen() as answer:
            return Seen("did not", why=answer.why)
        case type() as answer if answer is DidNotHappen:  # `return DidNotHappen`, as one may raise it
            return Seen("did not")
        case CannotTell(why):
            return Seen("cannot", why=why)
        case other:
            wanted = "Happened, DidNotHappen or CannotTell"
            return Seen("cannot", why=f"Its verify returned {type(other).__name__}, wanted {wanted}.")
