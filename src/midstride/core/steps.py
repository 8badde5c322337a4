"""The steps of a run, which a driver performs, and what it sends back for each.

They are values and do nothing: `core.settle` yields them, `drive` and a person's watch look at them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from midstride.core.journal import Entry, Recorded
from midstride.core.moves import Rest
from midstride.core.run import Call, CallId, Run

Json = Any


@dataclass(frozen=True, slots=True)
class Append:
    """Make *entries* durable. Value: None, or `Tail` when somebody appended in between.

    *whys* says why a move wrote an entry, by its seq; an entry that is no move's choice has none.
    """

    entries: tuple[Entry, ...]
    whys: Mapping[int, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """Check the request of *run* by the API's rules.

    Value: None; `Compacted` where it has to be mended, and can be; or what is wrong with it, in a sentence.
    """

    run: Run


@dataclass(frozen=True, slots=True)
class Mend:
    """Mend the request of *run*, which the API called invalid. Value: `Compacted`, or None when nothing changes."""

    run: Run


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the model, or with a *handle* fetch what it goes on with by itself.

    Value: `Answered`, `Lost`, `Refused` or `UnderWay`.
    """

    run: Run
    handle: Json = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait *seconds* before the model is asked again, or a run goes on that crashed, because of *reason*."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt of *call*, the *attempt*-th, which may take *timeout* seconds, and do not wait for it.

    *effect* tells whether it counts as one that may do something to the world, whatever the program's tool says; *why*
    is the move's.
    """

    call: Call
    attempt: int
    timeout: float | None
    effect: bool
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Gather:
    """Wait until an attempt ends, somebody appends, or *until* comes (seconds since the epoch).

    Value: None, or `Tail` when somebody appended; a driver may also notice that later, with its next append.
    """

    until: float | None


@dataclass(frozen=True, slots=True)
class Transact:
    """Run an attempt inside a transaction and append what *seal* makes of its content and the time, in it.

    Value: the committed entries, an `Ended` when the tool failed, or a `Tail`: both times it was rolled back.
    """

    call: Call
    attempt: int
    timeout: float | None
    seal: Callable[[Json, float], tuple[Entry, ...]]
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the tool's verify about *call*, which may take *timeout* seconds. Value: `Seen`."""

    call: Call
    timeout: float
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PollUp:
    """Ask the tool's poll how the accepted work of *call* stands, at most *timeout* seconds. Value: `Seen`."""

    call: Call
    timeout: float
    why: str = field(default="", compare=False)


Step = Append | Check | Mend | Send | Pause | Start | Gather | Transact | LookUp | PollUp


@dataclass(frozen=True, slots=True)
class Tail:
    """What others appended behind what we knew; our token is still the newest."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's response, verbatim, what is known about each of its calls, and its cost as it is recorded."""

    response: Mapping[str, Json]
    calls: tuple[Recorded, ...]
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer this time: *paid* when one had begun; *wait* in seconds when the API asked for it.

    Of an answer that was to be fetched, *paid* says that nothing comes of it any more. *type* names the error for
    statistics: a status such as "529", or the exception's class.
    """

    reason: str
    wait: float | None = None
    paid: bool = False
    type: str = field(default="lost", compare=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The API refuses the request for good; *invalid* when it says that the request is wrong (status 400).

    *type* names the error for statistics, as that of `Lost`.
    """

    reason: str
    invalid: bool = False
    type: str = field(default="refused", compare=False)


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The API goes on with the answer by itself, whatever becomes of this process; *handle* finds it again."""

    handle: Json


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt ended: *how* is "returned", "accepted", "raised", "did not happen" or "timed out".

    *content* is the result's (returned), the handle of the work (accepted) or a sentence (otherwise); *alive* when the
    attempt goes on all the same; *type* names what was raised, for statistics.
    """

    key: CallId
    how: str
    content: Json
    alive: bool = False
    type: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a driver sends back: the time, the step's value, and the attempts that ended meanwhile.

    *stopping* asks the run to stop in order: nothing new starts, what runs is waited for and saved, then Interrupted.
    """

    now: float
    value: Any = None
    ended: tuple[Ended, ...] = ()
    stopping: bool = False


Steps = Generator[Step, Reply, Rest]
