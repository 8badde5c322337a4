"""The seam for whoever watches a run from within, such as a tracer: it stands around what the run does.

`watch` only hears; an observer is there *while* a model is asked or a tool runs, in the very thread or task, so that
what these do counts as a part of it. Nothing here knows what an observer is for. The rules for one:

- it raises nothing and decides nothing: a run is the same with it and without;
- what it puts around something (`request`, `attempt`, `look`) may be entered in any thread, `hear` in the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from midstride.core.run import Call, Run

Json = Any
Note = Callable[[object], None]
"""Hears what came of it, while it is still around: an answer, an `Ended`, a `Seen`, or the exception of a tool."""


@dataclass(frozen=True, slots=True)
class Taking:
    """A run that is about to be taken up: the *run* as it stands, whose newest holder is in it; NEW begins."""

    run_id: str
    api: str
    run: Run


class Observed(Protocol):
    """One run from being taken up by a process until it is let go."""

    trace: str | None
    """What is recorded in `taken`, and leads the next holder back to this one."""

    def enter(self) -> None:
        """Hear that the caller's own code, in this thread or task, belongs to the run from here on."""

    def leave(self) -> None:
        """Hear that it does not any more."""

    def hear(self, event: object, run: Run, why: str = "") -> None:
        """Hear of an `Entry` that is durable, or of a step that goes outside; *why* is the reason of a move."""

    def request(self, request: Mapping[str, Json], run: Run) -> AbstractContextManager[Note]:
        """Be around *request* to the model; a draft of its answer is noted too."""

    def attempt(self, call: Call, attempt: int) -> AbstractContextManager[Note]:
        """Be around the *attempt*-th attempt of *call*."""

    def look(self, call: Call) -> AbstractContextManager[Note]:
        """Be around a look at what came of *call*."""

    def outlived(self, call: Call) -> None:
        """Hear that the driver waits for an attempt of *call* no longer: it has run out of time and goes on."""

    def end(self, status: str | None, run: Run, error: BaseException | None) -> None:
        """Hear that the run is let go: it has come to rest with *status*, or *error* ends its driver, or neither."""


class Observer(Protocol):
    """What a program gives to be there while its runs go on: `Telemetry` is one."""

    def begin(self, taking: Taking) -> Observed:
        """Return who is there for this run, before the entry that takes it up is written."""


class _Nobody:
    """Is there for every run that nobody observes."""

    trace: str | None = None

    def enter(self) -> None: ...

    def leave(self) -> None: ...

    def hear(self, event: object, run: Run, why: str = "") -> None: ...

    def request(self, request: Mapping[str, Json], run: Run) -> AbstractContextManager[Note]:
        return _NOTHING

    def attempt(self, call: Call, attempt: int) -> AbstractContextManager[Note]:
        return _NOTHING

    def look(self, call: Call) -> AbstractContextManager[Note]:
        return _NOTHING

    def outlived(self, call: Call) -> None: ...

    def end(self, status: str | None, run: Run, error: BaseException | None) -> None: ...


def _unheard(what: object) -> None: ...


_NOTHING: AbstractContextManager[Note] = nullcontext(_unheard)

NOBODY: Observed = _Nobody()
