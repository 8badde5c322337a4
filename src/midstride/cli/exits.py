"""The exit codes of the command line, so that a script can tell what a run came to."""

from __future__ import annotations

from enum import IntEnum

from midstride.errors import (
    AccessRefused,
    DeclarationError,
    Interrupted,
    JournalError,
    MidstrideError,
    ModelUnavailable,
    NotAResponse,
    RunError,
    StoreError,
    ToolsUnavailable,
    WorkerError,
)


class Exit(IntEnum):
    """What a command came to; 2 is also what a wrong option gives."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    WAITING = 3
    CAPPED = 4
    HELD = 5
    CANCELLED = 6
    ELSEWHERE = 7
    INTERRUPTED = 8
    STORE = 9
    UNEXPECTED = 10


MEANINGS = {
    Exit.DONE: "done: the run, or what the command was asked to do",
    Exit.FAILED: "failed: refused, cut off too often, or a request the API does not take",
    Exit.BAD_INPUT: "bad input; nothing was changed",
    Exit.WAITING: "waiting for a person or another side; `doubts --fail-if-any`",
    Exit.CAPPED: "capped: a limit on turns, tokens, seconds or cost is reached",
    Exit.HELD: "held: taken up too often without progress",
    Exit.CANCELLED: "cancelled",
    Exit.ELSEWHERE: "another process drives the run",
    Exit.INTERRUPTED: "stopped before its end, by a signal or a model out of reach: resume",
    Exit.STORE: "a store, journal or file could not be read or written",
    Exit.UNEXPECTED: "an error that nobody foresaw: --traceback shows it",
}

OF_STATUS = {
    "done": Exit.DONE,
    "waiting": Exit.WAITING,
    "capped": Exit.CAPPED,
    "held": Exit.HELD,
    "cut": Exit.FAILED,
    "failed": Exit.FAILED,
    "cancelled": Exit.CANCELLED,
}

_OF_ERROR: tuple[tuple[type[MidstrideError], Exit], ...] = (
    (Interrupted, Exit.INTERRUPTED),
    (WorkerError, Exit.ELSEWHERE),
    (ModelUnavailable, Exit.INTERRUPTED),
    (ToolsUnavailable, Exit.INTERRUPTED),
    (AccessRefused, Exit.INTERRUPTED),
    (NotAResponse, Exit.INTERRUPTED),
    (DeclarationError, Exit.BAD_INPUT),
    (RunError, Exit.BAD_INPUT),
    (JournalError, Exit.STORE),
    (StoreError, Exit.STORE),
)


def of_error(error: MidstrideError) -> Exit:
    """Return the exit code for *error*."""
    return next((code for kind, code in _OF_ERROR if isinstance(error, kind)), Exit.FAILED)
