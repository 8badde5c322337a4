"""The asynchronous driver: `AsyncRun`; the same steps, and nothing blocks the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, TypeVar

from midstride.core.reconcile import Seen
from midstride.core.run import Call
from midstride.core.settle import advance
from midstride.core.steps import (
    Append,
    Check,
    Ended,
    Gather,
    LookUp,
    Mend,
    Pause,
    PollUp,
    Reply,
    Send,
    Start,
    Step,
    Steps,
    Tail,
    Transact,
)
from midstride.drive.blocking import LEFT, jittered, parts_of, saves_answer, told
from midstride.drive.calls import Calls
from midstride.drive.handle import RunHandle, TurnHandle
from midstride.drive.polls import is_async, poll, poll_async
from midstride.drive.result import Result
from midstride.drive.shell import Shell, place_of
from midstride.drive.stop import Stop
from midstride.drive.transact import transact
from midstride.errors import Interrupted, NotAllowed
from midstride.models import Model
from midstride.models.contract import check_ready
from midstride.threads import in_thread
from midstride.tools.context import Handed

Json = Any
T = TypeVar("T")


async def looked(calls: Calls, call: Call, timeout: float) -> Seen:
    """Ask *call*'s verify, which may be a coroutine function, without blocking the event loop."""
    if not calls.tool(call).look_is_async:
        return await in_thread(calls.look, call, timeout)
    return await calls.look_async(call, timeout)


class AsyncDriver:
    """Performs the steps of one run, one after the other."""

    def __init__(self, shell: Shell, stop: Stop | None = None) -> None:
        self.shell, self._stop = shell, stop
        self._lane = place_of(shell.store)
        self._steps: Steps | None = None
        self._step: Step | None = None

    async def next_send(self) -> Send | None:
        """Go on until the model is to be asked; None when the run rests."""
        if self.shell.rest is not None:
            return None
        desk = self.shell.taken_up()
        if self._steps is None:
            self._steps = advance(desk)
            self._step = next(self._steps)
        while self.shell.rest is None and not isinstance(self._step, Send):
            await self._perform()
        return self._step if isinstance(self._step, Send) else None

    async def answer(self, value: Any) -> None:
        """Give the model's answer to the run; when this returns it is on disk."""
        self._reply(value)
        while saves_answer(self._step):
            await self._perform()

    async def _perform(self) -> None:
        step, self._step = self._step, None  # what ends this in the middle must not do the step a second time
        if step is None:
            raise NotAllowed(LEFT)
        self._reply(await self._do(step))

    def _reply(self, value: Any) -> None:
        assert self._steps is not None
        stopping = self._stop is not None and self._stop.asked.is_set()
        if isinstance(value, Tail):
            self.shell.tell.others(value.entries, self.shell.run)
        reply = Reply(self.shell.clock.now(), value, self.shell.drain(), stopping)
        try:
            self._step = self._steps.send(reply)
        except StopIteration as end:
            self.shell.rest, self._step = end.value, None

    async def unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Wait for *waiting*; once the driver is asked to stop, for what is left of the grace."""
        if self._stop is None:
            return await waiting
        task, asked = asyncio.ensure_future(waiting), asyncio.ensure_future(self._stop.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({task}, timeout=self._stop.seconds_left())
            if not task.done():
                raise Interrupted(
                    "the run stopped before its tools had ended; nothing is lost, run the same program again"
                )
            return task.result()
        finally:
            for left in (task, asked):
                left.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)

    async def _do(self, step: Step) -> Any:
        shell = self.shell
        match step:
            case Append():
                return told(shell, await self._saved(step), step.entries, step.whys)
            case Check():
                return shell.requests.check(step.run)
            case Mend():
                return shell.requests.mend(step.run)
            case Start():
                return await self._start(step)
            case Gather():
                until = None if step.until is None else shell.clock.seconds_until(step.until)
                return await self.unless_stopped(self._gather(until))
            case Transact():
                shell.tell.step(step, shell.run)
                value = await self._transact(step)
                return told(shell, value, value)
            case LookUp():
                shell.tell.step(step, shell.run)
                return await looked(shell.calls, step.call, step.timeout)
            case PollUp():
                shell.tell.step(step, shell.run)
                return await self._poll(step)
            case Pause():
                shell.tell.step(step, shell.run)
                return await self._pause(shell.clock.seconds_until(shell.clock.now() + jittered(step.seconds)))
            case Send():
                raise NotAllowed("the model's answer is owed: give it with turn.respond")

    async def _saved(self, step: Append) -> Tail | None:
        return await in_thread(self.shell.append, step.entries, lane=("write", self._lane))

    async def _looked(self, work: Callable[[], T]) -> T:
        """Look at the store, behind other looks and no writes: these may wait long for whoever locks it."""
        return await in_thread(work, lane=("look", self._lane))

    async def _gather(self, seconds: float | None) -> Tail | None:
        shell = self.shell
        for part in parts_of(seconds):
            if await shell.attempts.wait_async(part):
                return None
            tail = await self._looked(shell.overheard)
            if tail is not None:
                return tail
        return None

    async def _pause(self, seconds: float) -> None:
        if self._stop is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.asked.wait(), seconds)

    async def _start(self, step: Start) -> None:
        shell, call = self.shell, step.call
        shell.tell.step(step, shell.run)
        tool, handed = shell.calls.tool(call), Handed()
        if step.effect:
            await self._looked(shell.check_newest)  # a child that was forked since has the intent, and not the run
        if tool.is_async:
            body = shell.calls.attempt_async(call, step.attempt, handed=handed)
            shell.attempts.start_task(call.key, body, step.timeout, call.name, effect=step.effect, handed=handed)
        else:
            work = shell.calls.attempt(call, step.attempt, handed=handed)
            shell.attempts.start_thread(call.key, work, step.timeout, call.name, effect=step.effect, handed=handed)

    async def _transact(self, step: Transact) -> Any:
        shell, given_up = self.shell, _GivenUp()

        def body_of(connection: Any) -> Callable[[], Ended]:
            if not shell.calls.tool(step.call).is_async:
                return shell.calls.attempt(step.call, step.attempt, connection)
            return given_up.unless(lambda: shell.calls.attempt_async(step.call, step.attempt, connection), step.call)

        try:
            return await in_thread(transact, shell, step, body_of, on_cancel=given_up.give_up)
        finally:
            given_up.give_up()  # a coroutine that ran out of time: it could write nothing more

    async def _poll(self, step: PollUp) -> Seen:
        calls, call = self.shell.calls, step.call
        if not is_async(calls, call):
            return await in_thread(poll, calls, call, step.timeout)
        return await poll_async(calls, call, step.timeout)

    async def __aenter__(self) -> AsyncDriver:
        try:
            await in_thread(self.shell.open)
        except asyncio.CancelledError as error:
            if self.shell.lease is not None:  # the thread has taken it up all the same, and nobody else gives it back
                await in_thread(self.shell.close, error)
            raise
        self.shell.observed.enter()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.shell.observed.leave()
        try:
            await self.shell.attempts.cancel_tasks()
        finally:
            await in_thread(self.shell.close, error)


class _GivenUp:
    """Ends the coroutine of a transaction that nobody waits for any more: in this loop, while a thread waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = threading.Event()
        self._tasks: list[Future[Ended]] = []

    def unless(self, attempt: Callable[[], Coroutine[Any, Any, Ended]], call: Call) -> Callable[[], Ended]:
        """Return the body of *attempt*, for a thread."""

        def body() -> Ended:
            try:
                return self._begun(attempt).result()
            except CancelledError:
                if self._over.is_set():
                    raise asyncio.CancelledError from None  # its driver's: the transaction is rolled back
                return Ended(call.key, "raised", "It was cancelled.")

        return body

    def _begun(self, attempt: Callable[[], Coroutine[Any, Any, Ended]]) -> Future[Ended]:
        if self._over.is_set():
            raise CancelledError
        task = asyncio.run_coroutine_threadsafe(attempt(), self._loop)
        self._tasks.append(task)
        if self._over.is_set():  # meanwhile
            task.cancel()
        return task

    def give_up(self) -> None:
        """Cancel the coroutine, now or when it begins; one that has ended is not touched."""
        self._over.set()
        for task in self._tasks:
            task.cancel()


class AsyncTurn(TurnHandle):
    """One request that is owed, and the place for its response."""

    def __init__(self, driver: AsyncDriver, send: Send) -> None:
        super().__init__(driver.shell, send)
        self._driver = driver

    async def respond(self, response: Any) -> None:
        """Record the response, as `Turn.respond` does."""
        await self._driver.answer(self._take(response))


class AsyncRun(RunHandle):
    """A run, driven by an asynchronous loop of your own: `async with AsyncRun(...) as run: async for turn in run`.

    All else as `Run`.
    """

    _driver_type = AsyncDriver
    _driver: AsyncDriver

    async def __aenter__(self) -> AsyncRun:
        await self._driver.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._driver.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[AsyncTurn]:
        return self

    async def __anext__(self) -> AsyncTurn:
        self._check_answered()
        send = await self._driver.next_send()
        if send is None:
            raise StopAsyncIteration
        self._handed = turn = AsyncTurn(self._driver, send)
        return turn


async def drive_async(shell: Shell, model: Model, stop: Stop | None = None) -> Result:
    """Take the run up and carry it on with *model* until it rests, or until *stop* is asked for (Interrupted)."""
    async with AsyncDriver(shell, stop) as driver:
        if shell.rest is None:
            check_ready(model, blocking=False)
        while (send := await driver.next_send()) is not None:
            if stop is not None and stop.asked.is_set():
                raise Interrupted("the run stopped as it was asked to; nothing is lost, run the same program again")
            request = shell.request(send.run)
            with shell.observed.request(request, send.run) as note:
                asking = model.ask_async(request, shell.tell.drafts(note), send.handle)
                value = await driver.unless_stopped(asking)
                note(value)
            await driver.answer(shell.answered(value) if isinstance(value, Mapping) else value)
        return shell.result()
