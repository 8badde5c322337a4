"""What a run came to, as its caller sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from midstride.core.cost import BILLION
from midstride.core.moves import Rest
from midstride.core.run import Call, Run, State
from midstride.hidden import redacted


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended for now: *status* is done, waiting, capped, held, cut, cancelled or failed, *why* says why, with
    secrets in it redacted.

    *answer* is the final answer's text, None unless done. *turns* counts requests over the run's whole life, lost ones
    too; *tokens_used* is the current window, *tokens_total* all that was used; *seconds* the time at work. *doubts*
    are the calls of which nobody knows whether they happened, *approvals* those that wait for a person's approval. A
    run that is waiting for what another side accepted asks it when it is run again at *again_at* (seconds since the
    epoch) or later; None when it waits for people alone. *cost* is in units of your currency, None where no answer had
    a price; *cache_read* and *cache_write* are the tokens of *tokens_total* that came from a cache or went into one.
    *unanswered* requests were counted as turns, and nobody knows what they took.
    """

    id: str
    status: str
    why: str
    answer: str | None
    turns: int
    tokens_used: int
    tokens_total: int
    seconds: float
    doubts: tuple[Call, ...]
    approvals: tuple[Call, ...] = ()
    again_at: float | None = None
    cost: float | None = None
    cache_read: int = 0
    cache_write: int = 0
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """An event of an answer that is still streaming, in the SDK's own type: nothing of it is saved yet."""

    event: Any


def cost_of(run: Run) -> float | None:
    """Return what the run's answers cost, in units of its currency; None where none of them had a price."""
    return run.cost / BILLION if run.priced else None


def result_of(run_id: str, run: Run, rest: Rest) -> Result:
    """Return the result of a run that rests."""
    return Result(
        id=run_id,
        status=rest.status,
        why=redacted(rest.why),
        answer=run.answer if rest.status == "done" else None,
        turns=run.turns,
        tokens_used=run.tokens_used,
        tokens_total=run.tokens_total,
        seconds=run.seconds,
        doubts=tuple(run.doubts),
        approvals=tuple(run.approvals),
        again_at=rest.again_at,
        cost=cost_of(run),
        cache_read=run.cache_read,
        cache_write=run.cache_write,
        unanswered=unanswered_of(run, rest.status),
    )


def unanswered_of(run: Run, status: str) -> int:
    """Return how many requests had no answer; when a run rests none is out, so its last one may be lost too."""
    lost = status not in ("working", "interrupted") and run.state is State.AWAY and run.handle is None
    return run.unanswered + lost
