"""The attempts of one run that live in this process, in threads and in tasks.

An attempt may outlive the driver that started it: a tool that timed out in its thread goes on, and so does one whose
driver was interrupted. So a run's attempts are kept for the whole process (`attempts_here`); the next driver of the
run here finds them, and never repeats one that is alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from midstride.core.run import CallId
from midstride.core.steps import Ended
from midstride.stores import Lease
from midstride.tools.command import LEASH, Leash
from midstride.tools.context import Handed

Body = Callable[[], Ended]
"""Runs a tool to its end and says how it ended; anything it raises is a crash."""

Late = Callable[[Ended], bool]
"""Records what an attempt gave when nobody drives; False when the next driver has to hear of it."""

CANCEL_SECONDS = 1.0
"""How long a cancelled coroutine, or a tool whose command was ended, may take until it counts as alive all the same."""

LATE = "midstride late"
"""The name of the threads that record what came when nobody drives."""


@dataclass
class _Going:
    """An attempt that has not ended: *deadline* on the monotonic clock; *let_go* when its driver has left it.

    *hurried* is the time it was left once the run was cancelled, in seconds. *handed* has the handle of work that the
    other side has accepted, which counts however the attempt ends. *leash* ends the commands it has started.
    """

    timeout: float | None
    deadline: float | None
    effect: bool
    handed: Handed
    task: asyncio.Task[Ended] | None = None
    hurried: float | None = None
    cancelled: bool = False
    alive: bool = False
    let_go: bool = False
    leash: Leash = field(default_factory=Leash)

    def cancel(self) -> bool:
        """End what can be ended from outside, its commands and its task; False where there is no such thing."""
        had_commands = self.leash.cut()
        if self.task is not None:
            self.task.cancel()
        return had_commands or self.task is not None


@dataclass(frozen=True)
class Kept:
    """The lease of a run whose driver has left; `let_go` gives it back, and what else the driver had open.

    *clean* tells whether that driver ended in order: its successor has this lease, and no mark of another process.
    """

    lease: Lease
    let_go: Callable[[], None]
    clean: bool


class Attempts:
    """The attempts of one run: started here, waited for here; *late* hears of one that ends when nobody drives."""

    def __init__(self) -> None:
        # Taken by itself and not as the condition: Ctrl-C in the middle of a condition's methods keeps it locked.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._going: dict[CallId, _Going] = {}
        self._ended: list[Ended] = []
        self._crash: BaseException | None = None
        self._wake: Callable[[], None] | None = None
        self.late: Late | None = None
        self.driven = False
        self._kept: Kept | None = None
        self._reports: list[threading.Thread] = []
        self.forget: Callable[[Attempts], None] = lambda attempts: None
        """Takes a run that is over here out of the table of this process."""

    @property
    def running(self) -> set[CallId]:
        """Return the calls with an attempt within its time, or with one that ended and was not heard of yet."""
        with self._mutex:
            unheard = {ended.key for ended in self._ended}
            return {key for key, going in self._going.items() if not going.alive} | unheard

    @property
    def alive(self) -> set[CallId]:
        """Return the calls with an attempt that goes on beyond its time."""
        with self._mutex:
            return {key for key, going in self._going.items() if going.alive}

    @property
    def idle(self) -> bool:
        """Tell whether nothing goes on, nothing is left to hear, and nothing that came late is still being recorded."""
        with self._mutex:
            recording = any(report.is_alive() for report in self._reports)
            return not self._going and not self._ended and not recording

    # ---- the run's lease, which lives as long as an attempt with an effect

    def leave(self, kept: Kept) -> None:
        """Let the run go when its driver leaves: at once, or when the last attempt with an effect has ended.

        Until then the run stays held by this process: another one would take the attempt for dead. Commands end with
        their driver, as they would with its process.
        """
        try:
            self._end_commands()
            with self._mutex:
                unheard = list(self._ended)
            for ended in unheard:
                self._report(ended, None, self.late)  # while the run is still held
        finally:
            self._let_go(kept)

    def _let_go(self, kept: Kept) -> None:
        with self._mutex:
            self.driven = False
            if self._has_effects_going():
                self._kept = kept
                kept.lease.kept = True
                return
        kept.let_go()
        self.forget(self)

    def inherit(self) -> Kept | None:
        """Return what an earlier driver in this process had to keep, once results that came late are recorded."""
        while True:
            with self._mutex:
                reports = [report for report in self._reports if report.is_alive()]
                if not reports:
                    self._reports = []
                    kept, self._kept = self._kept, None
                    self.driven = self.driven or kept is not None  # what ends from here on is the new driver's
                    return kept
            for report in reports:
                report.join()

    def _end_commands(self) -> None:
        """End the commands of attempts in threads, and give these a moment to end."""
        with self._mutex:
            cut = [going for going in self._going.values() if going.task is None and going.leash.cut()]
            for going in cut:
                going.let_go = True
            self._changed.wait_for(lambda: not any(going in cut for going in self._going.values()), CANCEL_SECONDS)
            for going in cut:
                going.let_go = False  # one that is still there is waited for, as any other in a thread

    def _has_effects_going(self) -> bool:
        return any(going.effect for going in self._going.values())

    # ---- starting

    def start_thread(
        self,
        key: CallId,
        body: Body,
        timeout: float | None,
        name: str,
        *,
        effect: bool = False,
        handed: Handed | None = None,
    ) -> None:
        """Start an attempt in a thread of its own; it cannot be ended from outside."""
        going = self._begin(key, _Going(timeout, _deadline(timeout), effect, handed or Handed()))
        context = _on(going.leash)

        def work() -> None:
            try:
                self._end(key, self._thread_ended(going, context.run(body)))
            except BaseException as crash:  # a tool that exits or is interrupted: the driver's thread is to know
                self._end(key, crash)

        try:
            threading.Thread(target=work, name=f"midstride {name}", daemon=True).start()
        except RuntimeError:  # no thread could be made: nothing goes on
            with self._mutex:
                del self._going[key]
            raise

    def start_task(
        self,
        key: CallId,
        body: Coroutine[Any, Any, Ended],
        timeout: float | None,
        name: str,
        *,
        effect: bool = False,
        handed: Handed | None = None,
    ) -> None:
        """Start an attempt as a task of the running loop; after its time it is cancelled."""
        going = _Going(timeout, _deadline(timeout), effect, handed or Handed())
        loop = asyncio.get_running_loop()
        going.task = task = loop.create_task(body, name=f"midstride {name}", context=_on(going.leash))
        self._begin(key, going)
        task.add_done_callback(lambda done: self._end(key, self._task_ended(key, done)))

    def _begin(self, key: CallId, going: _Going) -> _Going:
        with self._mutex:
            self._going[key] = going
        return going

    def _thread_ended(self, going: _Going, ended: Ended) -> Ended | None:
        """Return what the end of a thread says; one whose command was ended says nothing of its tool."""
        if ended.how != "raised" or not (going.cancelled or going.let_go):
            return ended
        # As with a task: the next driver reconciles it, and runs a read again.
        return None if going.let_go else Ended(ended.key, "timed out", _too_long(going))

    def _task_ended(self, key: CallId, task: asyncio.Task[Ended]) -> Ended | BaseException | None:
        if not task.cancelled():
            return task.exception() or task.result()
        going = self._going[key]
        if going.handed.accepted is not None:
            return handed_over(key, going.handed)
        if going.let_go:
            return None  # as if the process had ended: the next driver reconciles it, and runs a read again
        if going.cancelled:
            return Ended(key, "timed out", _too_long(going))
        return Ended(key, "raised", "It was cancelled.")

    # ---- ending

    def _end(self, key: CallId, ended: Ended | BaseException | None) -> None:
        with self._mutex:
            going = self._going.pop(key, None)
            if going is not None:
                going.leash.cut()
            if isinstance(ended, Ended):
                self._ended.append(ended)
            elif ended is not None:
                self._crash = ended
            self._changed.notify_all()
            wake = self._wake
            if not self.driven:
                kept = None if self._has_effects_going() else self._kept
                self._kept = self._kept if kept is None else None
                report = threading.Thread(target=self._report, args=(ended, kept, self.late), name=LATE, daemon=True)
                self._reports.append(report)
                report.start()
        if wake is not None:
            wake()

    def _report(self, ended: Ended | BaseException | None, kept: Kept | None, late: Late | None) -> None:
        """Tell *late* what came when nobody drives; then let the run go if that was the last attempt with an effect."""
        try:
            if isinstance(ended, Ended) and late is not None and self._unheard(ended) and not late(ended):
                with self._mutex:
                    self._ended.append(ended)
                    self._changed.notify_all()
                    wake = self._wake
                if wake is not None:
                    wake()
        finally:
            with self._mutex:
                if not self.driven and not self._going:
                    self.late = None  # else the run and its journal stay in memory as long as this does
            if kept is not None:
                kept.let_go()

    def _unheard(self, ended: Ended) -> bool:
        with self._mutex:
            there = len(self._ended)
            self._ended = [e for e in self._ended if e is not ended]
            return len(self._ended) < there

    def give_back(self, ended: list[Ended]) -> None:
        """Take back what a driver has heard of and could not save."""
        with self._mutex:
            self._ended = [*(e for e in ended if not e.alive), *self._ended]  # `alive` tells of the others

    def drain(self) -> tuple[Ended, ...]:
        """Return the attempts that ended or ran out of time since the last call; raise what crashed one."""
        with self._mutex:
            if self._crash is not None:
                crash, self._crash = self._crash, None
                raise crash
            self._ended += self._timed_out(time.monotonic())
            ended, self._ended = tuple(self._ended), []
            return ended

    def _timed_out(self, now: float) -> list[Ended]:
        ended = []
        for key, going in self._going.items():
            if going.alive or going.deadline is None or now < going.deadline:
                continue
            if not going.cancelled and going.cancel():
                going.cancelled, going.deadline = True, now + CANCEL_SECONDS
            else:
                going.alive = True
                late = Ended(key, "timed out", f"{_too_long(going)} It is still running.", alive=True)
                ended.append(handed_over(key, going.handed, alive=True) or late)
        return ended

    def hurry(self, seconds: float) -> None:
        """Let every attempt that goes on run out of time in *seconds* at the latest, counted from the first call."""
        with self._mutex:
            for going in self._going.values():
                if going.alive or going.cancelled or going.hurried is not None:
                    continue
                soon = time.monotonic() + seconds
                if going.deadline is None or soon < going.deadline:
                    going.hurried, going.deadline = seconds, soon

    # ---- waiting

    def patience(self) -> float | None:
        """Return the seconds until the next attempt runs out of time; None when none can."""
        with self._mutex:
            deadlines = [g.deadline for g in self._going.values() if not g.alive and g.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def wait(self, seconds: float | None) -> bool:
        """Block until an attempt has ended or run out of time, or for *seconds*; tell whether there is news."""
        until = _least(seconds, self.patience())
        with self._mutex:
            self._changed.wait_for(lambda: self._ended or self._crash is not None, until)
        return self._has_news()

    def _has_news(self) -> bool:
        with self._mutex:
            return bool(self._ended) or self._crash is not None or self.patience() == 0.0

    async def wait_async(self, seconds: float | None) -> bool:
        """Do the same without blocking the event loop."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        with self._mutex:
            if self._ended or self._crash is not None:
                return True
            self._wake = lambda: _wake(loop, woken)
        try:
            async with asyncio.timeout(_least(seconds, self.patience())):
                await woken.wait()
        except TimeoutError:
            pass
        finally:
            self._wake = None
        return self._has_news()

    async def cancel_tasks(self) -> None:
        """Cancel the tasks that still run and give them a moment to end."""
        with self._mutex:
            left = [(going, going.task) for going in self._going.values() if going.task is not None]
        for going, task in left:
            going.let_go = True
            task.cancel()
        tasks = [task for _, task in left]
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)


def handed_over(key: CallId, handed: Handed, *, alive: bool = False) -> Ended | None:
    """Return how an attempt ended whose work the other side has accepted; None when it was not."""
    return None if handed.accepted is None else Ended(key, "accepted", handed.accepted.handle, alive)


def _on(leash: Leash) -> contextvars.Context:
    """Return a copy of the context in which commands are on *leash*."""
    context = contextvars.copy_context()
    context.run(LEASH.set, leash)
    return context


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
        loop.call_soon_threadsafe(woken.set)


def _too_long(going: _Going) -> str:
    if going.hurried is not None:
        return f"It did not end within {going.hurried:g} s after the run was cancelled."
    return f"It did not end within {going.timeout:g} s."


def _least(*seconds: float | None) -> float | None:
    return min((s for s in seconds if s is not None), default=None)


# ---- bounded, for what is waited for at once


def bounded(body: Body, key: CallId, timeout: float | None, name: str) -> Ended:
    """Run *body* in a thread and wait for it, at most *timeout* seconds; what it raises is raised here."""
    attempts = Attempts()
    attempts.start_thread(key, body, timeout, name)
    while True:
        ended = attempts.drain()
        if ended:
            return ended[0]
        attempts.wait(None)
