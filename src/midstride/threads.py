"""Work that blocks, done beside an event loop in a thread of its own.

Not in the loop's pool of threads: that one is small and the program's too, so what hangs there, a tool's own
`asyncio.to_thread` say, would keep results of other calls from being saved. A thread that has done its work waits a
moment for more: to start one holds the event loop up until it runs, which with many runs at once costs most of all.

What is done on one store goes through its lanes, of so many threads and no more: each that waits for the interpreter
asks for it two hundred times a second, and a thousand of them leave little time for anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], None]

IDLE_MAX = 64
"""Threads that wait for work; what is more ends with its work."""

IDLE_SECONDS = 1.0
"""How long one waits."""


LANE_WIDTH = 64
"""Pieces of work that are done at once in one lane: as many appends can be written with one sync."""


async def in_thread(
    function: Callable[..., T],
    *arguments: Any,
    on_cancel: Callable[[], None] | None = None,
    lane: Hashable = None,
) -> T:
    """Run *function* in a thread to its end, even when this task is cancelled: a save is done wholly or not at all.

    *on_cancel* is called then, to bring the end about. With a *lane* it waits for its turn there, first come, first
    served: that is for work which ends by itself and waits for nothing else in the lane.
    """
    work = _begun(function, arguments, lane)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        work.exception()  # looked at here, since nobody else can: the cancellation is what is told
        raise


def _begun(function: Callable[..., T], arguments: tuple[Any, ...], lane: Hashable) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    work: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def body() -> None:
        try:
            value = context.run(function, *arguments)
        except BaseException as error:  # whoever waits raises it
            tell(work.set_exception, error)
        else:
            tell(work.set_result, value)

    def tell(settle: Callable[[Any], None], outcome: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if work.done() else settle(outcome))

    if lane is None:
        _threads.begin(body)
    else:
        _lanes.begin(lane, body)
    return work


class _Threads:
    """Threads that do one piece of work after the other, each when it has ended the last."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._idle: list[SimpleQueue[Work]] = []

    def begin(self, work: Work) -> None:
        """Let a thread do *work*, which raises nothing."""
        with self._mutex:
            idle = self._idle.pop() if self._idle else None
        if idle is None:
            idle = SimpleQueue()
            threading.Thread(target=self._serve, args=(idle,), name="midstride aside", daemon=True).start()
        idle.put(work)

    def _serve(self, own: SimpleQueue[Work]) -> None:
        own.get()()
        while self._did_more(own):
            pass

    def _did_more(self, own: SimpleQueue[Work]) -> bool:
        work = self._more(own)  # a name here and not in `_serve`: who waits keeps nothing of the last work in memory
        if work is not None:
            work()
        return work is not None

    def _more(self, own: SimpleQueue[Work]) -> Work | None:
        with self._mutex:
            if len(self._idle) >= IDLE_MAX:
                return None
            self._idle.append(own)
        try:
            return own.get(timeout=IDLE_SECONDS)
        except Empty:
            with self._mutex:
                if own in self._idle:
                    self._idle.remove(own)
                    return None
            return own.get()  # it was taken in this very moment


@dataclass(slots=True)
class _Lane:
    """What waits in a lane, and how many threads do work of it."""

    waiting: deque[Work] = field(default_factory=deque)
    busy: int = 0


class _Lanes:
    """The lanes in which something is done; one that has nothing left to do is forgotten."""

    def __init__(self, threads: _Threads) -> None:
        self._threads = threads
        self._mutex = threading.Lock()
        self._lanes: dict[Hashable, _Lane] = {}

    def begin(self, name: Hashable, work: Work) -> None:
        """Let a thread of the lane *name* do *work*, which raises nothing, behind what came before."""
        with self._mutex:
            lane = self._lanes.setdefault(name, _Lane())
            lane.waiting.append(work)
            if lane.busy == LANE_WIDTH:
                return
            lane.busy += 1
        try:
            self._threads.begin(lambda: self._serve(name, lane))
        except RuntimeError:  # no thread could be made
            if self._took_back(name, lane, work):
                raise

    def _took_back(self, name: Hashable, lane: _Lane, work: Work) -> bool:
        with self._mutex:
            is_mine = work in lane.waiting
            if is_mine:
                lane.waiting.remove(work)
            self._leave(name, lane)
            return is_mine

    def _serve(self, name: Hashable, lane: _Lane) -> None:
        while (work := self._next(name, lane)) is not None:
            work()

    def _next(self, name: Hashable, lane: _Lane) -> Work | None:
        with self._mutex:
            if lane.waiting:
                return lane.waiting.popleft()
            self._leave(name, lane)
            return None

    def _leave(self, name: Hashable, lane: _Lane) -> None:
        lane.busy -= 1
        if not lane.busy and not lane.waiting:
            del self._lanes[name]


_threads = _Threads()
_lanes = _Lanes(_threads)


def _forget() -> None:
    global _threads, _lanes
    _threads = _Threads()  # a forked child has none of its parent's threads
    _lanes = _Lanes(_threads)


os.register_at_fork(after_in_child=_forget)
