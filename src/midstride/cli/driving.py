"""Runs driven from the command line: signals, the grace of running tools, and what the person is told at the end."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from midstride.agent import Agent
from midstride.cli import hints, show, story
from midstride.cli.common import facts_of
from midstride.cli.exits import OF_STATUS, Exit
from midstride.cli.live import Watcher, is_live
from midstride.cli.signals import Signals
from midstride.core.moves import reached
from midstride.core.run import Run
from midstride.drive import Clock, Result, Runs
from midstride.drive.asynchronous import drive_async
from midstride.drive.shell import LISTEN_SECONDS
from midstride.drive.stop import Stop
from midstride.errors import Interrupted
from midstride.hidden import redacted
from midstride.stores import Store

Json = Any


@dataclass(frozen=True)
class Order:
    """What the command line asks of one run; *task* None resumes it, *named* when the person chose its id."""

    run_id: str
    task: Json = None
    program: str = ""
    take_over: bool = False
    force: bool = False
    restored: bool = False
    grace_seconds: float = 8.0
    named: bool = True


@dataclass(frozen=True)
class Rested:
    """What a run came to, and whether a signal had come by then, perhaps while the last of it was saved."""

    result: Result
    asked_to_stop: bool


class Drive:
    """One run carried on by this process, which a signal can stop at any time, also before the loop has begun."""

    def __init__(self, agent: Agent, store: Store, order: Order) -> None:
        self._agent, self._store, self._order = replace(agent, store=store), store, order
        self._stop = Stop(order.grace_seconds)
        self._ask: Callable[[], object] = self._stop.ask
        self._resume = hints.command(store, "resume", order.run_id)
        self._watcher = Watcher(lambda after: store.read(order.run_id, after))

    def to_its_rest(self, runner: asyncio.Runner | None) -> Rested:
        """Carry the run on until it rests; raises Interrupted when a signal or a tool ends it before."""
        signals = Signals(self._first, self._last, grace_seconds=self._order.grace_seconds)
        with contextlib.redirect_stdout(sys.stderr), self._watcher, signals:  # standard output is for the answer
            try:
                with asyncio.Runner() if runner is None else contextlib.nullcontext(runner) as loop:
                    result = loop.run(self._carry_on())
            except SystemExit as end:
                raise Interrupted(
                    f"the program ended itself (exit {end.code}); carry on with: {self._resume}"
                ) from None
        return Rested(result, signals.came)

    async def _carry_on(self) -> Result:
        loop, order = asyncio.get_running_loop(), self._order
        self._ask = lambda: loop.call_soon_threadsafe(self._stop.ask)
        if self._stop.asked.is_set():
            raise Interrupted("the run was stopped before it began")
        shell = self._agent.shell(
            order.task,
            order.run_id,
            order.take_over,
            order.force,
            self._watcher.hear,
            program=order.program,
            restored=order.restored,
        )
        return await drive_async(shell, self._agent.model, self._stop)

    def _first(self) -> None:
        self._watcher.stopping()
        self._ask()
        show.note(
            f"stopping: nothing new starts, running tools get {self._order.grace_seconds:g} s; again to stop at once. "
            f"Carry on with: {self._resume}",
            "yellow",
        )

    def _last(self, again: bool) -> None:
        self._watcher.stop()
        why = "stopped at once" if again else "stopped: something did not end in its time"
        show.note(f"{why}; what was cut off is settled by: {self._resume}", "yellow")


def drive(agent: Agent, store: Store, order: Order, runner: asyncio.Runner | None = None) -> Rested:
    """Carry the run on until it rests or something ends it (Interrupted), in *runner*'s loop if one is given."""
    if is_live() or not order.named:
        show.note(f"{order.run_id}: {_opening(store, order.run_id)}", "dim")
    return Drive(agent, store, order).to_its_rest(runner)


def drive_and_wait(agent: Agent, store: Store, order: Order) -> Result:
    """Carry the run on until it rests for anything but what another side has accepted: that is waited for.

    The run is free in between; somebody's word on it is heard within a second. A signal ends it, Interrupted.
    """
    clock = agent.clock or Clock()
    again = Order(order.run_id, None, order.program, grace_seconds=order.grace_seconds)
    with asyncio.Runner() as runner:  # one loop for all, since a client of the user's may belong to it
        rested = drive(agent, store, order, runner)
        while (until := rested.result.again_at) is not None:
            if not _waited(store, rested, until, clock):
                raise Interrupted(_wait_ended(store, order.run_id))
            rested = drive(agent, store, again, runner)
    return rested.result


def _tell_waiting(result: Result) -> None:
    show.note(f"{result.id}: {result.status}. {result.why}", show.STATUS_STYLE[result.status])


def _wait_ended(store: Store, run_id: str) -> str:
    resume = hints.command(store, "resume", run_id)
    return f"the wait was ended, and the other side goes on; ask again with: {resume}"


def _waited(store: Store, rested: Rested, until: float, clock: Clock) -> bool:
    """Wait until the other side is due to be asked, or somebody has appended; False when a signal ends it before.

    Whoever reads that it waits may send one at once, or append: it is told when both are heard.
    """
    stopped, run_id = threading.Event(), rested.result.id
    last_words = lambda again: show.note(_wait_ended(store, run_id), "yellow")  # noqa: E731
    with Signals(stopped.set, last_words, grace_seconds=0.0) as signals:
        seen = Runs(store).get(run_id).head.seq
        _tell_waiting(rested.result)
        if rested.asked_to_stop:
            return False
        while (left := clock.seconds_until(until)) > 0 and not store.read(run_id, seen):
            if stopped.wait(min(LISTEN_SECONDS, left)):
                break
    return not signals.came


def _opening(store: Store, run_id: str) -> str:
    if not store.read(run_id):
        return "a new run"
    status, why = Runs(store).status(run_id)
    return f"{status}, {why}"


def tell(result: Result, store: Store) -> Exit:
    """Tell what the run came to: the answer on standard output, everything else beside it."""
    answer = redacted(result.answer)
    if result.status == "done":
        show.deliver(answer)
    doubts = f", {len(result.doubts)} in doubt" if result.doubts else ""
    cost = "" if result.cost is None else f", cost {show.money(result.cost)}"
    show.note(
        f"{result.id}: {result.status}, {_count(result.turns, 'turn')}, {result.tokens_total} tokens{cost}{doubts}. "
        f"{result.why}",
        show.STATUS_STYLE.get(result.status, ""),
    )
    if answer != result.answer:
        whole = hints.command(store, "show", result.id, "--unredacted")
        show.note(f"  its answer holds what looks like a secret, and that is not shown; all of it: {whole}")
    tell_what_next(Runs(store), result.id)
    return OF_STATUS[result.status]


def tell_what_next(runs: Runs, run_id: str) -> None:
    """Tell which commands a person may use next."""
    run = runs.get(run_id)
    facts, asked = facts_of(runs, run_id), questions_of(runs, run_id, run)
    for hint in hints.after(facts, asked, runs.store, reached(run)[0]):
        show.note(f"  {hint}")


def questions_of(runs: Runs, run_id: str, run: Run) -> list[dict[str, Json]]:
    """Return the run's calls that somebody has to look into."""
    return story.questions(run, working=runs.standing(run_id, run)[0] == "working")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
