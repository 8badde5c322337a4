"""One effectful call, once: for people with a loop of their own, or of a framework, who wrap only such calls.

    ledger = Ledger("sqlite:calls.db")
    text = ledger.once(send_email, call_id, {"to": "ann"}, scope=thread_id)

A call is a run of its own, with the id `scope/call_id`, and has a run's promise: its intent is durable before the tool
starts, its result before it is returned, the same id gives the recorded result without running anything, and what a
crash left open goes through the same table. A business key (`key=` of the tool) counts across all calls of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from midstride.core import words
from midstride.core.reconcile import CLAIMS, NOTHING_LIVE, Seen, claim_of, due_at, effective
from midstride.core.run import Call, CallState, Run
from midstride.core.settle import VERIFY_SECONDS
from midstride.drive import Clock
from midstride.drive.asynchronous import AsyncDriver, looked
from midstride.drive.blocking import Driver
from midstride.drive.calls import Calls
from midstride.drive.history import History
from midstride.errors import Claimed, DeclarationError, Held, InDoubt, NotDone, Removed
from midstride.ledger.deed import Deed, deed_of
from midstride.ledger.outcome import how_to_decide, plain, removed_elsewhere, result_of
from midstride.ledger.shell import CarryShell, MakeShell, OneCall
from midstride.stores import Store, open_store
from midstride.threads import in_thread
from midstride.tools import Tool, Toolbox

Json = Any


class Ledger:
    """Makes each call once. *store* is a store or a URL, by default `sqlite:.midstride/runs.db`; it is opened once.

    One ledger may be used by many threads and tasks. Raises DeclarationError for a store that holds one run.
    """

    def __init__(self, store: Store | str | None = None, *, clock: Clock | None = None) -> None:
        self._owns_store = store is None or isinstance(store, str)
        self.store: Store = open_store(store) if store is None or isinstance(store, str) else store
        self._clock = clock or Clock()
        if not hasattr(self.store, "claims"):
            raise DeclarationError(f"{store!r} is no store: give a URL such as sqlite:calls.db, or a store")
        if not self.store.claims:
            raise DeclarationError(
                f"{self.store.url} holds one run, and a ledger keeps one for each call: use sqlite:PATH"
            )

    def once(self, tool: Tool[..., Any], call_id: str, arguments: Mapping[str, Json], *, scope: str) -> Json:
        """Return the result of the call: run it now, or give what is recorded for *call_id* in *scope*.

        *scope* is what the call id is unique in: the thread or the conversation. The result is a text; a list of blocks
        where the tool gave a picture or a document. What has no result raises a CallError, whose text is fit for the
        model: InDoubt, Denied, NeedsPerson, NotDone, ToolFailed or WrongArguments. Raises Held while another thread or
        process makes this very call, TaskDiffers for another call under the same id, Removed where the call was made
        and its record removed.
        """
        steps, reply = self._steps(deed_of(tool, call_id, arguments, scope)), None
        try:
            while True:
                reply = _perform(steps.send(reply))
        except StopIteration as end:
            return end.value

    async def once_async(
        self, tool: Tool[..., Any], call_id: str, arguments: Mapping[str, Json], *, scope: str
    ) -> Json:
        """Do the same without blocking the event loop."""
        steps, reply = self._steps(deed_of(tool, call_id, arguments, scope)), None
        try:
            while True:
                reply = await _perform_async(steps.send(reply))
        except StopIteration as end:
            return end.value

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # ---- what is done for one call; both ways of waiting perform the same steps

    def _steps(self, deed: Deed) -> Steps:
        """Make the call; where its business key is another run's, find out first what that run means for it."""
        instead_of, done = None, None
        while True:
            run = yield Carry(MakeShell(self.store, deed, self._clock, instead_of=instead_of, done=done))
            if isinstance(run, Run):
                return result_of(run, deed.run_id, self.store)
            if isinstance(run, Held):
                raise _held(deed.run_id, run)
            instead_of, done = yield from self._first(deed, run.owner)

    def _first(self, deed: Deed, owner: str) -> Generator[Step, Any, tuple[str | None, Json]]:
        """Return *owner*, if it is free of the business key, or what *deed* is told where the same deed is done.

        Raises InDoubt for all else, and nothing is written of *deed* then: it is judged anew the next time. A call
        whose process died is carried to its end first.
        """
        found: Run | Removed = yield Blocking(lambda: self._run_of(owner))
        if isinstance(found, Removed):
            raise removed_elsewhere(self.store, owner, found)
        run = found
        if claim_of(run.calls[0]) == "open":
            carried = yield Carry(CarryShell(self.store, owner, deed.tool, self._clock))
            if isinstance(carried, Held):
                raise self._elsewhere(run, owner, f"it is being made by pid {carried.holder.pid}")
            run = carried
        call = run.calls[0]
        claim = claim_of(call)
        if claim == "look":
            claim, call = yield from self._look(run, owner, deed)
        if claim == "done":
            return None, plain(words.already_done(_named(call, owner)))
        if claim == "free":
            return owner, None
        if call.state is CallState.ACCEPTED:
            raise NotDone(words.going_on(_named(call, owner)), owner, call.id, call.again_at)
        raise self._elsewhere(run, owner, CLAIMS[claim])

    def _run_of(self, owner: str) -> Run | Removed:
        try:
            return History.read(self.store, owner).run
        except Removed as removed:
            return removed

    def _look(self, run: Run, owner: str, deed: Deed) -> Generator[Step, Any, tuple[str, Call]]:
        """Look up a verifiable call that was settled unknown; return what it means, and the call with its result."""
        call = run.calls[0]
        terms = effective(call, {deed.tool.name: deed.tool.terms})
        if (yield Blocking(lambda: self.store.holder(owner))) is not None:
            raise self._elsewhere(run, owner, "it is still running")
        due = due_at(call, terms, NOTHING_LIVE)
        if self._clock.now() < due:
            raise self._elsewhere(run, owner, f"it can be looked up from {words.utc(due)} on")
        calls = OneCall(Toolbox([deed.tool]), owner, run.begun.nonce, partial(self.store.keep, owner))
        seen: Seen = yield Look(calls, call, terms.timeout or VERIFY_SECONDS)
        if seen.answer == "happened":
            return "done", replace(call, content=seen.content, settled_at=call.last_at)
        if seen.answer == "did not":
            return "free", call
        raise self._elsewhere(
            run, owner, f"it was looked up, which did not tell whether it happened. {seen.why}".strip()
        )

    def _elsewhere(self, run: Run, owner: str, state: str) -> InDoubt:
        call = run.calls[0]
        way = f" {how_to_decide(self.store, owner, call)}" if call.in_doubt else ""
        return InDoubt(words.elsewhere(_named(call, owner), state) + way, owner, call.id)


def _named(call: Call, run_id: str) -> Call:
    return replace(call, id=run_id)  # beyond its run a call is known by the run's id, which holds its own


def _held(run_id: str, held: Held) -> Held:
    holder = held.holder
    return Held(
        f"call {run_id!r} is being made by pid {holder.pid} on {holder.host}: nothing was started; its result is there "
        "when that has ended",
        holder,
    )


# ---- steps


@dataclass(frozen=True)
class Carry:
    """Carry the shell's run on until it rests. Value: the run; `Claimed` or `Held` when another one is in the way."""

    shell: CarryShell


@dataclass(frozen=True)
class Look:
    """Ask the verify of a call. Value: `Seen`."""

    calls: Calls
    call: Call
    timeout: float


@dataclass(frozen=True)
class Blocking:
    """Do *work*, which asks the store. Value: what it returns."""

    work: Callable[[], Any]


Step = Carry | Look | Blocking
Steps = Generator[Step, Any, Json]


def _perform(step: Step) -> Any:
    match step:
        case Look():
            return step.calls.look(step.call, step.timeout)
        case Blocking():
            return step.work()
    try:
        with step.shell as shell:
            Driver(shell).next_send()
            return shell.run
    except (Claimed, Held) as in_the_way:
        return in_the_way


async def _perform_async(step: Step) -> Any:
    match step:
        case Look():
            return await looked(step.calls, step.call, step.timeout)
        case Blocking():
            return await in_thread(step.work)
    try:
        async with AsyncDriver(step.shell) as driver:
            await driver.next_send()
            return driver.shell.run
    except (Claimed, Held) as in_the_way:
        return in_the_way
