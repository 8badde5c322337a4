"""The steps by which a run goes on: one generator, performed by the blocking and the asynchronous driver alike.

`advance` asks `next_move` and yields what has to be done outside: `Append`, `Start`, `Gather`, `Transact`, `LookUp`,
`PollUp`, `Check`, `Mend`, `Send`, `Pause`. A driver performs the step and sends back a `Reply`: the time, the step's
value, and whichever attempts have ended meanwhile. The generator returns the `Rest` that the run came to.

The rules of this file:

- Nothing is done outside while entries are unsaved: an intent is on disk before its tool starts (decision 3), an
  answer before its tools run, a result before the next request (decision 9). Entries that fall due together are
  one append: `settled(k) + intended(k + 1)`, `settled(last) + requested`.
- When somebody appended in between (`Tail`), what was not saved is decided anew; what tools or the model gave is kept
  in hand and written again behind the tail. Only a transaction is rolled back and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from midstride.core import words
from midstride.core.fold import fold
from midstride.core.journal import (
    Accepted,
    Body,
    Compacted,
    Decided,
    Entry,
    Extended,
    Failed,
    Intended,
    Requested,
    Responded,
    Settled,
    Terms,
    seal,
)
from midstride.core.moves import Collect, Fetch, Request, crashed, next_move, rested_at
from midstride.core.polling import POLL_SECONDS, POLL_SECONDS_BESIDE, accepted, after_poll
from midstride.core.reconcile import (
    Death,
    Execute,
    Later,
    Live,
    Look,
    Poll,
    Program,
    Seen,
    Write,
    after_look,
    effective,
    intent,
)
from midstride.core.run import Call, CallId, CallState, Run, State
from midstride.core.steps import (
    Answered,
    Append,
    Check,
    Ended,
    Gather,
    LookUp,
    Lost,
    Mend,
    Pause,
    PollUp,
    Refused,
    Reply,
    Send,
    Start,
    Step,
    Steps,
    Tail,
    Transact,
    UnderWay,
)
from midstride.errors import Interrupted, InvalidTranscript, ModelUnavailable

Json = Any

TRIES_MAX = 6
"""How often one answer is asked for in one process before the run is left resumable; with BACK_OFF about a minute."""

BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds to wait before asking again when the API does not say (it says so in retry-after)."""

WAIT_MAX = 600.0
"""Seconds beyond which a wait that the API asks for is no pause of a process but a reason to come back later."""

VERIFY_SECONDS = 60.0
"""How long a verify may take whose tool has no timeout: a look can be given up safely, and cannot tell then."""

RUNNING_MAX = 8
"""Attempts that run at once in one run unless told otherwise: reads of one answer, and at most one effect among them.
As many as a model commonly asks for at once, and few enough for the other side's limits on requests."""


@dataclass
class Desk:
    """What the generator works with: the run as saved, the run as it will be, and what is in hand in between.

    *restored* says that the store came back from a backup while an answer was under way: it is the very answer whose
    calls may have begun since.
    """

    saved: Run
    now: float
    program: Program
    params: Mapping[str, Json]
    parallel: int = RUNNING_MAX
    running: set[CallId] = field(default_factory=set)
    alive: set[CallId] = field(default_factory=set)
    deaths: dict[CallId, Death] = field(default_factory=dict)
    unsaved: list[Entry] = field(default_factory=list)
    whys: dict[int, str] = field(default_factory=dict)
    in_hand: list[Ended] = field(default_factory=list)
    written: list[Ended] = field(default_factory=list)
    lost: int = 0
    mended: bool = False
    stopping: bool = False
    restored: bool = False

    def __post_init__(self) -> None:
        self.run = fold(self.unsaved, self.saved)
        self.opening = tuple(entry.body for entry in self.unsaved)

    @property
    def live(self) -> Live:
        """Return what this process knows of its attempts."""
        return Live(frozenset(self.running), frozenset(self.alive), self.deaths, len(self.running) >= self.parallel)

    def write(self, *bodies: Body, why: str = "") -> None:
        """Put *bodies* behind the run; they are saved with the next append. *why* is that of the move they are."""
        entries = seal(bodies, self.run.head, self.now)
        self.whys.update((entry.seq, why) for entry in entries if why)
        self.add(entries, fold(entries, self.run))

    def add(self, entries: Sequence[Entry], run: Run) -> None:
        """Put sealed *entries* behind the run, which is *run* after them."""
        self.run = run
        self.unsaved += entries

    def hear(self, reply: Reply) -> Any:
        """Take in a reply: the time, and the attempts that ended."""
        self.now, self.stopping = reply.now, reply.stopping
        for ended in reply.ended:
            self.running.discard(ended.key)
            self.alive.discard(ended.key)
            if ended.alive:
                self.alive.add(ended.key)
            self.in_hand.append(ended)
        return reply.value


# ---- the generator


def advance(desk: Desk) -> Steps:
    """Carry the run on until it rests; the entries already in *desk.unsaved* go with the first append."""
    while True:
        _take_in(desk)
        if desk.stopping:
            yield from _wind_down(desk)
            continue
        move = next_move(desk.run, now=desk.now, live=desk.live, program=desk.program)
        pause = rested_at(desk.run) - desk.now
        match move:
            case Execute() | Look() | Poll() | Request() | Fetch() if pause > 0:
                if (yield from _flush(desk)) and not desk.in_hand:
                    yield from _do(desk, Pause(pause, crashed(desk.run)))
            case Write():
                desk.write(*move.bodies, why=move.why)
            case Execute():
                yield from _execute(desk, move)
            case Look():
                yield from _look(desk, move)
            case Poll():
                yield from _poll(desk, move)
            case Later() | Collect():
                # An attempt that ended while entries were saved is in hand already: waiting for it would be for ever.
                if (yield from _flush(desk)) and not desk.in_hand:
                    yield from _gather(desk, move.until)
            case Request():
                yield from _request(desk)
            case Fetch():
                if (yield from _flush(desk)) and not desk.in_hand:
                    yield from _hear(desk, (yield from _do(desk, Send(desk.run, desk.run.handle))))
            case _:  # a Rest
                if (yield from _flush(desk)) and not desk.in_hand:
                    return move


def _wind_down(desk: Desk) -> Generator[Step, Reply, None]:
    """Save what there is and wait for what runs; once nothing does, raise Interrupted."""
    if not (yield from _flush(desk)) or desk.in_hand:
        return
    if not desk.running:
        raise Interrupted("the run stopped as it was asked to; nothing is lost, run the same program again")
    yield from _gather(desk, None)


def _gather(desk: Desk, until: float | None) -> Generator[Step, Reply, None]:
    """Wait, with nothing unsaved; what others append meanwhile is taken in at once: a tool may hang for ever."""
    value = yield from _do(desk, Gather(until))
    if isinstance(value, Tail):
        _behind(desk, value)


def _do(desk: Desk, step: Step) -> Generator[Step, Reply, Any]:
    reply = yield step
    return desk.hear(reply)


def _flush(desk: Desk) -> Generator[Step, Reply, bool]:
    """Save what is unsaved; False when it has to be decided anew behind what others appended."""
    if not desk.unsaved:
        return True
    value = yield from _do(desk, Append(tuple(desk.unsaved), desk.whys))
    if isinstance(value, Tail):
        _behind(desk, value)
        return False
    desk.saved, desk.unsaved, desk.written, desk.opening, desk.whys = desk.run, [], [], (), {}
    return True


def _behind(desk: Desk, tail: Tail) -> None:
    desk.saved = desk.run = fold(tail.entries, desk.saved)
    desk.in_hand = desk.written + desk.in_hand
    desk.unsaved, desk.written, desk.whys = [], [], {}
    # That the run was taken up stays true behind whatever came in between.
    desk.write(*(body for body in desk.opening if _still_fits(desk.run, body)))


def _still_fits(run: Run, body: Body) -> bool:
    """Tell whether an opening entry has its place still: a cancelled run has no use for new limits, for example."""
    if isinstance(body, Extended):
        return run.state is not State.CANCELLED
    call = run.call((body.turn, body.index)) if isinstance(body, (Intended, Settled)) else None
    return call is None or call.state in (CallState.NEW, CallState.ALLOWED, CallState.ASKING_APPROVAL)


def _take_in(desk: Desk) -> None:
    """Write down what the attempts in hand gave."""
    for ended in desk.in_hand:
        desk.written.append(ended)
        call = desk.run.call(ended.key)
        if call is not None:
            desk.write(*_bodies(desk, call, ended))
    desk.in_hand = []


def _bodies(desk: Desk, call: Call, ended: Ended) -> tuple[Body, ...]:
    """Return what is recorded of an attempt that ended; an effect that went wrong only counts as dead (decision 10)."""
    if ended.how == "returned":
        return returned(call, ended.content)
    if ended.how == "accepted":
        return accepted(call, ended.content, effective(call, desk.program))
    if call.state not in (CallState.NEW, CallState.ALLOWED, CallState.INTENDED):
        if call.state is not CallState.SETTLED:  # reported as alive, perhaps to an earlier driver: it could take effect
            known = desk.deaths.get(call.key)  # until now
            desk.deaths[call.key] = Death(desk.now, known.how if known else str(ended.content))
        return ()
    definite = effective(call, desk.program).effect in ("read_only", "transactional")
    # On a later attempt an earlier one may have happened: then it is an exception like any other.
    definite = definite or (ended.how == "did not happen" and call.attempts == 1 and not call.imported)
    if definite:
        return (Settled(call.turn, call.index, "failed", words.failed(str(ended.content))),)
    desk.deaths[call.key] = Death(desk.now, str(ended.content))
    return ()


def returned(call: Call, content: Json) -> tuple[Body, ...]:
    """Return what is recorded of a result, however late it comes."""
    if call.state is CallState.UNKNOWN:
        return (_late_truth(call, content),)
    if call.state is CallState.SETTLED:
        return ()
    return (Settled(call.turn, call.index, "ok", content),)


def _late_truth(call: Call, content: Json) -> Decided:
    """Return the entry for the result of an attempt that ended after its call was settled unknown (decision 10)."""
    shown = f"Its result: {content}" if isinstance(content, str) else ""
    return Decided(call.turn, call.index, "happened", words.late_truth(call, "happened", shown, "the tool"), by="tool")


def _execute(desk: Desk, move: Execute) -> Generator[Step, Reply, None]:
    """Start one attempt, its intent saved before it; a transaction is waited for."""
    if desk.stopping:
        return  # asked while a look was under way: nothing new starts
    if len(desk.running) >= desk.parallel:
        if (yield from _flush(desk)) and not desk.in_hand:
            yield from _gather(desk, None)
        return
    terms = effective(move.call, desk.program)
    if move.intend:
        desk.write(intent(move.call, terms))
    if (move.intend or not _unsaved_can_wait(desk)) and not (yield from _flush(desk)):
        return
    call = desk.run.call(move.call.key) or move.call
    desk.deaths.pop(call.key, None)
    attempt = _attempt_of(call, terms)
    if terms.effect == "transactional":
        yield from _transact(desk, call, attempt, terms.timeout, move.why)
        return
    desk.running.add(call.key)
    yield from _do(desk, Start(call, attempt, terms.timeout, terms.effect != "read_only", move.why))


def _unsaved_can_wait(desk: Desk) -> bool:
    """Tell whether a read may start before what is unsaved is saved: results of other reads can be made again."""
    if not desk.run.api.loops:
        return True  # no answer was paid for: whoever made the call makes it again
    for entry in desk.unsaved:
        call = desk.run.call((entry.body.turn, entry.body.index)) if isinstance(entry.body, Settled) else None
        if call is None or effective(call, desk.program).effect != "read_only":
            return False
    return True


def _attempt_of(call: Call, terms: Terms) -> int:
    """Return the number of the attempt that starts now; a read's first one has no intent to be counted by."""
    unwritten = terms.effect == "read_only" and not call.imported and call.attempts > 0
    return call.attempts + 1 if unwritten else max(1, call.attempts)


def _transact(desk: Desk, call: Call, attempt: int, timeout: float | None, why: str) -> Generator[Step, Reply, None]:
    head = desk.saved.head

    def sealed(content: Json, now: float) -> tuple[Entry, ...]:
        return seal((Settled(call.turn, call.index, "ok", content),), head, now)

    value = yield from _do(desk, Transact(call, attempt, timeout, sealed, why))
    if isinstance(value, Tail):
        _behind(desk, value)
    elif isinstance(value, Ended):
        desk.in_hand.append(value)
    else:
        desk.saved = desk.run = fold(value, desk.saved)


def _look(desk: Desk, move: Look) -> Generator[Step, Reply, None]:
    """Look, and do what the answer asks for, unless somebody changed the run meanwhile."""
    if not (yield from _flush(desk)):
        return
    timeout = effective(move.call, desk.program).timeout or VERIFY_SECONDS
    seen: Seen = yield from _do(desk, LookUp(move.call, timeout, move.why))
    then = after_look(desk.run, move, seen, desk.program)
    if isinstance(then, Execute):
        yield from _execute(desk, then)
    else:
        desk.write(*then.bodies, why=then.why)


def _poll(desk: Desk, move: Poll) -> Generator[Step, Reply, None]:
    """Ask how accepted work stands; its result is in hand then, as if its attempt had returned it."""
    if not (yield from _flush(desk)):
        return
    # What else runs here has its result saved by the next step: beside it a poll may take no longer than a moment.
    seconds = POLL_SECONDS_BESIDE if desk.running else POLL_SECONDS
    seen: Seen = yield from _do(desk, PollUp(move.call, seconds, move.why))
    if seen.answer == "happened":
        desk.in_hand.append(Ended(move.call.key, "returned", seen.content))
        return
    _take_in(desk)  # an attempt that went on behind its handle may have returned the result meanwhile
    call = desk.run.call(move.call.key)
    if call is not None and call.state is CallState.ACCEPTED:
        if seen.answer == "did not" and call.key in desk.alive:  # its attempt goes on, and may still have its effect
            why = f"The other side did not carry it out ({seen.why}), and its attempt is still running."
            seen = Seen("cannot", why=why)
        desk.write(*after_poll(desk.run, call, seen, desk.now, desk.program))


def _request(desk: Desk) -> Generator[Step, Reply, None]:
    """Ask the model once the transcript is checked and `requested` is saved; write down what it answers."""
    requested = seal((Requested(desk.run.api.roomier(desk.params, desk.run.cuts)),), desk.run.head, desk.now)
    after = fold(requested, desk.run)
    checked: Compacted | str | None = yield from _do(desk, Check(after))
    if isinstance(checked, str):
        if (yield from _flush(desk)):
            raise InvalidTranscript(checked)
        return
    desk.add(requested, after)
    if checked is not None:
        # What was said since stands in the request, and what mends it replaces both: it comes behind `requested`.
        desk.write(checked)
    if not (yield from _flush(desk)):
        return
    yield from _hear(desk, (yield from _do(desk, Send(desk.run))))


def _hear(desk: Desk, value: Any) -> Generator[Step, Reply, None]:
    """Write down what the model's API gave; where it gave no answer, ask once more, or leave that to the next move."""
    handle = desk.run.handle
    while isinstance(value, (Lost, UnderWay)):
        if isinstance(value, UnderWay):
            handle = value.handle
            yield from _under_way(desk, handle)
        else:
            if value.paid and handle is not None:
                yield from _under_way(desk, None)
            yield from _again(desk, value)
            if value.paid or desk.stopping:
                return  # an answer had begun, and was paid: asking again is another request
        value = yield from _do(desk, Send(desk.run, handle))
    desk.lost = 0
    if not isinstance(value, Refused):
        desk.mended = False
        yield from _save(desk, lambda run: _answer(run, value, restored=desk.restored))
        desk.restored = False
    elif not (value.invalid and (yield from _mend(desk))):
        yield from _save(desk, lambda run: () if run.state is State.CANCELLED else (Failed(value.reason),))


def _mend(desk: Desk) -> Generator[Step, Reply, bool]:
    """Mend what the API called invalid; the next request carries it. False when it stays as it is, to fail.

    Once for one answer: a second refusal is told as it is.
    """
    mended: Compacted | None = None if desk.mended else (yield from _do(desk, Mend(desk.run)))
    if mended is None:
        return False
    desk.write(mended)
    desk.mended = yield from _flush(desk)  # behind what others appended in between it is refused and mended anew
    return True


def _again(desk: Desk, lost: Lost) -> Generator[Step, Reply, None]:
    if lost.wait is not None and lost.wait > WAIT_MAX:
        raise ModelUnavailable(
            f"the API asks to wait {lost.wait:.0f} s before it is asked again ({lost.reason}); nothing is lost, run "
            "the same program again then"
        )
    desk.lost += 1
    if desk.lost >= TRIES_MAX:
        raise ModelUnavailable(
            f"the model gave no answer in {desk.lost} tries: {lost.reason}; nothing is lost, run the same program again"
        )
    wait = BACK_OFF[min(desk.lost, len(BACK_OFF)) - 1] if lost.wait is None else lost.wait
    yield from _do(desk, Pause(wait, lost.reason))


def _save(desk: Desk, bodies: Callable[[Run], Sequence[Body]]) -> Generator[Step, Reply, None]:
    """Save what *bodies* makes of the run, behind whatever others append in between."""
    desk.write(*bodies(desk.run))
    while not (yield from _flush(desk)):
        desk.write(*bodies(desk.run))


def _under_way(desk: Desk, handle: Json) -> Generator[Step, Reply, None]:
    """Save what finds an answer under way, or that nothing comes of it; of a run that was cancelled since, nothing."""

    def accepted(run: Run) -> tuple[Body, ...]:
        return () if run.state is State.CANCELLED else (Accepted(run.turns, None, handle),)

    yield from _save(desk, accepted)


def _answer(run: Run, answered: Answered, *, restored: bool) -> tuple[Body, ...]:
    """Return the response, and what is known of its calls, in the same append.

    Those of a final answer are *not started*. Those of an answer that was under way when the store's backup was made
    may have begun since (*restored*).
    """
    api, response = run.api, Responded(answered.response, answered.calls, answered.cost)
    made, stop = range(len(api.calls(answered.response))), api.stop(answered.response)
    if run.state is State.CANCELLED or stop not in ("final", "calls"):
        return (response,)
    if stop == "calls":
        begun = [index for index in made if restored and answered.calls[index].problem is None]
        return (response, *(Intended(run.turns, index, imported=True) for index in begun))
    why = words.not_started(f"the answer ended with {api.reason(answered.response)}, so its calls are not run.")
    return (response, *(Settled(run.turns, index, "not started", why) for index in made))
