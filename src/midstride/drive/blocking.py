"""The blocking driver: `Run`, and the turns that it hands to a loop of the user's own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from midstride.core.journal import Failed, Responded
from midstride.core.settle import advance
from midstride.core.steps import (
    Append,
    Check,
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
from midstride.drive.handle import RunHandle, TurnHandle
from midstride.drive.polls import poll
from midstride.drive.result import Result
from midstride.drive.shell import LISTEN_SECONDS, Shell
from midstride.drive.telling import NO_WHYS
from midstride.drive.transact import transact
from midstride.errors import NotAllowed
from midstride.models import Model
from midstride.models.contract import check_ready
from midstride.tools.context import Handed

Json = Any


LEFT = "the run was ended in the middle of a step: leave its `with` block, and run the same program again"


class Driver:
    """Performs the steps of one run, one after the other."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self._steps: Steps | None = None
        self._step: Step | None = None

    def next_send(self) -> Send | None:
        """Go on until the model is to be asked; None when the run rests."""
        if self.shell.rest is not None:
            return None
        try:
            desk = self.shell.taken_up()
            if self._steps is None:
                self._steps = advance(desk)
                self._step = next(self._steps)
            while not isinstance(self._step, Send):
                self._perform()
            return self._step
        except StopIteration as end:
            self.shell.rest = end.value
            return None

    def answer(self, value: Any) -> None:
        """Give the model's answer to the run; when this returns it is on disk."""
        try:
            self._reply(value)
            while saves_answer(self._step):
                self._perform()
        except StopIteration as end:
            self.shell.rest = end.value

    def _perform(self) -> None:
        step, self._step = self._step, None  # what ends this in the middle must not do the step a second time
        if step is None:
            raise NotAllowed(LEFT)
        self._reply(self._do(step))

    def _reply(self, value: Any) -> None:
        assert self._steps is not None
        if isinstance(value, Tail):
            self.shell.tell.others(value.entries, self.shell.run)
        reply = Reply(self.shell.clock.now(), value, self.shell.drain())
        self._step = self._steps.send(reply)

    def _do(self, step: Step) -> Any:
        shell = self.shell
        match step:
            case Append():
                return told(shell, shell.append(step.entries), step.entries, step.whys)
            case Check():
                return shell.requests.check(step.run)
            case Mend():
                return shell.requests.mend(step.run)
            case Start():
                shell.tell.step(step, shell.run)
                return self._start(step)
            case Gather():
                return self._gather(None if step.until is None else shell.clock.seconds_until(step.until))
            case Transact():
                shell.tell.step(step, shell.run)
                value = transact(shell, step, lambda within: shell.calls.attempt(step.call, step.attempt, within))
                return told(shell, value, value)
            case LookUp():
                shell.tell.step(step, shell.run)
                return shell.calls.look(step.call, step.timeout)
            case PollUp():
                shell.tell.step(step, shell.run)
                return poll(shell.calls, step.call, step.timeout)
            case Pause():
                shell.tell.step(step, shell.run)
                return shell.attempts.wait(shell.clock.seconds_until(shell.clock.now() + jittered(step.seconds)))
            case Send():
                raise NotAllowed("the model's answer is owed: give it with turn.respond")

    def _gather(self, seconds: float | None) -> Tail | None:
        """Wait for an attempt; every second look whether somebody has appended."""
        shell = self.shell
        for part in parts_of(seconds):
            if shell.attempts.wait(part):
                return None
            tail = shell.overheard()
            if tail is not None:
                return tail
        return None

    def _start(self, step: Start) -> None:
        calls, call = self.shell.calls, step.call
        if step.effect:
            self.shell.check_newest()  # a child that was forked since has the intent, and not the run
        handed = Handed()
        body = calls.attempt(call, step.attempt, handed=handed)
        self.shell.attempts.start_thread(call.key, body, step.timeout, call.name, effect=step.effect, handed=handed)


def parts_of(seconds: float | None) -> Iterator[float]:
    """Cut a wait into parts of LISTEN_SECONDS at most; one without an end has no last part."""
    while seconds is None or seconds > LISTEN_SECONDS:
        yield LISTEN_SECONDS
        seconds = None if seconds is None else seconds - LISTEN_SECONDS
    yield seconds


def told(shell: Shell, value: Any, entries: Any, whys: Mapping[int, str] = NO_WHYS) -> Any:
    """Tell the watcher of *entries* that are durable now, unless *value* says that they are not."""
    if value is None or isinstance(value, tuple):
        shell.tell.entries(entries, shell.run if shell.desk is None else shell.desk.run, whys)
    return value


def saves_answer(step: Step | None) -> bool:
    """Tell whether *step* makes the model's answer durable; what comes behind it waits for the next turn."""
    return isinstance(step, Append) and any(isinstance(e.body, (Responded, Failed)) for e in step.entries)


def jittered(seconds: float) -> float:
    """Return a wait that is up to a quarter longer, so that many runs do not come back at one moment."""
    return seconds * (1 + random.random() / 4)


class Turn(TurnHandle):
    """One request that is owed, and the place for its response."""

    def __init__(self, driver: Driver, send: Send) -> None:
        super().__init__(driver.shell, send)
        self._driver = driver

    def respond(self, response: Any) -> None:
        """Record the response: the SDK's message, or the mapping that came over the wire. On return it is on disk.

        Raises NotAResponse, and records nothing, for a stream that ended without a stop reason.
        """
        self._driver.answer(self._take(response))


class Run(RunHandle):
    """A run, driven by a loop of your own: `with Run(...) as run: for turn in run: turn.respond(...)`.

    The same *id* starts it, carries it on, or is done at once; for all else see `RunHandle`.
    """

    _driver_type = Driver
    _driver: Driver

    def __enter__(self) -> Run:
        self._shell.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Turn]:
        return self

    def __next__(self) -> Turn:
        self._check_answered()
        send = self._driver.next_send()
        if send is None:
            raise StopIteration
        self._handed = turn = Turn(self._driver, send)
        return turn


def drive(shell: Shell, model: Model) -> Result:
    """Take the run up and carry it on with *model* until it rests."""
    driver = Driver(shell)
    with shell:
        if shell.rest is None:
            check_ready(model, blocking=True)
        while (send := driver.next_send()) is not None:
            request = shell.request(send.run)
            with shell.observed.request(request, send.run) as note:
                value = model.ask(request, shell.tell.drafts(note), send.handle)
                note(value)
            driver.answer(shell.answered(value) if isinstance(value, Mapping) else value)
        return shell.result()
