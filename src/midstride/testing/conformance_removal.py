"""What a store must keep of runs that are removed: nothing of them is read again, and nothing begins under their id."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from midstride.core.journal import Head, Requested, Said, head_of, seal
from midstride.errors import Claimed, DeclarationError, Fenced, Moved, Removed, UnknownRun
from midstride.stores.contract import Claim, Lease, Store
from midstride.testing.conformance import AT, Bench, add, append_claiming, begin, kinds, process, raises, same


def _end(store: Store, run_id: str = "run", *, at: float = AT) -> Head:
    """Make a run that is over."""
    head = begin(store, run_id)
    entries = seal([Said("the end")], head, at)
    store.append(run_id, entries, token=1, over=True)
    return head_of(entries, head)


def _remove(store: Store, run_id: str = "run", *, last: int | None = None, free_key: str | None = None) -> None:
    with _leased(store, run_id) as lease:
        store.remove(run_id, lease, last=last, at=AT, free_key=free_key)


def _forget(store: Store, run_id: str = "run") -> None:
    with _leased(store, run_id) as lease:
        store.forget(run_id, lease)


@contextlib.contextmanager
def _leased(store: Store, run_id: str) -> Iterator[Lease]:
    lease = store.lease(run_id)
    try:
        yield lease
    finally:
        lease.release()


def _a_run_has_ended_since_its_last_entry(bench: Bench) -> None:
    store = bench.handle()
    begin(store, "open")
    for run_id, at in (("one", AT), ("two", AT + 5), ("three", AT)):
        _end(store, run_id, at=at)
    other = bench.handle()
    same([other.ended(before) for before in (AT, AT + 1, AT + 9)], [[], ["one", "three"], ["one", "two", "three"]])
    head = head_of(store.read("one"))
    entries = seal([Said("one more word")], head, AT + 7)
    store.append("one", entries, token=1, over=True)
    same(other.ended(AT + 6), ["two", "three"])
    add(store, head_of(entries), Said("go on"), token=1, run_id="one")
    same(other.ended(AT + 9), ["two", "three"])


def _the_size_of_a_run_is_that_of_its_entries_at_least(bench: Bench) -> None:
    store = bench.handle()
    same(store.size("run"), 0)
    begin(store)
    text = sum(len(entry.text) for entry in store.read("run"))
    same(store.size("run") >= text, True)
    before = store.size("run")
    if store.keep("run", b"x" * 1000) is not None:
        same(store.size("run") >= before + 1000, True)


def _a_removed_run_is_not_there_through_any_handle(bench: Bench) -> None:
    store, other = bench.handle(), bench.handle()
    _end(store)
    _end(store, "other")
    _remove(store)
    for one in (store, other):
        same((one.runs(), one.unfinished(), one.ended(AT + 1)), (["other"], [], ["other"]))
        for after in (0, 2, 9):
            with raises(Removed) as caught:
                one.read("run", after)
            same(caught.error.at, AT)
    same(len(kinds(other, "other")), 4)


def _an_unfinished_run_is_removed_likewise(bench: Bench) -> None:
    store = bench.handle()
    begin(store)
    _remove(store, last=3)
    same((store.runs(), store.unfinished(), store.ended(AT + 1)), ([], [], []))
    with raises(Removed):
        store.read("run")


def _nothing_is_appended_to_a_removed_run(bench: Bench) -> None:
    store = bench.handle()
    head = _end(store)
    _remove(store)
    for token in (1, None):
        with raises(Removed):
            add(bench.handle(), head, Said("go on"), token=token)
    with raises(Removed):
        begin(store)
    if store.transactional:
        with raises(Removed), store.transaction("run") as transaction:
            transaction.append(seal([Requested()], head, AT), token=1)


def _a_run_that_went_on_is_not_removed(bench: Bench) -> None:
    store = bench.handle()
    head = _end(store)
    lease = store.lease("run")
    add(bench.handle(), head, Said("go on"), token=None)  # it needs no lease
    with raises(Moved) as caught:
        store.remove("run", lease, last=head.seq, at=AT)
    same((caught.error.seq, len(kinds(store)), store.unfinished()), (5, 5, ["run"]))
    store.remove("run", lease, last=5, at=AT)


def _only_the_holder_removes_a_run(bench: Bench) -> None:
    store = bench.handle()
    head = _end(store)
    lease = store.lease("run")
    lease.release()
    with raises(Fenced):
        store.remove("run", lease, last=head.seq, at=AT)
    same(len(kinds(store)), 4)
    _remove(store)
    with raises(Fenced):
        store.forget("run", lease)


def _what_is_not_there_is_not_removed(bench: Bench) -> None:
    store = bench.handle()
    for act in (_remove, _forget):
        with raises(UnknownRun):
            act(store, "nobody")
    _end(store)
    with raises(UnknownRun):
        _forget(store)
    _remove(store)
    with raises(Removed):
        _remove(store)


def _space_is_given_back_and_other_runs_are_whole(bench: Bench) -> None:
    store = bench.handle()
    heads = {run_id: _end(store, run_id) for run_id in ("one", "two")}
    for number in range(200):
        heads["one"] = add(store, heads["one"], Said(f"{number}" + "x" * 5000), token=1, run_id="one")
    _remove(store, "one")
    freed = store.shrink()
    if freed.before:  # there are files
        same((freed.entries, freed.before - freed.after > 500_000), (204, True))
    same(store.shrink().entries, 0)
    same((len(kinds(store, "two")), store.check(), store.size("one")), (4, [], 0))
    with raises(Removed):
        store.read("one")


def _a_forgotten_id_begins_anew(bench: Bench) -> None:
    for shrinks in (False, True):
        store = bench.fresh()()
        _end(store)
        _remove(store)
        if shrinks:
            store.shrink()
        _forget(store)
        same((store.read("run"), store.runs(), store.unfinished()), ([], [], []))
        begin(store)
        same((kinds(store), store.runs()), (["started", "taken", "requested"], ["run"]))
        store.shrink()
        same(len(kinds(store)), 3)


def _a_removed_run_keeps_its_business_key_unless_it_is_free(bench: Bench) -> None:
    for free_key, owner in ((None, "one"), ("another", "one"), ("k", None)):
        store = bench.fresh()()
        append_claiming(store, begin(store, "one"), Requested(), run_id="one", claim=Claim("k"))
        other = begin(store, "other")
        _remove(store, "one", free_key=free_key)
        store.shrink()
        if owner is None:
            append_claiming(store, other, Requested(), run_id="other", claim=Claim("k"))
            continue
        with raises(Claimed) as caught:
            append_claiming(store, other, Requested(), run_id="other", claim=Claim("k"))
        same(caught.error.owner, owner)
        _forget(store, "one")
        append_claiming(store, other, Requested(), run_id="other", claim=Claim("k"))


def _a_removed_run_is_removed_for_other_processes(bench: Bench) -> None:
    store = bench.handle()
    head = _end(store)
    store.read("run")
    with process(lambda: _remove(bench.handle())):
        with raises(Removed):
            store.read("run")
        with raises(Removed):
            add(store, head, Said("go on"), token=1)


def _a_store_of_one_run_removes_none(bench: Bench) -> None:
    store = bench.handle()
    head = begin(store)
    lease = store.lease("run")
    with raises(DeclarationError):
        store.remove("run", lease, last=head.seq, at=AT)
    with raises(DeclarationError):
        store.forget("run", lease)
    same((store.shrink().entries, len(kinds(store))), (0, 3))


REMOVAL: list[Callable[[Bench], None]] = [
    _a_run_has_ended_since_its_last_entry,
    _a_removed_run_is_not_there_through_any_handle,
    _an_unfinished_run_is_removed_likewise,
    _nothing_is_appended_to_a_removed_run,
    _a_run_that_went_on_is_not_removed,
    _only_the_holder_removes_a_run,
    _what_is_not_there_is_not_removed,
    _space_is_given_back_and_other_runs_are_whole,
    _a_forgotten_id_begins_anew,
    _a_removed_run_keeps_its_business_key_unless_it_is_free,
]
SIZE: list[Callable[[Bench], None]] = [_the_size_of_a_run_is_that_of_its_entries_at_least]
OF_PROCESSES: list[Callable[[Bench], None]] = [_a_removed_run_is_removed_for_other_processes]
OF_ONE_RUN: list[Callable[[Bench], None]] = [_a_store_of_one_run_removes_none]
