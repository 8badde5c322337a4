"""What a store must keep of business keys: one run has a key at a time, claimed with its intent or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable

from midstride.core.journal import Head, Requested
from midstride.errors import Claimed, DeclarationError, Fenced, Moved
from midstride.stores.contract import Claim, Store
from midstride.testing.conformance import Bench, append_claiming, begin, kinds, raises, same

CROWD = 20
"""Processes that claim one key at once."""


def _a_key_has_one_owner(bench: Bench) -> None:
    store = bench.handle()
    one, other = begin(store, "one"), begin(store, "other")
    append_claiming(store, one, Requested(), run_id="one", claim=Claim("k"))
    with raises(Claimed) as caught:
        append_claiming(bench.handle(), other, Requested(), run_id="other", claim=Claim("k"))
    same(caught.error.owner, "one")
    same(len(kinds(store, "other")), 3)  # nothing was written
    append_claiming(store, other, Requested(), run_id="other", claim=Claim("another key"))


def _an_owner_may_claim_again(bench: Bench) -> None:
    store = bench.handle()
    head = append_claiming(store, begin(store), Requested(), claim=Claim("k"))
    append_claiming(bench.handle(), head, Requested(), claim=Claim("k"))


def _a_free_key_is_taken_from_the_owner_that_was_looked_at(bench: Bench) -> None:
    store = bench.handle()
    heads = {run_id: begin(store, run_id) for run_id in ("one", "two", "three")}
    append_claiming(store, heads["one"], Requested(), run_id="one", claim=Claim("k"))
    append_claiming(store, heads["two"], Requested(), run_id="two", claim=Claim("k", instead_of="one"))
    with raises(Claimed) as caught:  # somebody was quicker
        append_claiming(store, heads["three"], Requested(), run_id="three", claim=Claim("k", instead_of="one"))
    same(caught.error.owner, "two")
    with raises(Claimed) as caught:
        append_claiming(store, heads["three"], Requested(), run_id="three", claim=Claim("k", instead_of="three"))
    same(caught.error.owner, "two")


def _entries_that_are_refused_claim_nothing(bench: Bench) -> None:
    store = bench.handle()
    one, other = begin(store, "one"), begin(store, "other")
    with raises(Fenced):
        append_claiming(store, one, Requested(), run_id="one", token=2, claim=Claim("k"))
    with raises(Moved):
        append_claiming(store, Head(9), Requested(), run_id="one", claim=Claim("k"))
    append_claiming(store, other, Requested(), run_id="other", claim=Claim("k"))


def _a_claim_outlives_the_handle(bench: Bench) -> None:
    store = bench.handle()
    append_claiming(store, begin(store, "one"), Requested(), run_id="one", claim=Claim("k"))
    store.close()
    store = bench.handle()
    with raises(Claimed):
        append_claiming(store, begin(store, "other"), Requested(), run_id="other", claim=Claim("k"))


def _a_store_of_one_run_refuses_claims(bench: Bench) -> None:
    store = bench.handle()
    same(store.claims, False)
    with raises(DeclarationError):
        append_claiming(store, begin(store), Requested(), claim=Claim("k"))
    same(len(kinds(store)), 3)


def _of_a_crowd_of_processes_one_gets_the_key(bench: Bench) -> None:
    begin(bench.handle(), "first")  # the file is there
    told = at_once(CROWD, lambda number: _claims(bench.handle(), f"run {number}"))
    same(sorted(set(told)), ["claimed", "elsewhere"])
    same(told.count("claimed"), 1)


def _claims(store: Store, run_id: str) -> str:
    head = begin(store, run_id)
    try:
        append_claiming(store, head, Requested(), run_id=run_id, claim=Claim("k"))
    except Claimed:
        return "elsewhere"
    return "claimed"


def at_once(count: int, work: Callable[[int], str]) -> list[str]:
    """Run *work* in so many forked processes that start together; return their words, or what they raised."""
    (waiting, starting), (told, telling) = os.pipe(), os.pipe()
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            _one_of_many(number, work, starting, waiting, telling)
        pids.append(pid)
    for end in (waiting, starting, telling):
        os.close(end)
    with open(told) as news:
        words = news.read().splitlines()  # until the last one has ended
    for pid in pids:
        os.waitpid(pid, 0)
    return words


def _one_of_many(number: int, work: Callable[[int], str], starting: int, waiting: int, telling: int) -> None:
    try:
        os.close(starting)
        os.read(waiting, 1)  # until the parent has let go, when all are there
        word = work(number)
    except BaseException as error:
        word = repr(error)
    os.write(telling, f"{word}\n".encode())
    os._exit(0)


CLAIMS = [
    _a_key_has_one_owner,
    _an_owner_may_claim_again,
    _a_free_key_is_taken_from_the_owner_that_was_looked_at,
    _entries_that_are_refused_claim_nothing,
]
OF_FILES = [_a_claim_outlives_the_handle, _of_a_crowd_of_processes_one_gets_the_key]
OF_ONE_RUN = [_a_store_of_one_run_refuses_claims]
