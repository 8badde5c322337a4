"""What both drivers share: taking a run up, appending with its token, and what an answer is recorded with.

Everything here blocks; the asynchronous driver calls it in a thread. Decisions are the core's.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from midstride.core.cost import check_prices, prices_of
from midstride.core.fold import fold
from midstride.core.imports import Foreign, imported, restored
from midstride.core.journal import (
    OUTSIDE,
    Body,
    Entry,
    Extended,
    Limits,
    Started,
    Taken,
    seal,
)
from midstride.core.moves import Rest, next_move
from midstride.core.polling import accepted
from midstride.core.reconcile import Live, effective
from midstride.core.run import NEW, CallState, Run, State
from midstride.core.settle import Desk, returned
from midstride.core.steps import Answered, Ended, Tail
from midstride.drive.attempts import Attempts, Kept
from midstride.drive.attempts_here import attempts_of
from midstride.drive.calls import Calls
from midstride.drive.clock import Clock
from midstride.drive.history import History, entries_of
from midstride.drive.log import log
from midstride.drive.observing import Observed, Taking
from midstride.drive.plan import Plan, apart, check_api, check_observer, check_parallel
from midstride.drive.requests import Requests
from midstride.drive.result import Result, result_of
from midstride.drive.stop import GRACE_SECONDS
from midstride.drive.telling import Teller, Watch
from midstride.errors import (
    DeclarationError,
    Fenced,
    MidstrideError,
    Moved,
    NotAllowed,
    NotAResponse,
    TaskDiffers,
    UnknownRun,
)
from midstride.hidden import redacted
from midstride.redaction import use_environment
from midstride.stores import Lease, Store, open_store
from midstride.visible import word

Json = Any
LISTEN_SECONDS = 1.0
"""How often a driver that waits for its tools looks whether somebody has appended: one look at the store's tail."""


class Shell:
    """One run of one store, from being taken up until it is let go."""

    def __init__(self, store: Store | str | None, run_id: str, plan: Plan, clock: Clock, watch: Watch | None) -> None:
        use_environment()
        self._owns_store = store is None or isinstance(store, str)
        self.store: Store = open_store(store) if store is None or isinstance(store, str) else store
        self.run_id, self.plan, self.clock = run_id, plan, clock
        self.tell = Teller(run_id, watch)
        self.lease: Lease | None = None
        self.token: int | None = None
        self.desk: Desk | None = None
        self.rest: Rest | None = None
        self.attempts = Attempts()
        self.calls = Calls(plan.toolbox, run_id, "", self._keep)
        self._resting: Run = NEW
        self._kept: Kept | None = None
        self._left: Lease | None = None
        self.requests = Requests(run_id, self.store.url, plan.facts or {})
        self._check_plan()
        self._check_tools()

    def _check_plan(self) -> None:
        named = {"task": self.plan.task, "system prompt": self.plan.system, "model's parameters": self.plan.params}
        for what, value in named.items():
            wrong = _no_json(value)
            if wrong is not None:
                raise DeclarationError(f"the {what} cannot be kept as JSON ({wrong}): give text, numbers, lists, dicts")
        task = self.plan.task
        if task is not None and (not task or (isinstance(task, str) and not task.strip())):
            raise DeclarationError("the task is empty: say what the run is about")
        check_prices(self.plan.limits, self.plan.prices, (self.plan.params or {}).get("model"))
        check_parallel(self.plan.parallel)
        check_observer(self.plan.observer)

    def _check_tools(self) -> None:
        transactional = [n for n, terms in self.plan.toolbox.terms.items() if terms.effect == "transactional"]
        if transactional and not self.store.transactional:
            raise DeclarationError(
                f"tool {transactional[0]!r} is transactional, but {self.store.url} has no transactions: keep the runs "
                "in the database that the tool writes to (sqlite:PATH)"
            )

    # ---- taking a run up, and letting it go

    def open(self) -> None:
        """Read the run, and take it up unless it rests: then `rest` says how."""
        try:
            self._open()
        except BaseException as error:
            self.close(error)
            raise

    def __enter__(self) -> Shell:
        self.open()
        self.observed.enter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.observed.leave()
        self.close(error)

    def _open(self) -> None:
        history = History.read(self.store, self.run_id)
        self._check_run(history.run)
        self._adopt(history.run)
        if history.run is NEW and self.plan.task is None and self.store.foreign(self.run_id) is None:
            raise UnknownRun(f"there is no run {self.run_id!r} in {self.store.url}: start it with its task")
        if history.run is not NEW and not self._wants_more(history.run):
            move = self._next(history.run)
            if isinstance(move, Rest):
                self.rest, self._resting = move, history.run
                return
        self._hold()
        history = history.then(entries_of(self.store, self.run_id, history.run.head.seq))
        self._check_run(history.run)
        self._adopt(history.run)
        if self.plan.observer is not None:
            self.tell.observed = self.plan.observer.begin(Taking(self.run_id, self.plan.api, history.run))
        self._take(history)
        self.calls.observed = self.observed
        self.tell.others(history.others, history.run)

    def _hold(self) -> None:
        """Take the lease, or the one that an attempt of an earlier driver in this process kept."""
        self._kept = self.attempts.inherit()
        self.lease = self._kept.lease if self._kept else self.store.lease(self.run_id, take_over=self.plan.take_over)

    def _check_run(self, run: Run) -> None:
        if run is NEW:
            return
        if self.plan.task is not None and run.begun.task != self.plan.task:
            began, says = apart(run.begun.task, self.plan.task)
            raise TaskDiffers(
                f"run {self.run_id!r} is about another task: it was started with {began}, this program says {says}; "
                "use another id, or the first task to carry it on"
            )
        check_api(f"run {self.run_id!r}", run.begun.api, self.plan.api)

    def _adopt(self, run: Run) -> None:
        if run is not NEW:
            self.attempts = attempts_of(place_of(self.store), self.run_id, run.begun.nonce)
            self.calls = Calls(self.plan.toolbox, self.run_id, run.begun.nonce, self._keep)

    def _wants_more(self, run: Run) -> bool:
        return self.plan.force or self._new_limits(run) is not None or bool(self._in_doubt(run))

    def _in_doubt(self, run: Run) -> tuple[Body, ...]:
        return restored(run) if self.plan.restored else ()

    def _new_limits(self, run: Run) -> Limits | None:
        """Return the program's limits where they differ from those it had before and the run has room for them."""
        wanted = self.plan.limits
        fits = run.state in (State.DUE, State.AWAY, State.CALLS, State.STOPPED)
        return wanted if wanted is not None and wanted != run.declared and fits else None

    def _next(self, run: Run) -> object:
        live = Live(frozenset(self.attempts.running), frozenset(self.attempts.alive))
        return next_move(run, now=self.clock.now(), live=live, program=self.plan.toolbox.terms)

    def _take(self, history: History) -> None:
        run, now = history.run, self.clock.now()
        bodies = list(self._beginning()) if run is NEW else []
        self.token = run.token + 1
        clean = self._after_clean() or run is NEW or isinstance(self._next(history.own), Rest)
        bodies.append(self.taken(self.token, clean=clean))
        bodies += self._opening(run)
        limits = None if run is NEW else self._new_limits(run)
        check_prices(limits or run.limits, self.plan.prices)  # one that a person set needs the program's prices too
        if limits is not None:
            bodies.append(Extended(limits, by="program"))
        if self.plan.force and run.state in (State.DUE, State.AWAY, State.CALLS, State.STOPPED):
            bodies.append(Extended(limits or run.limits, by="force"))
        bodies += self._in_doubt(run)
        entries = list(seal(bodies, run.head, now))
        self.desk = Desk(
            run,
            now,
            self.plan.toolbox.terms,
            self.plan.params or {},
            parallel=self.plan.parallel,
            running=set(self.attempts.running),
            alive=set(self.attempts.alive),
            unsaved=entries,
            restored=self.plan.restored and run.handle is not None,
        )
        if run is NEW:
            self._adopt(self.desk.run)
        self.attempts.driven, self.attempts.late = True, self._record_late

    def _opening(self, run: Run) -> tuple[Body, ...]:
        """Return what is recorded behind the taking up, before anything else is done; a model is asked for the rest."""
        return ()

    def _after_clean(self) -> bool:
        """Tell whether the last driver ended in order: one of this process, or whoever had the lease before."""
        if self._kept is not None:
            return self._kept.clean
        return self.lease is None or self.lease.after_clean

    def taken(self, token: int, *, clean: bool) -> Taken:
        """Return the entry by which this process takes the run up."""
        host, plan = socket.gethostname(), self.plan
        return Taken(token, host, os.getpid(), plan.code, clean, plan.program, self.observed.trace)

    def _beginning(self) -> tuple[Body, ...]:
        """Return the first entries of a run: a new one's, or those of a checkpoint that somebody else wrote."""
        foreign = self.store.foreign(self.run_id)
        if foreign is None:
            return (self._started(messages=self.plan.speaks.say(self.plan.task)),)
        return self.imported(Foreign.of(foreign))

    def imported(self, foreign: Foreign) -> tuple[Body, ...]:
        """Return the entries of a run that goes on from what another program left, with this program's tools."""
        if self.plan.task is not None and foreign.task != self.plan.task:
            holds, says = apart(foreign.task, self.plan.task)
            raise TaskDiffers(
                f"{self.store.url} is about another task: {holds}, this program says {says}; use another path, or the "
                "checkpoint's task to carry it on"
            )
        check_api(f"the transcript for run {self.run_id!r}", foreign.api, self.plan.api)
        frozen = lambda **known: replace(self._started(**known), task=foreign.task, imported=True)  # noqa: E731
        return imported(foreign, frozen=frozen, record=self.plan.record, prefill=self.plan.takes_prefill)

    def _started(self, *, messages: Sequence[Json], turns: int = 0, tokens: int = 0) -> Started:
        return Started(
            task=self.plan.task,
            api=self.plan.api,
            messages=messages,
            nonce=secrets.token_hex(16),
            system=self.plan.system,
            tools=self.plan.tools,
            limits=self.plan.limits or Limits(),
            turns=turns,
            tokens=tokens,
        )

    def close(self, error: BaseException | None = None) -> None:
        """Let the run go; while an attempt with an effect goes on, its lease is kept, and its result recorded.

        An *error* that is no Exception (Ctrl-C, a cancellation, a tool that exits) is a crash like any other; every
        other end is in order, and does not count towards *held*.
        """
        lease = self._left = self.lease
        self.lease = None
        if lease is not None:
            self.tell.end(self.rest.status if self.rest is not None else None, self.run, error)
        clean = error is None or isinstance(error, Exception)
        if lease is not None and self.desk is not None:
            self.attempts.give_back(self.desk.written + self.desk.in_hand)

        def let_go() -> None:
            if lease is not None:
                lease.release(clean=clean)
            if self._kept is not None:
                self._kept.let_go()
            if self._owns_store:
                self.store.close()

        if lease is None:
            let_go()
        else:
            self.attempts.leave(Kept(lease, let_go, clean))

    # ---- the run as it stands

    def taken_up(self) -> Desk:
        """Return the desk of a run that is taken up; NotAllowed before and behind its `with` block."""
        if self.desk is None or self.lease is None:
            raise NotAllowed(
                f"run {self.run_id!r} is not taken up here: use it inside its block, `with Run(...) as run` or "
                "`async with AsyncRun(...) as run`"
            )
        return self.desk

    @property
    def observed(self) -> Observed:
        """Return who is there while the run goes on."""
        return self.tell.observed

    @property
    def run(self) -> Run:
        """Return the run as it is saved."""
        return self.desk.saved if self.desk is not None else self._resting

    def result(self) -> Result:
        """Return what the run came to; a run that is under way is "working"."""
        return result_of(self.run_id, self.run, self.rest or Rest("working", "it has not come to rest"))

    # ---- performing steps

    def append(self, entries: tuple[Entry, ...]) -> Tail | None:
        """Make *entries* durable, or return what others appended in between; raises Fenced when taken over."""
        self.check_lease()
        try:
            self._write(entries)
        except Moved:
            return self.tail()
        return None

    def _write(self, entries: tuple[Entry, ...]) -> None:
        self.store.append(self.run_id, entries, token=self.token, over=self.ends(entries))

    def ends(self, entries: Sequence[Entry]) -> bool:
        """Tell whether the run is over with *entries*: they are the last of what is to be saved, too."""
        return self.desk is not None and self.desk.run.head.seq == entries[-1].seq and self.desk.run.over

    def check_lease(self) -> None:
        """Raise Fenced unless this very process still holds the run."""
        if self.lease is None or not self.lease.held():
            raise Fenced(
                f"run {self.run_id!r} is not held by this process any more (a forked child, or a lock that was "
                "dropped): nothing was written; run the same program again"
            )

    def check_newest(self) -> None:
        """Raise Fenced unless this process holds the run and nobody took it up meanwhile: an effect is about to start.

        A process that lost its lock unseen, and stood still while another one drove the run and let it go, finds the
        lock free again; what it is about to do may have been done since.
        """
        self.check_lease()
        newer = [e.body for e in self.tail().entries if isinstance(e.body, Taken)]
        if newer:
            raise Fenced(
                f"run {self.run_id!r} was taken by a newer holder (token {newer[-1].token}): this one (token "
                f"{self.token}) starts nothing more, so stop it"
            )

    def tail(self) -> Tail:
        """Return what others appended behind what is saved here."""
        return Tail(tuple(self.store.read(self.run_id, self.run.head.seq)))

    def overheard(self) -> Tail | None:
        """Return what others have appended while tools run; once the run is cancelled, what runs is given its grace."""
        try:
            tail = self.tail()
        except MidstrideError as error:  # nothing is concluded from it: the next append meets the same, and says so
            log.debug("%s: could not be read meanwhile: %s", word(self.run_id), error)
            return None
        if any(entry.body.kind not in OUTSIDE for entry in tail.entries):
            return None  # somebody took the run over: the next append is refused
        if self.run.cancelling or any(entry.body.kind == "cancelled" for entry in tail.entries):
            self.attempts.hurry(GRACE_SECONDS)
        return tail if tail.entries else None

    def drain(self) -> tuple[Ended, ...]:
        """Return the attempts that ended, or ran out of time, since the last call."""
        ended = self.attempts.drain()
        for one in ended:
            call = self.run.call(one.key) if one.alive else None
            if call is not None:
                self.observed.outlived(call)
        return ended

    def request(self, run: Run) -> dict[str, Json]:
        """Return the request of *run*: frozen system and tools, the transcript, and the parameters of `requested`.

        Raises Fenced where the run is not held any more: the answer would be paid for, and could not be recorded.
        """
        self.check_lease()
        return run.api.request(run.request, run.begun.system, run.begun.tools, run.params)

    def answered(self, response: Mapping[str, Json]) -> Answered:
        """Return a response with what is to be recorded of its calls; raises NotAResponse."""
        api = self.run.api
        api.check(response)
        wrong = _no_json(response)
        if wrong is not None:
            raise NotAResponse(f"the response cannot be kept as JSON ({wrong}): give it as it came over the wire")
        return Answered(response, tuple(map(self.plan.record, api.calls(response))), self._cost(response))

    def _cost(self, response: Mapping[str, Json]) -> int | None:
        if self.plan.prices is None:
            return None
        names = (response.get("model"), self.run.params.get("model"))
        prices = prices_of(self.plan.prices, *names)
        if prices is None:
            log.warning("%s: an answer of %r has no price: its cost is left out", self.run_id, names[0])
            return None
        return prices.cost(self.run.api.usage(response))

    def _keep(self, data: bytes) -> str | None:
        """Keep the whole of a result that was cut; where that fails the result counts all the same."""
        try:
            return self.store.keep(self.run_id, data)
        except MidstrideError as error:
            log.warning("%s: the whole of a result could not be kept: %s", word(self.run_id), error)
            return None

    # ---- results that come when nobody drives

    def _record_late(self, ended: Ended) -> bool:
        """Record what an attempt gave when nobody drives; False when the next driver has to hear of it."""
        try:
            return self._recorded_late(ended)
        except MidstrideError as error:
            log.warning("%s: a late result could not be recorded: %s", word(self.run_id), error)
            return False
        finally:
            if self._owns_store and not self._is_kept():
                self.store.close()  # it was closed with the run, and opened again for this

    def _recorded_late(self, ended: Ended) -> bool:
        while ended.how in ("returned", "accepted"):
            run = History.read(self.store, self.run_id).run
            call = run.call(ended.key)
            settled = call is not None and call.state is CallState.UNKNOWN
            if call is not None and call.state is CallState.SETTLED:
                return True
            # A newer token is another process's: what came here is the tool's word then, and not that driver's.
            ours = run.token == self.run.token and self._is_kept()
            # A first read writes no intent: one that ended beside a crash has its result saved all the same.
            begun = call is not None and call.state in (CallState.INTENDED, CallState.ACCEPTED, CallState.NEW)
            if call is None or not (settled or (begun and ours)):
                return False
            terms = effective(call, self.plan.toolbox.terms)
            bodies = returned(call, ended.content) if ended.how == "returned" else accepted(call, ended.content, terms)
            if not bodies:
                log.warning(
                    "%s: call %s, %s, has a handle too late: %r",
                    self.run_id,
                    call.id,
                    call.state,
                    redacted(ended.content),
                )
                return True
            try:
                entries = seal(bodies, run.head, self.clock.now())
                over = fold(entries, run).over
                self.store.append(self.run_id, entries, token=None if settled else run.token, over=over)
            except Moved:
                continue
            return True
        return False

    def _is_kept(self) -> bool:
        return self._left is not None and self._left.held()


def _no_json(value: Json) -> str | None:
    """Return why *value* cannot stand in a journal, or None."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None


def place_of(store: Store) -> object:
    """Return what tells stores apart in this process, however their paths are spelled."""
    form, _, path = store.url.partition(":")
    return (form, os.path.realpath(path)) if path else id(store)
