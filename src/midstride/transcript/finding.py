"""What the check of a transcript says: one finding for each rule and message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["reject", "compat", "quality", "harness"]
"""What follows from a broken rule.

reject: the API refuses the request. compat: only strict back ends refuse it. quality: it is accepted, and costs cache,
reasoning or later behaviour. harness: the API cannot see it, and running or keeping it is wrong.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one place.

    *rule* is its full name ("A01-unanswered-tool-use"), *at* the index of the message that holds the fault (of the one
    with the call, when a result is missing), *ids* those of the blocks concerned, *message* one sentence.
    """

    rule: str
    level: Level
    at: int
    ids: tuple[str, ...]
    message: str
