"""What a tool, its verify or its poll can say about the world beyond a plain result."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from midstride.errors import DeclarationError

__all__ = ["Accepted", "Answer", "AnsweredWithError", "CannotTell", "DidNotHappen", "Happened", "Pending", "Standing"]

HANDLE_MAX = 10_000
"""Characters of a handle as JSON: it is written again with each poll, so it is an id and not the work itself."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The other side took the work and goes on by itself; *handle*, any JSON value, finds it again.

    A tool returns it, by `return context.accepted(handle)`. Raises DeclarationError for what is no handle.
    """

    handle: Any

    def __post_init__(self) -> None:
        try:
            text = json.dumps(self.handle, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise DeclarationError(
                f"{type(self.handle).__name__} is no handle ({error}): give the job's id, or another JSON value that "
                "finds the work again in another process"
            ) from None
        if len(text) > HANDLE_MAX:
            raise DeclarationError(
                f"a handle of {len(text)} characters is too long, wanted {HANDLE_MAX} at most: give the job's id, by "
                "which the rest is found"
            )
        object.__setattr__(self, "handle", json.loads(text))  # as every later process will have it


@dataclass(frozen=True, slots=True)
class Happened:
    """The call had its effect; *result* is what the tool would have returned."""

    result: Any


@dataclass(frozen=True, slots=True)
class Pending:
    """The accepted work is under way; it is asked again *after* so many seconds, or a timedelta."""

    after: float | timedelta

    def __post_init__(self) -> None:
        seconds = self.after.total_seconds() if isinstance(self.after, timedelta) else self.after
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
            raise DeclarationError(
                f"Pending has after={self.after!r}: wanted seconds or a timedelta until it is asked again, more than 0 "
                "and finite"
            )

    @property
    def seconds(self) -> float:
        """Return *after* in seconds."""
        return self.after.total_seconds() if isinstance(self.after, timedelta) else float(self.after)


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Nobody can know yet: it may have happened, or it may still come; *why* is for the model and for people."""

    why: str = ""


class DidNotHappen(Exception):
    """Nothing was done, and nothing can come of it any more; *why* is for the model and for people.

    A tool raises it, and then its failure is definite (on the first attempt of a call only, since an earlier attempt
    may have happened). A verify or a poll returns or raises it. For a verify a job that is still under way is
    `CannotTell`, for a poll `Pending`.
    """

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why

    @property
    def told(self) -> str:
        """The sentence about it in a result."""
        return f"it did not happen. {self.why}".strip()


class AnsweredWithError(DidNotHappen):
    """The other side answered that the call failed: its word counts, and *why* is its word."""

    @property
    def told(self) -> str:
        """The sentence about it in a result; whether nothing at all happened is not ours to say."""
        return f"it was answered with an error: {self.why}"


Answer = Happened | DidNotHappen | CannotTell
"""What a verify returns."""

Standing = Answer | Pending
"""What a poll returns."""
