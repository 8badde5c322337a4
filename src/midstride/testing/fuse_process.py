"""One process in thought: an agent, or the parts of a loop of one's own, with a fuse in all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from midstride.agent import Agent
from midstride.drive import Clock
from midstride.drive.attempts_here import forget
from midstride.drive.shell import place_of
from midstride.models import Draft, Model
from midstride.models.contract import Outcome
from midstride.stores import Store
from midstride.testing.fuse import Fuse, FusedStore
from midstride.tools import Context, Tool
from midstride.tools.polling import Polling

Json = Any


class Process:
    """What the program of a `Scene` is given: the store, and a fuse for everything else that reaches outside.

    `requests` are those that left the process, as JSON text.
    """

    def __init__(self, store: Store, clock: Clock, at: str | None = None) -> None:
        self.fuse = Fuse(at)
        self.store = FusedStore(store, self.fuse)
        self.requests: list[str] = []
        self._clock = clock

    def agent(self, agent: Agent) -> Agent:
        """Return *agent* as it is in this process: with its store, and a fuse in its model, tools and clock.

        An agent without a clock gets one that stands still, and that goes to any time it waits for.
        """
        self._clock = agent.clock or self._clock
        clock = FusedClock(self._clock, self.fuse)
        model = FusedModel(agent.model, self)
        return dataclasses.replace(agent, model=model, tools=self.tools(agent.tools), store=self.store, clock=clock)

    def tools(self, tools: Sequence[Tool[..., Any]]) -> list[Tool[..., Any]]:
        """Return *tools* with points before and after each attempt, and around each verify and poll."""
        return [FusedTool(tool, self.fuse) for tool in tools]

    @property
    def clock(self) -> Clock:
        """Return the clock for a loop of one's own."""
        return FusedClock(self._clock, self.fuse)

    @contextlib.contextmanager
    def asking(self, request: Mapping[str, Json], *, fetched: bool = False) -> Iterator[None]:
        """Ask the model in the block: the points around it, and a note of *request*; an `Agent` does it by itself.

        An answer that is only *fetched* was asked for before.
        """
        self.fuse.reach("ask before")
        if not fetched:
            self.requests.append(json.dumps(request))
        yield
        self.fuse.reach("ask after")

    def reach(self, point: str) -> None:
        """Pass a point of the program's own, such as between two steps of a tool, or die there.

        A death inside a function unwinds it: its `finally` blocks run, which a real death does not let happen.
        """
        self.fuse.reach(point)

    def wait_until(self, at: float) -> None:
        """Let the time come at which a run that rests asks another side again; nothing runs meanwhile."""
        time.sleep(self._clock.seconds_until(at))

    def end(self) -> None:
        """End the process for good, whether it died or came to rest, and free what the kernel would free."""
        died = self.fuse.died_at is not None
        if not died:
            self.store.close()
        self.fuse.end()
        forget(place_of(self.store))
        self.store.bury()

    def clean_up(self) -> None:
        """Close what a death left open, once the plan is judged."""
        for left in self.fuse.left:
            with contextlib.suppress(BaseException):
                left.close()
        self.store.inner.close()


class FusedModel:
    """The model as one process asks it."""

    def __init__(self, inner: Model, process: Process) -> None:
        self.inner, self._process = inner, process
        self.api, self.params, self.facts = inner.api, inner.params, inner.facts
        self.takes_prefill, self.server_tools = inner.takes_prefill, inner.server_tools

    def ask(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Send *request*, or fetch the answer to it that *handle* stands for."""
        with self._process.asking({**self.params, **request}, fetched=handle is not None):
            return self.inner.ask(request, draft, handle)

    async def ask_async(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Send *request*, or fetch the answer to it that *handle* stands for."""
        with self._process.asking({**self.params, **request}, fetched=handle is not None):
            return await self.inner.ask_async(request, draft, handle)


class FusedClock(Clock):
    """The clock of one process: waiting for a time is a point."""

    def __init__(self, inner: Clock, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def now(self) -> float:
        """Return the time."""
        return self._inner.now()

    def seconds_until(self, at: float) -> float:
        """Return how long to wait until *at*."""
        self._fuse.reach("wait")
        return self._inner.seconds_until(at)


_CALL = "midstride call"
"""No parameter has a blank in its name, so no argument of a tool's is called this."""


class FusedTool(Tool[..., Any]):
    """A tool of one process."""

    def __init__(self, inner: Tool[..., Any], fuse: Fuse) -> None:
        vars(self).update(vars(inner))
        self._fuse = fuse
        self.function = self._fused(inner.function, inner.name)
        self.look = None if inner.look is None else self._fused(inner.look, f"verify {inner.name}")
        polls = inner.polling
        fused = None if polls is None else self._fused(polls.function, f"poll {inner.name}")
        self.polling = dataclasses.replace(polls, function=fused) if polls and fused else None

    def call_arguments(self, valid: Any, context: Context[Any]) -> dict[str, Any]:
        """Return what the function is called with, and beside it which call it is."""
        return {**super().call_arguments(valid, context), _CALL: context}

    def look_arguments(self, valid: Any, context: Context[Any]) -> dict[str, Any]:
        """Return the same for its verify."""
        return {**super().look_arguments(valid, context), _CALL: context}

    def poll_arguments(self, asked: Polling, handle: Any, valid: Any, context: Context[Any]) -> dict[str, Any]:
        """Return the same for its poll."""
        return {**super().poll_arguments(asked, handle, valid, context), _CALL: context}

    def _fused(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        fuse = self._fuse

        def fused(**arguments: Any) -> Any:
            call = arguments.pop(_CALL)
            point = f"{name} {call.turn}.{call.index}"
            fuse.reach(f"{point} before")
            with fuse.running():
                made = function(**arguments)
            if inspect.isawaitable(made):
                return _awaited(_Resumed(made, fuse), fuse, f"{point} after")
            fuse.reach(f"{point} after")
            return made

        return fused


async def _awaited(made: Awaitable[Any], fuse: Fuse, after: str) -> Any:
    result = await made
    fuse.reach(after)
    return result


class _Resumed:
    """A coroutine that is resumed only while its process lives; the death of the process reaches it never."""

    def __init__(self, made: Awaitable[Any], fuse: Fuse) -> None:
        self._made, self._fuse = made, fuse

    def __await__(self) -> Generator[Any, Any, Any]:
        self._fuse.left.append(self._made)
        steps = self._made.__await__()
        self._fuse.left.append(steps)
        thrown: BaseException | None = None
        while True:
            try:
                with self._fuse.running():
                    wanted = next(steps) if thrown is None else _throw(steps, thrown)
            except StopIteration as end:
                return end.value
            thrown = None
            try:
                yield wanted
            except GeneratorExit:
                return None  # nobody waits any more: the coroutine stays as it stands
            except BaseException as error:
                thrown = error


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return steps.throw(error)
