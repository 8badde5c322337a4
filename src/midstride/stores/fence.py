"""The rules of who may append what to a journal, and claim what: every store asks them inside its own transaction."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from midstride.core import words
from midstride.core.journal import OUTSIDE, Entry, Taken
from midstride.errors import Claimed, DeclarationError, Fenced, Moved, Removed
from midstride.stores.contract import Claim, Lease


def fence(run_id: str, newest: int | None, last: int, entries: Sequence[Entry], token: int | None) -> None:
    """Raise Fenced or Moved unless *entries* may stand behind entry *last* of a run whose newest token is *newest*."""
    for entry in entries:
        if isinstance(entry.body, Taken):
            if entry.body.token != (newest or 0) + 1:
                raise Fenced(_fenced(run_id, newest, entry.body.token))
            newest = entry.body.token
    if token is None:
        _outside(run_id, entries)
    elif token != newest:
        raise Fenced(_fenced(run_id, newest, token))
    _follows(run_id, last, entries)


def check_claim(run_id: str, owner: str | None, claim: Claim) -> None:
    """Raise Claimed unless the run may have the key that *owner* has now."""
    if owner not in (None, run_id, claim.instead_of):
        raise Claimed(f"run {owner!r} has claimed the business key of run {run_id!r}: nothing was written", owner)


def removed(run_id: str, at: float) -> Removed:
    """Return the error of whoever meets a run that is not there any more."""
    return Removed(
        f"run {run_id!r} was removed at {words.utc(at)}, and nothing is begun under its id again: use another id, or "
        f"forget this one (midstride gc {shlex.quote(run_id)} --forget), and what it did may be done a second time",
        at,
    )


def check_removal(run_id: str, lease: Lease, present: int, last: int | None) -> None:
    """Raise Fenced or Moved unless the run, whose last entry is *present*, may be removed by who has seen *last*."""
    if not lease.held():
        raise Fenced(f"run {run_id!r} is not held by this process (any more), so it was not removed: take it first")
    if last is not None and last != present:
        raise Moved(f"run {run_id!r} went on to entry {present}, behind entry {last}: it was not removed", present)


def _outside(run_id: str, entries: Sequence[Entry]) -> None:
    for entry in entries:
        if entry.body.kind not in OUTSIDE:
            raise Fenced(
                f"entry {entry.seq}, {entry.body.kind!r}, of run {run_id!r} needs the run's lease; without it one may "
                f"append {', '.join(sorted(OUTSIDE))}"
            )


def _follows(run_id: str, last: int, entries: Sequence[Entry]) -> None:
    for place, entry in enumerate(entries, start=last + 1):
        if entry.seq != place:
            raise Moved(
                f"entry {entry.seq} of run {run_id!r} stands where entry {place} is due, behind entry {last}: read "
                "what is new and try again",
                last,
            )


def _fenced(run_id: str, newest: int | None, token: int) -> str:
    if newest is None:
        return f"token {token} was never given: nobody has taken run {run_id!r} up; take it first"
    if token > newest:
        return f"token {token} was never given: the newest of run {run_id!r} is {newest}; take it up again"
    return (
        f"run {run_id!r} was taken by a newer holder (token {newest}): this one (token {token}) may write nothing "
        "more, so stop it"
    )


def no_claims(url: str) -> DeclarationError:
    """Return the error of a store that holds one run."""
    return DeclarationError(f"{url} holds one run, so there is nobody to claim a business key from; use sqlite:PATH")


def no_removal(url: str) -> DeclarationError:
    """Return the error of a store whose one run goes with its file."""
    return DeclarationError(
        f"{url} holds one run: delete the file, and what lies beside it (.prev, .lock, .results), when nobody needs it"
    )


def no_transactions(url: str) -> DeclarationError:
    """Return the error of a store without transactions."""
    return DeclarationError(
        f"{url} has no transactions: a transactional tool needs the store in its own database; use sqlite:PATH"
    )
