"""What a run and its calls are after any journal, and their two state machines as tables; `core.fold` walks them.

*waiting*, *capped* and *held* are no states: `moves.next_move` derives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from midstride.core import journal
from midstride.core.apis import Api, Usage, api_named
from midstride.core.growing import Growing
from midstride.core.journal import Head, Limits, Recorded, Terms
from midstride.errors import NotAllowed

Json = Any
CallId = tuple[int, int]
"""A call is known by (turn, index): the model's own ids repeat."""


class State(StrEnum):
    """The rows of the run's table."""

    NEW = "new"
    DUE = "due"
    AWAY = "away"
    CALLS = "calls"
    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class CallState(StrEnum):
    """The rows of a call's table."""

    NEW = "new"
    ASKING_APPROVAL = "asking approval"
    ASKING_DOUBT = "asking doubt"
    ALLOWED = "allowed"
    INTENDED = "intended"
    ACCEPTED = "accepted"
    UNKNOWN = "settled unknown"
    SETTLED = "settled"


CUTS_MAX = 2
"""The third cut in a row gives up: with room doubled twice, a fourth try would be guessing (decision 12)."""

PAUSES_MAX = 10
"""The eleventh pause in a row gives up (decision 12)."""

_S = State
# A pair is (nothing was said since the request, something was). `call` is any entry of a call that does not settle the
# last one of the turn; outside row CALLS it is the decision on a call settled unknown, which never wakes a run. A
# ledger's run is one call, and done with it; one that was settled unknown is made anew where a person allows that.
RUN: dict[State, dict[str, State | tuple[State, State]]] = {
    _S.NEW: {"started": _S.DUE},
    _S.DUE: {
        "requested": _S.AWAY, "call": _S.DUE, "settled by final": _S.DUE, "said": _S.DUE, "extended": _S.DUE,
        "cancelled": _S.CANCELLED, "failed": _S.STOPPED,
    },
    _S.AWAY: {
        "requested": _S.AWAY, "accepted": _S.AWAY, "final": (_S.DONE, _S.DUE), "calls": _S.CALLS, "paused": _S.DUE,
        "cut": _S.DUE, "given up": (_S.STOPPED, _S.DUE), "refused": (_S.STOPPED, _S.DUE), "call": _S.AWAY,
        "said": _S.AWAY, "extended": _S.AWAY, "cancelled": _S.CANCELLED, "failed": _S.STOPPED,
    },
    _S.CALLS: {
        "call": _S.CALLS, "last": _S.DUE, "last, cancelling": _S.CANCELLED, "last, of a ledger": _S.DONE,
        "said": _S.CALLS, "extended": _S.CALLS, "cancelled": _S.CALLS,
    },
    _S.DONE: {"call": _S.DONE, "settled by final": _S.DONE, "said": _S.DUE, "allowed again": _S.AWAY},
    _S.STOPPED: {"call": _S.STOPPED, "said": _S.DUE, "extended": _S.DUE, "cancelled": _S.CANCELLED},
    _S.CANCELLED: {"call": _S.CANCELLED, "kept": _S.CANCELLED},
}  # fmt: skip

_C = CallState
CALL: dict[CallState, dict[str, CallState]] = {
    _C.NEW: {"intended": _C.INTENDED, "settled": _C.SETTLED, "asked": _C.ASKING_APPROVAL},
    _C.ASKING_APPROVAL: {"settled": _C.SETTLED, "allow": _C.ALLOWED, "deny": _C.SETTLED},
    _C.ASKING_DOUBT: {
        "settled": _C.SETTLED, "allow": _C.ALLOWED, "deny": _C.SETTLED, "happened": _C.SETTLED, "unknown": _C.SETTLED,
    },
    _C.ALLOWED: {"intended": _C.INTENDED, "settled": _C.SETTLED},
    _C.INTENDED: {
        "intended": _C.INTENDED, "accepted": _C.ACCEPTED, "settled": _C.SETTLED, "asked": _C.ASKING_DOUBT,
    },
    _C.ACCEPTED: {"accepted": _C.ACCEPTED, "settled": _C.SETTLED, "asked": _C.ASKING_DOUBT},
    _C.UNKNOWN: {"allow": _C.UNKNOWN, "deny": _C.UNKNOWN, "happened": _C.UNKNOWN, "unknown": _C.UNKNOWN},
    _C.SETTLED: {},
}  # fmt: skip

FINISHED = frozenset({CallState.SETTLED, CallState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model's, and how far it has come; times in seconds since the epoch.

    *attempts* counts `intended` entries; *died_at* is the newest take-up behind the last of them, when its
    process was certainly gone. *outcome* is one of `journal.OUTCOMES`, or "told" when a person said that it happened.
    *verdict* is the word on a call that had been settled unknown, and *truth* what was said with it. *tried* holds the
    effects that attempts went by which are not the recorded one: what such an attempt left behind goes by them.
    Of accepted work *handle* finds it again, *again_at* is when it is to be polled (None: at once), *failures* counts
    the polls in a row that told nothing, and *failure* says why the last one did.
    """

    turn: int
    index: int
    id: str
    name: str
    arguments: Json
    recorded: Recorded
    echo: Mapping[str, Json] = field(default_factory=dict)
    state: CallState = CallState.NEW
    attempts: int = 0
    tried: tuple[str, ...] = ()
    imported: bool = False
    approvals: int = 0
    reruns: int = 0
    taken_since: bool = False
    first_at: float | None = None
    last_at: float | None = None
    died_at: float | None = None
    handle: Json = None
    again_at: float | None = None
    failures: int = 0
    failure: str | None = None
    outcome: str | None = None
    content: Json = None
    settled_at: float | None = None
    verdict: str | None = None
    truth: Json = None

    @property
    def key(self) -> CallId:
        """Return (turn, index), by which the call is known."""
        return (self.turn, self.index)

    @property
    def terms(self) -> Terms | None:
        """Return the tool's terms as recorded with the call; None when no tool had its name."""
        return self.recorded.terms

    @property
    def is_error(self) -> bool:
        """Tell whether the model sees the result as an error."""
        return self.outcome not in ("ok", "told", "already done")

    @property
    def in_doubt(self) -> bool:
        """Tell whether nobody knows yet if it happened: started, no result, and no decision since."""
        undecided = self.state is CallState.UNKNOWN and self.verdict is None
        return undecided or self.state in (CallState.INTENDED, CallState.ASKING_DOUBT)


@dataclass(frozen=True)
class Run:
    """The checkpoint: a run's state folded from its journal.

    *turns* counts requests, lost ones too; a call's turn is the number of the request that its response answered.
    *ending* is how the newest answer ended (or "failed"), *reason* says why the run stopped, in words.
    *messages* is the transcript; *tail* is a paused answer that is sent back until it ends; *pending* was said and is
    not sent yet. *handle* finds the answer that the model's API goes on with by itself. *unknown* holds earlier turns'
    calls settled unknown. *tokens_used* is the current window, *tokens_total* what all answers took, of which
    *cache_read* and *cache_write* were a cache's; *seconds* is the time in which a process was at work. *cost*, in
    billionths of a currency's unit, is that of the *priced* among its answers. *takes* counts the take-ups in a row
    behind a death without progress; *left_at* is when the newest holder that died wrote last.
    """

    state: State = State.NEW
    ending: str = ""
    reason: str = ""
    started: journal.Started | None = None
    head: Head = field(default_factory=Head)
    token: int = 0
    holder: journal.Taken | None = None
    taken_at: float | None = None
    left_at: float | None = None
    takes: int = 0
    cancelling: bool = False
    messages: Growing[Json] = field(default_factory=Growing)
    tail: tuple[Json, ...] = ()
    pending: tuple[Json, ...] = ()
    calls: tuple[Call, ...] = ()
    unknown: Mapping[CallId, Call] = field(default_factory=dict)
    keyed: Growing[Call] = field(default_factory=Growing)
    params: Mapping[str, Json] = field(default_factory=dict)
    handle: Json = None
    answer: str | None = None
    stop: str | None = None
    turns: int = 0
    answers: int = 0
    cuts: int = 0
    pauses: int = 0
    usage: Usage = field(default_factory=Usage)
    tokens_used: int = 0
    tokens_total: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: int = 0
    priced: int = 0
    seconds: float = 0.0
    at: float | None = None
    limits: Limits = field(default_factory=Limits)
    declared: Limits = field(default_factory=Limits)

    @property
    def begun(self) -> journal.Started:
        """Return the `started` entry; NotAllowed when the run has none."""
        if self.started is None:
            raise NotAllowed("the run has not started: its journal is empty")
        return self.started

    @property
    def api(self) -> Api:
        """Return the API that the run's transcript is written in."""
        return api_named(self.begun.api)

    @property
    def request(self) -> list[Json]:
        """Return the messages of the next (or repeated) request: a paused answer stands at its end."""
        request = self.messages[:]
        request.extend(self.tail)
        return request

    @property
    def unanswered(self) -> int:
        """Return how many requests had no answer, lost ones and refused ones: nobody knows what they took.

        One that is out is none of them.
        """
        imported = 0 if self.started is None else self.started.turns
        return self.turns - imported - self.answers - (self.state is State.AWAY)

    def call(self, key: CallId) -> Call | None:
        """Return the call at (turn, index): of the newest answer with calls, or an earlier one settled unknown."""
        return next((c for c in self.calls if c.key == key), self.unknown.get(key))

    @property
    def doubts(self) -> list[Call]:
        """Return every call in doubt, oldest first."""
        return [c for c in (*self.unknown.values(), *self.calls) if c.in_doubt]

    @property
    def approvals(self) -> list[Call]:
        """Return every call that waits for a person's approval, in order."""
        return [c for c in self.calls if c.state is CallState.ASKING_APPROVAL]

    @property
    def over(self) -> bool:
        """Tell whether nothing is left to be done, and nothing to be looked into, unless somebody says more."""
        ended = self.state in (State.DONE, State.STOPPED, State.CANCELLED)
        return ended and all(c.state in FINISHED for c in self.calls) and not self.doubts


NEW = Run()
