"""What every store must keep, as one suite that is run unchanged against each of them: the memory store is the model.

    CHECKS = store_conformance(lambda folder: SqliteStore(folder / "runs.db"))

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_the_store_keeps_its_promise(check, tmp_path):
        check(tmp_path)

A check is named by the promise it asks for and raises AssertionError where that is broken.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from midstride.core.journal import (
    Asked,
    Body,
    Cancelled,
    Decided,
    Entry,
    Extended,
    Head,
    Limits,
    Recorded,
    Requested,
    Responded,
    Said,
    Started,
    Taken,
    Terms,
    head_of,
    seal,
)
from midstride.errors import DeclarationError, Fenced, Held, Moved, StoreError
from midstride.stores.contract import Claim, Store

MakeStore = Callable[[Path], Store]


def store_conformance(make_store: MakeStore, *, several_runs: bool = True, processes: bool = True) -> list[Check]:
    """Return the checks for the stores that *make_store* makes in an empty folder.

    Called twice with one folder it must give two handles of the same journals. *several_runs* is False for a store
    that holds one run, *processes* for one that lives in one process's memory. The checks of processes fork.
    """
    from midstride.testing import conformance_claims as claims  # these are written with what stands here
    from midstride.testing import conformance_removal as removal

    wanted = [*_CHECKS, *removal.SIZE]
    wanted += [*_OF_SEVERAL_RUNS, *claims.CLAIMS, *removal.REMOVAL] if several_runs else []
    wanted += [] if several_runs else [*claims.OF_ONE_RUN, *removal.OF_ONE_RUN]
    wanted += _OF_PROCESSES if processes else []
    wanted += [*claims.OF_FILES, *removal.OF_PROCESSES] if several_runs and processes else []
    return [Check(promise.__name__.removeprefix("_"), promise, make_store) for promise in wanted]


@dataclass(frozen=True)
class Check:
    """One promise, to be asked of a fresh store: call it with an empty folder."""

    name: str
    promise: Callable[[Bench], None]
    make_store: MakeStore

    def __call__(self, folder: Path) -> None:
        """Raise AssertionError when the store does not keep the promise."""
        with contextlib.closing(Bench(self.make_store, folder)) as bench:
            self.promise(bench)

    def __str__(self) -> str:
        return self.name


@dataclass
class Bench:
    """The stores that one check opens; each `fresh` one has journals of its own."""

    make_store: MakeStore
    folder: Path
    opened: list[Store] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def handle(self, folder: Path | None = None) -> Store:
        """Return another handle of the journals in *folder*."""
        store = self.make_store(folder or self.folder)
        self.opened.append(store)
        return store

    def fresh(self) -> Callable[[], Store]:
        """Return what makes handles of new, empty journals."""
        folder = self.folder / f"fresh-{next(self.numbers)}"
        folder.mkdir()
        return lambda: self.handle(folder)

    def close(self) -> None:
        """Close every store that was opened."""
        for store in self.opened:
            store.close()


# ---- entries for the checks: a run of the Anthropic API, since stores may fold what they keep

AT = 1_700_000_000.0
TERMS = Terms(effect="unsafe", schema="0" * 64, approval=True)
ANSWER = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "send", "input": {}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 5},
}


def started(task: str = "tidy up") -> Started:
    """Return the first entry of a run."""
    return Started(task, "anthropic", [{"role": "user", "content": task}], nonce="00")


def taken(token: int) -> Taken:
    """Return the entry by which this process takes a run up."""
    return Taken(token, "host", os.getpid())


def begin(store: Store, run_id: str = "run", *, task: str = "tidy up") -> Head:
    """Start and take up a run: three entries, token 1."""
    return add(store, Head(), started(task), taken(1), Requested(), token=1, run_id=run_id)


def add(store: Store, head: Head, *bodies: Body, token: int | None, run_id: str = "run") -> Head:
    """Append *bodies* behind *head* and return the new head."""
    entries = seal(bodies, head, AT)
    store.append(run_id, entries, token=token)
    return head_of(entries, head)


def append_claiming(store: Store, head: Head, *bodies: Body, claim: Claim, token: int = 1, run_id: str = "run") -> Head:
    """Append *bodies* behind *head* together with a claim, and return the new head."""
    entries = seal(bodies, head, AT)
    store.append(run_id, entries, token=token, claim=claim)
    return head_of(entries, head)


# ---- saying what is wrong


def same(found: object, wanted: object) -> None:
    """Raise AssertionError unless *found* is what is wanted."""
    if found != wanted:
        raise AssertionError(f"wanted {wanted!r}, found {found!r}")


E = TypeVar("E", bound=BaseException)


class _Caught(list[E]):
    @property
    def error(self) -> E:
        return self[0]


@contextlib.contextmanager
def raises(kind: type[E]) -> Iterator[_Caught[E]]:
    """Raise AssertionError unless the block raises *kind*; `error` is what it raised."""
    caught: _Caught[E] = _Caught()
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise AssertionError(f"wanted {kind.__name__}, nothing was raised")


def _lines(entries: Sequence[Entry]) -> list[tuple[int, str, str]]:
    return [(entry.seq, entry.text, entry.digest) for entry in entries]


def kinds(store: Store, run_id: str = "run") -> list[str]:
    """Return the kinds of the run's entries."""
    return [entry.body.kind for entry in store.read(run_id)]


# ---- reading


def _an_unknown_run_has_no_entries(bench: Bench) -> None:
    store = bench.handle()
    same((store.read("run"), store.runs(), store.foreign("run")), ([], [], None))


def _entries_come_back_byte_for_byte(bench: Bench) -> None:
    awkward = 'é\u2028\0\x1b[31m \ud800 "\\" \r\n' + "x" * 70_000
    entries = seal([started(awkward), taken(1), Requested({"n": 2**70, "f": 1e-7})], Head(), AT)
    store = bench.handle()
    store.append("run", entries, token=1)
    same(_lines(store.read("run")), _lines(entries))
    store.close()
    same(_lines(bench.handle().read("run")), _lines(entries))


def _another_handle_reads_what_was_appended(bench: Bench) -> None:
    one, other = bench.handle(), bench.handle()
    head = begin(one)
    same(kinds(other), ["started", "taken", "requested"])
    add(other, head, Said("and hurry"), token=None)
    same(kinds(one)[-1], "said")


def _only_entries_behind_after_are_read(bench: Bench) -> None:
    store = bench.handle()
    begin(store)
    same([[e.seq for e in store.read("run", after)] for after in (0, 2, 3, 9)], [[1, 2, 3], [3], [], []])
    pages = [[e.seq for e in store.read("run", after, 2)] for after in (0, 1, 2, 3, 9)]
    same(pages, [[1, 2], [2, 3], [3], [], []])
    same(store.read("run", 1, 0), [])


def _a_started_run_is_listed_and_a_leased_one_is_not(bench: Bench) -> None:
    store = bench.handle()
    store.lease("run")
    same(store.runs(), [])
    begin(store)
    same(store.runs(), ["run"])


def _a_whole_store_has_no_faults(bench: Bench) -> None:
    store = bench.handle()
    same(store.check(), [])
    begin(store)
    same(store.check(), [])


def _what_is_kept_is_kept_once_and_given_back(bench: Bench) -> None:
    store = bench.handle()
    begin(store)
    where = store.keep("run", b"all of it")
    same(store.keep("run", b"all of it"), where)
    if where is not None:
        same(bench.handle().kept(where), b"all of it")
    with raises(StoreError):
        store.kept("/dev/null")
    same(len(store.read("run")), 3)


# ---- appending


def _an_empty_batch_adds_nothing(bench: Bench) -> None:
    store = bench.handle()
    begin(store)
    store.append("run", [], token=1)
    same(len(store.read("run")), 3)


def _a_batch_is_added_whole_or_not_at_all(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    good, gap = seal([Requested()], head, AT), seal([Requested()], Head(7, "x"), AT)
    with raises(Moved):
        store.append("run", [*good, *gap], token=1)
    with raises(Fenced):
        add(store, head, Said("a word"), Requested(), token=None)
    same(len(store.read("run")), 3)


def _the_first_entry_must_be_the_next_one(bench: Bench) -> None:
    store = bench.handle()
    with raises(Moved) as early:
        add(store, Head(4, "x"), started(), taken(1), token=1)
    begin(store)
    for head in (Head(2, "x"), Head(4, "x")):
        with raises(Moved) as caught:
            add(store, head, Requested(), token=1)
        same((early.error.seq, caught.error.seq), (0, 3))
    same(len(store.read("run")), 3)


def _an_append_twice_is_refused(bench: Bench) -> None:
    store = bench.handle()
    begin(store)
    with raises(Fenced):
        begin(store)
    same(len(store.read("run")), 3)


# ---- fencing


def _a_newer_holder_fences_the_older_one_through_any_handle(bench: Bench) -> None:
    for first, second, late in itertools.product((0, 1), repeat=3):
        make = bench.fresh()
        handles = (make(), make())
        head = begin(handles[first])
        head = add(handles[second], head, taken(2), token=2)
        with raises(Fenced):
            add(handles[late], head, Requested(), token=1)
        add(handles[late], head, Requested(), token=2)
        same(kinds(handles[first]), ["started", "taken", "requested", "taken", "requested"])


def _a_token_that_is_not_the_newest_is_fenced(bench: Bench) -> None:
    store = bench.handle()
    for token in (0, 1, 2):
        with raises(Fenced):
            add(store, Head(), started(), token=token)
    head = add(store, begin(store), taken(2), token=2)
    for token in (-1, 0, 1, 3, 9):
        with raises(Fenced):
            add(store, head, Requested(), token=token)
    same(len(store.read("run")), 4)


def _taken_needs_the_newest_token_plus_one(bench: Bench) -> None:
    store = bench.handle()
    with raises(Fenced):
        add(store, Head(), started(), taken(2), token=2)
    head = begin(store)
    for new, token in ((1, 1), (3, 3), (2, 1), (1, 2), (2, 3), (2, None)):
        with raises(Fenced):
            add(store, head, taken(new), token=token)
    add(store, head, taken(2), token=2)
    same(len(store.read("run")), 4)


def _fenced_wins_over_moved(bench: Bench) -> None:
    store = bench.handle()
    add(store, begin(store), taken(2), token=2)
    with raises(Fenced):
        add(store, Head(1, "x"), Requested(), token=1)


def _only_the_newest_token_writes_in_every_order_of_two_holders(bench: Bench) -> None:
    """Two holders through two handles, each of which takes the run up or appends, in every order that differs."""
    seen: set[tuple[int, ...]] = {(0, 0)}
    paths: list[tuple[str, ...]] = [()]
    for path in paths:
        for act in ("one takes", "other takes", "one appends", "other appends"):
            tokens = _carried_out((*path, act), bench.fresh())
            if tokens not in seen:
                seen.add(tokens)
                paths.append((*path, act))


def _carried_out(path: Sequence[str], handle: Callable[[], Store]) -> tuple[int, ...]:
    """Carry the acts of *path* out, check each, and return how far behind the newest token each holder is."""
    stores, tokens, newest = {"one": handle(), "other": handle()}, {"one": 0, "other": 0}, 0
    head = Head()
    for act in path:
        name, deed = act.split()
        if deed == "takes":
            newest += 1
            tokens[name] = newest
            bodies: tuple[Body, ...] = (taken(newest),) if newest > 1 else (started(), taken(1))
            head = add(stores[name], head, *bodies, token=newest)
        elif tokens[name] == newest > 0:
            head = add(stores[name], head, Requested(), token=newest)
        else:
            with raises(Fenced):
                add(stores[name], head, Requested(), token=tokens[name])
        same([len(store.read("run")) for store in stores.values()], [head.seq] * 2)
    return tuple(min(newest - token, 2) if token else 3 * min(newest, 1) for token in tokens.values())


# ---- outsiders


def _anybody_may_say_extend_or_cancel(bench: Bench) -> None:
    for body in (Said("a word"), Extended(Limits(turns=9)), Cancelled("enough")):
        store = bench.fresh()()
        add(store, begin(store), body, token=None)
        same(kinds(store)[-1], body.kind)


def _anybody_may_decide(bench: Bench) -> None:
    store = bench.handle()
    head = add(store, begin(store), Responded(ANSWER, [Recorded(TERMS)]), Asked(1, 0, "approval"), token=1)
    add(store, head, Decided(1, 0, "allow", by="ann"), token=None)
    same(kinds(store)[-1], "decided")


def _nobody_else_may_append_what_needs_the_lease(bench: Bench) -> None:
    store = bench.handle()
    with raises(Fenced):
        add(store, Head(), started(), token=None)
    head = begin(store)
    for body in (Requested(), Responded(ANSWER, [Recorded(TERMS)]), taken(2)):
        with raises(Fenced):
            add(store, head, body, token=None)
    same(len(store.read("run")), 3)


def _a_holder_goes_on_behind_what_was_said(bench: Bench) -> None:
    holder, outsider = bench.handle(), bench.handle()
    head = begin(holder)
    add(outsider, head, Said("a word"), token=None)
    with raises(Moved) as caught:
        add(holder, head, Requested(), token=1)
    tail = holder.read("run", head.seq)
    same((caught.error.seq, [e.body.kind for e in tail]), (4, ["said"]))
    add(holder, head_of(tail), Requested(), token=1)
    same(kinds(outsider)[3:], ["said", "requested"])


def _what_is_refused_changes_nothing_of_whether_a_run_is_over(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    with raises(Fenced):
        store.append("run", seal([Said("word")], head, AT), token=7, over=True)
    same(store.unfinished(), ["run"])


def _threads_lose_nothing(bench: Bench) -> None:
    stores = (bench.handle(), bench.handle())
    begin(stores[0])
    failures = _in_threads(8, lambda number: _say(stores[number % 2], f"word {number}"))
    said = [entry.body.content for entry in stores[0].read("run", 3) if isinstance(entry.body, Said)]
    same((failures, sorted(said)), ([], [f"word {number}" for number in range(8)]))


def _say(store: Store, word: str) -> None:
    while True:
        entries = store.read("run")
        with contextlib.suppress(Moved):
            add(store, head_of(entries), Said(word), token=None)
            return


def _in_threads(count: int, work: Callable[[int], object]) -> list[BaseException]:
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def one(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


# ---- leases


def _a_leased_run_is_held_against_this_process_too(bench: Bench) -> None:
    store, other = bench.handle(), bench.handle()
    lease = store.lease("run")
    begin(store)
    for rival, take_over in itertools.product((store, other), (False, True)):
        with raises(Held) as caught:
            rival.lease("run", take_over=take_over)
        same((caught.error.holder.pid, caught.error.holder.since), (os.getpid(), AT))
    same(lease.held(), True)


def _one_of_many_threads_gets_the_lease(bench: Bench) -> None:
    store = bench.handle()
    failures = _in_threads(8, lambda number: store.lease("run"))
    same([type(failure) for failure in failures], [Held] * 7)


def _a_lease_that_is_given_back_can_be_taken(bench: Bench) -> None:
    store = bench.handle()
    lease = store.lease("run")
    lease.release()
    again = store.lease("run")
    lease.release()
    same((lease.held(), again.held()), (False, True))
    with raises(Held):
        store.lease("run")


def _closing_a_store_gives_its_leases_back(bench: Bench) -> None:
    store = bench.handle()
    lease = store.lease("run")
    store.close()
    same((lease.held(), bench.handle().lease("run").held()), (False, True))


# ---- transactions


def _a_store_says_whether_it_is_transactional(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    if store.transactional:
        with store.transaction("run") as transaction:
            transaction.append(seal([Requested()], head, AT), token=1)
        same(len(bench.handle().read("run")), 4)
    else:
        with raises(DeclarationError), store.transaction("run"):
            raise AssertionError("the block was entered")


def _an_exception_rolls_a_transaction_back(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    if not store.transactional:
        return
    with raises(ZeroDivisionError), store.transaction("run") as transaction:
        transaction.append(seal([Requested()], head, AT), token=1)
        raise ZeroDivisionError
    same(len(store.read("run")), 3)
    add(store, head, Requested(), token=1)


def _a_transaction_is_fenced_and_moved_like_an_append(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    if not store.transactional:
        return
    wrong: tuple[tuple[type[Exception], Head, int | None], ...] = (
        (Fenced, head, 2),
        (Fenced, head, None),
        (Moved, Head(2, "x"), 1),
    )
    for kind, behind, token in wrong:
        with raises(kind), store.transaction("run") as transaction:
            transaction.append(seal([Requested()], behind, AT), token=token)
    same(len(store.read("run")), 3)


def _a_transaction_may_be_left_in_another_thread(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    if not store.transactional:
        return
    block = store.transaction("run")
    transaction = block.__enter__()
    steps: list[Callable[[], Any]] = [
        lambda: transaction.append(seal([Requested()], head, AT), token=1),
        lambda: block.__exit__(None, None, None),
    ]
    same([_in_threads(1, lambda _, step=step: step()) for step in steps], [[], []])  # type: ignore[misc]
    same(len(store.read("run")), 4)


_CHECKS: list[Callable[[Bench], None]] = [
    _an_unknown_run_has_no_entries,
    _entries_come_back_byte_for_byte,
    _another_handle_reads_what_was_appended,
    _only_entries_behind_after_are_read,
    _a_started_run_is_listed_and_a_leased_one_is_not,
    _a_whole_store_has_no_faults,
    _what_is_kept_is_kept_once_and_given_back,
    _an_empty_batch_adds_nothing,
    _a_batch_is_added_whole_or_not_at_all,
    _the_first_entry_must_be_the_next_one,
    _an_append_twice_is_refused,
    _a_newer_holder_fences_the_older_one_through_any_handle,
    _a_token_that_is_not_the_newest_is_fenced,
    _taken_needs_the_newest_token_plus_one,
    _fenced_wins_over_moved,
    _only_the_newest_token_writes_in_every_order_of_two_holders,
    _anybody_may_say_extend_or_cancel,
    _anybody_may_decide,
    _nobody_else_may_append_what_needs_the_lease,
    _a_holder_goes_on_behind_what_was_said,
    _what_is_refused_changes_nothing_of_whether_a_run_is_over,
    _threads_lose_nothing,
    _a_leased_run_is_held_against_this_process_too,
    _one_of_many_threads_gets_the_lease,
    _a_lease_that_is_given_back_can_be_taken,
    _closing_a_store_gives_its_leases_back,
    _a_store_says_whether_it_is_transactional,
    _an_exception_rolls_a_transaction_back,
    _a_transaction_is_fenced_and_moved_like_an_append,
    _a_transaction_may_be_left_in_another_thread,
]


# ---- several runs


def _runs_do_not_mix(bench: Bench) -> None:
    store = bench.handle()
    one = begin(store, "one", task="one")
    begin(store, "two", task="two")
    add(store, one, Said("to one"), token=None, run_id="one")
    same((len(store.read("one")), len(store.read("two"))), (4, 3))


def _runs_are_listed_oldest_first(bench: Bench) -> None:
    store = bench.handle()
    for run_id in ("c", "a", "b"):
        begin(store, run_id)
    same(bench.handle().runs(), ["c", "a", "b"])
    same([bench.handle().runs(newest=n) for n in (0, 2, 9)], [[], ["a", "b"], ["c", "a", "b"]])


def _a_run_is_unfinished_until_an_append_says_that_it_is_over(bench: Bench) -> None:
    store = bench.handle()
    begin(store, "other")
    head = begin(store)
    for over, wanted in ((True, ["other"]), (True, ["other"]), (False, ["other", "run"]), (True, ["other"])):
        entries = seal([Said("word")], head, AT)
        store.append("run", entries, token=1, over=over)
        head = head_of(entries)
        same(bench.handle().unfinished(), wanted)


def _leases_of_two_runs_do_not_meet(bench: Bench) -> None:
    store = bench.handle()
    same((store.lease("one").held(), store.lease("two").held()), (True, True))


_OF_SEVERAL_RUNS = [
    _runs_do_not_mix,
    _runs_are_listed_oldest_first,
    _a_run_is_unfinished_until_an_append_says_that_it_is_over,
    _leases_of_two_runs_do_not_meet,
]


# ---- several processes


HANGS_SECONDS = 120.0
"""How long the work in a forked process may take."""


@contextlib.contextmanager
def process(work: Callable[[], object]) -> Iterator[int]:
    """Run *work* in a forked process that then stands still; give its pid when the work is done, and end it at last.

    What the work raises is raised here, as AssertionError.
    """
    (told, telling), (waiting, holding) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads that have ended do not matter to the child
        pid = os.fork()
    if pid == 0:
        os.close(holding)
        _work_and_wait(work, telling, waiting)
    for end in (telling, waiting):
        os.close(end)
    try:
        with open(told, "rb") as news:
            ended, _, _ = select.select([news], [], [], HANGS_SECONDS)
            if not ended:  # a thread of the parent may have had a lock in the moment of the fork
                raise AssertionError(f"another process hangs: {work!r} has not ended in {HANGS_SECONDS:g} s")
            failure = news.read().decode()
        if failure:
            raise AssertionError(f"in another process: {failure}")
        yield pid
    finally:
        os.close(holding)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _work_and_wait(work: Callable[[], object], telling: int, waiting: int) -> None:
    try:
        work()
    except BaseException as error:
        os.write(telling, repr(error).encode())
    finally:
        os.close(telling)
        os.read(waiting, 1)  # until the parent lets go, or dies
        os._exit(0)


def _the_lease_of_a_killed_process_is_free_at_once(bench: Bench) -> None:
    with process(lambda: _take_up(bench.handle())) as pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        store = bench.handle()
        same(store.lease("run").held(), True)
    same(kinds(store), ["started", "taken", "requested"])


def _take_up(store: Store) -> None:
    store.lease("run")
    begin(store)


def _a_living_holder_is_named(bench: Bench) -> None:
    with process(lambda: _take_up(bench.handle())) as pid:
        with raises(Held) as caught:
            bench.handle().lease("run")
        holder = caught.error.holder
        same((holder.pid, holder.host, holder.since), (pid, "host", AT))
        same(str(pid) in str(caught.error), True)


def _a_living_holder_is_ended_by_take_over(bench: Bench) -> None:
    with process(lambda: _take_up(bench.handle())) as pid:
        lease = bench.handle().lease("run", take_over=True)
        same((lease.held(), os.WTERMSIG(os.waitpid(pid, 0)[1])), (True, signal.SIGTERM))


def _a_forked_child_does_not_have_the_lease(bench: Bench) -> None:
    store = bench.handle()
    lease = store.lease("run")
    with process(lambda: _has_nothing(lease, store)) as _:
        same(lease.held(), True)
    with raises(Held):
        bench.handle().lease("run")


def _has_nothing(lease: Any, store: Store) -> None:
    same(lease.held(), False)
    lease.release()
    with raises(Held) as caught:
        store.lease("run")
    same(caught.error.holder.pid, os.getppid())


_OF_PROCESSES = [
    _the_lease_of_a_killed_process_is_free_at_once,
    _a_living_holder_is_named,
    _a_living_holder_is_ended_by_take_over,
    _a_forked_child_does_not_have_the_lease,
]
