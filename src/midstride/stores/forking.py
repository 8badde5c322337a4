"""Forks, and the databases that a process has open.

SQLite remembers in the memory of a process which locks it has, and asks the kernel for one only where that memory says
that it has none. A forked child inherits the memory and none of the locks (https://sqlite.org/howtocorrupt.html, 2.6),
so whatever it opens is open without a lock: a WAL that it folds in while another process begins is emptied, with
everything that was acknowledged in it.

So a process closes its connections before it forks, and parent and child make their own behind it. What cannot be
closed, since somebody is in the middle of a write or of a tool's transaction, is refused to the child.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from midstride.errors import StoreError

PAUSE_SECONDS = 1.0
"""How long a fork waits for somebody who reads or writes; both take milliseconds, and one of them may be the forker."""

Inode = tuple[int, int]


class Pausable(Protocol):
    """What has connections of this process to the database *path*."""

    path: Path

    def pause(self, seconds: float) -> bool:
        """Close them, and keep others from making new ones; False where somebody uses one for longer than that."""

    def resume(self) -> None:
        """Let others make new ones."""


class _Forks:
    """What this process has open; *inherited* is what it was forked with."""

    def __init__(self, inherited: frozenset[Inode] = frozenset()) -> None:
        self.mutex = threading.Lock()
        self.watched: weakref.WeakSet[Pausable] = weakref.WeakSet()
        self.in_use: list[Inode] = []
        self.inherited = inherited
        self.paused: list[Pausable] = []
        self.left: frozenset[Inode] = frozenset()


_forks = _Forks()
_never_closed: list[sqlite3.Connection] = []


def never_close(connection: sqlite3.Connection) -> None:
    """Keep a connection that a forked child inherited all the same: to close it would touch the parent's WAL."""
    _never_closed.append(connection)


def watch(opened: Pausable) -> None:
    """Have the connections of *opened* closed before a fork."""
    with _forks.mutex:
        _forks.watched.add(opened)


@contextlib.contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Say that a connection is open in the block that no fork can close."""
    inode = _inode(path)
    with _forks.mutex:
        _forks.in_use += inode
    try:
        yield
    finally:
        with _forks.mutex:
            for one in inode:
                with contextlib.suppress(ValueError):  # this is a child, which began with a list of its own
                    _forks.in_use.remove(one)


def check(path: Path) -> None:
    """Raise StoreError where this process was forked while *path* was in use: SQLite would not lock it here."""
    if not _forks.inherited.isdisjoint(_inode(path)):
        raise StoreError(
            f"{path} was in use when this process was forked, in the middle of a write or of a tool's transaction, so "
            "SQLite would not lock it here: nothing was written; start this process anew (multiprocessing calls that "
            "spawn)"
        )


def _inode(path: Path) -> list[Inode]:
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [(status.st_dev, status.st_ino)]


def _before() -> None:
    _forks.mutex.acquire()
    left = list(_forks.in_use)
    for one in list(_forks.watched):
        if one.pause(PAUSE_SECONDS):
            _forks.paused.append(one)
        else:
            left += _inode(one.path)
    _forks.left = frozenset(left)


def _resume() -> None:
    while _forks.paused:
        _forks.paused.pop().resume()


def _after_in_parent() -> None:
    _resume()
    _forks.mutex.release()


def _after_in_child() -> None:
    global _forks
    _resume()
    _forks = _Forks(_forks.inherited | _forks.left)


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
