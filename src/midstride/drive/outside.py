"""What can be done to runs from outside, while one is live or not: look, decide, say, cancel, extend; and remove.

Nothing here drives a run: entries are appended at the expected seq without the lease, and whoever drives the run reads
them before its next append. A run that is removed is nobody's meanwhile: that takes the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from midstride.core import words
from midstride.core.cost import check_limits
from midstride.core.fold import fold, never_happened
from midstride.core.journal import Body, Cancelled, Decided, Extended, Limits, Said, seal
from midstride.core.moves import Move, Rest, crashed, next_move
from midstride.core.reconcile import Poll
from midstride.core.run import NEW, Call, CallState, Run
from midstride.drive import removing
from midstride.drive.clock import Clock
from midstride.drive.history import History, entries_of
from midstride.drive.removing import Removable
from midstride.errors import Damaged, KeyMissing, Moved, Newer, NotAllowed, Removed, UnknownRun
from midstride.hidden import redacted
from midstride.redaction import use_environment
from midstride.stores import Freed, Store, open_store

Json = Any
VERDICTS = ("allow", "deny", "happened", "unknown")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `Runs.verify` found: how many *entries* are whole from the first on, and the *damage* behind them.

    *sealed*: they are encrypted, and a key is not there. What was checked is the chain over what is stored.
    """

    run: str
    entries: int
    damage: str | None = None
    sealed: bool = False


class Runs:
    """The runs of a store: *store* is a store, a URL, or None for the default one."""

    def __init__(self, store: Store | str | None = None, *, clock: Clock | None = None) -> None:
        use_environment()
        self._owns_store = store is None or isinstance(store, str)
        self.store: Store = open_store(store) if store is None or isinstance(store, str) else store
        self._clock = clock or Clock()

    def ids(self, *, newest: int | None = None) -> list[str]:
        """Return the ids of all runs, oldest first; of the *newest* so many alone."""
        return self.store.runs(newest=newest)

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that are not over, oldest first, found without reading the others."""
        return self.store.unfinished()

    def get(self, run_id: str) -> Run:
        """Return the run as its journal has it now; raises UnknownRun, and Removed for one that was removed."""
        run = History.read(self.store, run_id).run
        if run is NEW:
            raise UnknownRun(f"there is no run {run_id!r} in {self.store.url}")
        return run

    def status(self, run_id: str) -> tuple[str, str]:
        """Return how the run stands and why: a result's status, "working", or "interrupted" when it can be resumed."""
        return self.standing(run_id, self.get(run_id))

    def standing(self, run_id: str, run: Run) -> tuple[str, str]:
        """Return the same for a run that has been read already; secrets in the reason are redacted."""
        status, why = self._standing(run_id, run)
        return status, redacted(why)

    def _standing(self, run_id: str, run: Run) -> tuple[str, str]:
        move = next_move(run, now=self._clock.now())
        if isinstance(move, Rest):
            return move.status, move.why
        if isinstance(move, Poll) and self.store.holder(run_id) is None:
            plain = f"{move.call.id} {words.asked_for(move.call)} ({words.standing(move.call)})"
            asks = "a resume asks" if run.api.loops else "its program asks, when it makes this call again,"
            return "waiting", f"{asks} the other side how it stands: {plain}"
        holder = self.store.holder(run_id)
        if holder is not None:
            return "working", f"driven by pid {holder.pid} on {holder.host}"
        again = f"; {crashed(run)}" if run.takes > 1 else ""
        goes_on = "a resume goes on" if run.api.loops else "it goes on when its program makes this call again"
        return "interrupted", f"nobody drives it; {goes_on}: {move.why}{again}"

    def plan(self, run_id: str) -> Move:
        """Return what a resume would do first, and why; nothing is done."""
        return next_move(self.get(run_id), now=self._clock.now())

    def verify(self, run_id: str) -> Verdict:
        """Check that every entry of the journal is as it was written and follows from those before it.

        Of entries whose key is missing the stored chain is checked, and nothing else.
        """
        history, count = History(), 0
        try:
            for entry in entries_of(self.store, run_id):
                history = history.then((entry,))
                count += 1
        except (Damaged, Newer) as error:
            return Verdict(run_id, count, str(error))
        except KeyMissing:
            return self._sealed(run_id)
        if not count:
            raise UnknownRun(f"there is no run {run_id!r} in {self.store.url}")
        return Verdict(run_id, count)

    def _sealed(self, run_id: str) -> Verdict:
        """Return what the stored chain tells of a journal whose key is missing."""
        try:
            return Verdict(run_id, len(self.store.read(run_id)))
        except KeyMissing as error:
            return Verdict(run_id, error.entries, sealed=True)
        except Damaged as error:
            return Verdict(run_id, len(error.whole), str(error))

    def doubts(self, run_id: str) -> list[Call]:
        """Return the run's calls of which nobody knows whether they happened."""
        return self.get(run_id).doubts

    def decide(self, run_id: str, call: str, verdict: str, note: str = "", *, by: str = "a person") -> Run:
        """Record a person's word on the call with this id.

        *verdict*: "allow" approves it or lets it run again, "deny" says it is not to be run, "happened" that it took
        effect (*note* is what the model is told of its result), "unknown" that nobody can know. Raises NotAllowed
        for a call that nobody asks about.
        """
        if verdict not in VERDICTS:
            raise NotAllowed(f"{verdict!r} is no verdict: wanted one of {', '.join(VERDICTS)}")
        return self._append(run_id, lambda run: _decided(_asked_about(run, call), verdict, note, by))

    def say(self, run_id: str, content: Json, *, by: str = "") -> Run:
        """Say something to the model: it comes with the next request, behind the answer that is under way."""
        if not content or (isinstance(content, str) and not content.strip()):
            raise NotAllowed("nothing was said: wanted some text")
        return self._append(run_id, lambda run: Said(content, by))

    def cancel(self, run_id: str, reason: str = "", *, by: str = "") -> Run:
        """Call the run off: nothing new starts, what is under way gets its real result or *unknown*."""
        return self._append(run_id, lambda run: Cancelled(reason, by))

    def extend(
        self,
        run_id: str,
        *,
        turns: int | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
        cost: float | None = None,
        by: str = "a person",
    ) -> Run:
        """Set limits anew, those that are given; it also releases a run that is held or stopped.

        A limit on *cost* counts with a program that gives prices; without them the program is refused.
        """

        def extended(run: Run) -> Extended:
            had = run.limits
            limits = Limits(
                had.turns if turns is None else turns,
                had.tokens if tokens is None else tokens,
                had.seconds if seconds is None else seconds,
                had.cost if cost is None else cost,
            )
            check_limits(limits)
            if cost is not None and not run.api.loops:
                raise NotAllowed("this run is one call of a ledger, which asks no model: it has no cost to be limited")
            return Extended(limits, by)

        return self._append(run_id, extended)

    # ---- removing

    def old(self, older_than: float, *, keep: int = 0) -> Iterator[Removable]:
        """Yield the runs that are over, and have had no entry for *older_than* seconds: those that may be removed.

        Nothing is left to be done in them or to be looked into, and nobody drives them. The newest *keep* runs of the
        store are spared. One whose journal cannot be read comes with its `damage`, and is left unless a person names
        it. Raises DeclarationError for a store that holds one run.
        """
        return removing.old(self.store, self._clock.now() - older_than, keep)

    def size(self, run_id: str) -> int:
        """Return how many bytes the run's entries and the whole results kept for it take."""
        return self.store.size(run_id)

    def look(self, run_id: str) -> Removable:
        """Return what would be removed with the run; raises UnknownRun, and Removed for one that is gone already."""
        return removing.looked_at(self.store, run_id)

    def remove(self, what: str | Removable) -> Removable:
        """Remove a run: its entries, and the whole results that were kept for it. Nothing begins anew under its id.

        An id removes the run whatever its state; what `old` has given is removed as it was seen, and raises Moved where
        the run went on since. Raises Held while a living process drives it, UnknownRun, Removed. What may be done again
        is forgotten with it: see `forget`. Its space is given back by `shrink`.
        """
        while True:
            found = self.look(what) if isinstance(what, str) else what
            try:
                removing.remove(self.store, found, self._clock.now())
            except Moved:
                if isinstance(what, str):
                    continue  # somebody was quicker: what is lost is told as it is now
                raise
            return found

    def forget(self, run_id: str) -> None:
        """Let the id of a removed run begin anew, and its business keys be claimed: all that it did may be done again.

        Raises NotAllowed for a run that was not removed, UnknownRun, Held.
        """
        try:
            self.get(run_id)
        except Removed:
            lease = self.store.lease(run_id)
            try:
                self.store.forget(run_id, lease)
            finally:
                lease.release(clean=True)
            return
        raise NotAllowed(f"run {run_id!r} is there: remove it first, then it can be forgotten")

    def shrink(self) -> Freed:
        """Give the space of removed runs back to the file system, and return how much that is."""
        return self.store.shrink()

    def close(self) -> None:
        """Close the store, if it was opened here: closing one takes its runs from whoever drives them."""
        if self._owns_store:
            self.store.close()

    def _append(self, run_id: str, body_of: Callable[[Run], Body]) -> Run:
        while True:
            history = History.read(self.store, run_id)
            if history.run is NEW:
                raise UnknownRun(f"there is no run {run_id!r} in {self.store.url}")
            entries = seal([body_of(history.run)], history.run.head, self._clock.now())
            after = fold(entries, history.run)  # a table's empty cell is an error before anything is written
            try:
                self.store.append(run_id, entries, token=None, over=after.over)
            except Moved:
                continue  # somebody was quicker: decide anew on what is there now
            return after


def _asked_about(run: Run, call_id: str) -> Call:
    """Return the one call with this id that a decision can be about; ids repeat, so the newest counts."""
    asking = (CallState.ASKING_APPROVAL, CallState.ASKING_DOUBT)
    found = [c for c in (*run.unknown.values(), *run.calls) if c.id == call_id]
    open_ones = [c for c in found if c.state in asking or (c.state is CallState.UNKNOWN and c.verdict is None)]
    if open_ones:
        return open_ones[-1]
    if found and found[-1].state is CallState.ACCEPTED:
        ask = " Resume the run with force to ask at once." if run.api.loops else ""
        raise NotAllowed(
            f"call {call_id} needs no decision, the other side has it: {words.standing(found[-1])}.{ask} To give it "
            "up, cancel the run, or let the tool's poll return CannotTell"
        )
    if found:
        state = f"{found[-1].state}, decided {found[-1].verdict}" if found[-1].verdict else str(found[-1].state)
        raise NotAllowed(f"call {call_id} needs no decision: it is {state}")
    ids = ", ".join(c.id for c in run.doubts) or "none"
    waiting = f"; waiting for approval: {', '.join(c.id for c in run.approvals)}" if run.approvals else ""
    raise NotAllowed(f"the run has no call {call_id} to decide about; in doubt: {ids}{waiting}")


def _decided(call: Call, verdict: str, note: str, by: str) -> Decided:
    return Decided(call.turn, call.index, verdict, _told(call, verdict, note, by), by)


def _told(call: Call, verdict: str, note: str, by: str) -> Json:
    """Return what the model is told, made here once: later wordings do not change it."""
    if call.state is CallState.UNKNOWN:
        return words.late_truth(call, verdict, note, by) if verdict in ("happened", "unknown") else note
    if verdict == "deny":
        return words.denied(note, started=not never_happened(call))
    if verdict == "happened":
        return words.told(note)
    return words.cannot_tell(note) if verdict == "unknown" else note
