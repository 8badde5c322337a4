"""The attempts of all runs of this process, found by their run: a later driver of it takes them over from there."""

from __future__ import annotations

import os
import threading
from functools import partial

from midstride.drive.attempts import Attempts

Key = tuple[int, object, str, str]

_attempts: dict[Key, Attempts] = {}
_mutex = threading.Lock()

FEW = 64
"""So many runs may be in the table before any are looked for that can go."""

_many = FEW


def attempts_of(store: object, run_id: str, nonce: str) -> Attempts:
    """Return the attempts of a run in this process; *nonce* keeps a reused id apart."""
    with _mutex:
        if len(_attempts) >= _many:
            _drop_over()
        key = (os.getpid(), store, run_id, nonce)  # a forked child has a copy of the table, and none of the threads
        known = _attempts.get(key)
        if known is None or _is_over(known):
            known = _attempts[key] = Attempts()
            known.forget = partial(_forget, key)
        return known


def _forget(key: Key, attempts: Attempts) -> None:
    with _mutex:
        if _attempts.get(key) is attempts and _is_over(attempts):
            del _attempts[key]


def _is_over(attempts: Attempts) -> bool:
    return attempts.idle and not attempts.driven


def _drop_over() -> None:
    """Drop the runs that are over here; next when twice as many are there, so that it costs each run little."""
    global _many
    for key in [key for key, attempts in _attempts.items() if _is_over(attempts)]:
        del _attempts[key]
    _many = max(FEW, 2 * len(_attempts))


def forget(store: object) -> None:
    """Drop the attempts of the runs in *store*: with a real process they are gone, one that died in thought asks."""
    with _mutex:
        for key in [key for key in _attempts if key[1] == store]:
            del _attempts[key]
