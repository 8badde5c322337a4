"""The lease on one host: a kernel record lock on one byte of a lock file, free the moment its holder dies.

Rules of record locks, and what follows here:

- They belong to a process, and closing any descriptor of the file drops them all: a process opens a lock file once,
  counts who uses it, and closes it when nobody does.
- They do not exist between the threads of a process: a table in this process stands beside them.
- A forked child does not inherit them: its table starts empty, and `held` compares the pid.
- The kernel names the living holder, so neither a pid in a file nor a clock is ever believed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from midstride.core.journal import Entry, Taken
from midstride.errors import Held, Holder, StoreError
from midstride.stores import disk

GRACE_SECONDS = 10.0
"""How long a holder may take to end after SIGTERM: what container runtimes grant before they kill."""

WAIT_SECONDS = 30.0
"""How long a writer waits for another one; a write takes milliseconds, so one that takes this long is stopped."""

POLL_SECONDS = 0.005

Inode = tuple[int, int]
Newest = Callable[[], Entry | None]
"""Returns the newest `taken` entry of the run that is asked for."""


class _File:
    """An open lock file: its descriptors (all but the first are accidents), its users, and a gate for each byte."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.users = 0
        self.gates: dict[int, threading.Lock] = {}


class _Table:
    """What this process has open and holds; a forked child begins with a new one."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.fork_seen = False
        self.files: dict[Inode, _File] = {}
        self.owned: set[tuple[str | Inode, int]] = set()


_table = _Table()


def lock_file_of(path: Path) -> Path:
    """Return the lock file of the store file *path*: the same one through every symbolic link."""
    real = Path(os.path.realpath(path))
    return real.with_name(real.name + ".lock")


# ---- leases


class RecordLock:
    """One byte of a lock file, held by this process until released or until it dies; *among* has it until then."""

    def __init__(self, spot: _Spot, names: set[tuple[str | Inode, int]], among: set[RecordLock]) -> None:
        self.after_clean = _mark(spot, _TAKEN) != _TAKEN
        self._spot = spot
        self._names = names
        self._pid = os.getpid()
        self._released = False
        self._among = among
        among.add(self)
        self.kept = False  # by an attempt that goes on: closing its store does not end it

    def release(self, *, clean: bool = False) -> None:
        """Give the byte back; releasing twice, or in a forked child, does nothing."""
        if self._pid != os.getpid():
            return
        with _table.mutex:
            if not self._released:
                self._released = True
                self._among.discard(self)
                if clean and _try(self._spot):  # whoever has it instead of us may yet be killed
                    _mark(self._spot, _GIVEN_BACK)
                _table.owned -= self._names
                try:
                    _unlock(self._spot)
                finally:
                    _leave(self._spot)

    def held(self) -> bool:
        """Tell whether this very process still has the byte.

        Code in this process that opened and closed the lock file has dropped the lock unseen (a tool that searches
        all files does that). So the lock is taken again each time: without effect if it is there.
        """
        if self._pid != os.getpid():
            return False
        with _table.mutex:
            return not self._released and _try(self._spot)


def take(
    path: Path, byte: int, run_id: str, *, among: set[RecordLock], newest: Newest, take_over: bool = False
) -> RecordLock:
    """Take *byte* of the lock file *path* for the run; Held names the living process that has it.

    *among* are those that were taken and not given back: it comes to them. *newest* returns the run's newest `taken`
    entry, which tells since when its holder has it. With *take_over* a holder in another process is ended first:
    SIGTERM, and SIGKILL after `GRACE_SECONDS`.
    """
    while True:
        spot = _open(path, byte)
        names: set[tuple[str | Inode, int]] = {(str(path), byte), (spot.inode, byte)}
        taken = False
        try:
            _claim(names, run_id, newest)
            try:
                _acquire(spot, run_id, newest, take_over)
                taken = _still_named(spot)
                if taken:
                    return RecordLock(spot, names, among)
                _unlock(spot)  # the file was deleted and made anew meanwhile: lock the one that others see
            finally:
                if not taken:
                    _disclaim(names)
        finally:
            if not taken:
                _close(spot)


def holder(path: Path, byte: int, *, newest: Newest) -> Holder | None:
    """Return the living process that has *byte*, without taking it; None when nobody has, or no lock file is there."""
    if _inode(path) is None:
        return None
    spot = _open(path, byte)
    try:
        with _table.mutex:
            ours = bool({(str(path), byte), (spot.inode, byte)} & _table.owned)
        pid = os.getpid() if ours else _holder_pid(spot)
    finally:
        _close(spot)
    if pid is None:
        return None
    return _described(pid, newest) if pid > 0 else Holder("another host", pid)


def _claim(names: set[tuple[str | Inode, int]], run_id: str, newest: Newest) -> None:
    with _table.mutex:
        if not names & _table.owned:
            _table.owned |= names
            return
    holder = _described(os.getpid(), newest)
    raise Held(
        f"run {run_id!r} is held by this very process (pid {holder.pid}), which cannot be taken over: leave the "
        "other `with Run(...)` block first, or use another process",
        holder,
    )


def _disclaim(names: set[tuple[str | Inode, int]]) -> None:
    with _table.mutex:
        _table.owned -= names


def _acquire(spot: _Spot, run_id: str, newest: Newest, take_over: bool) -> None:
    while not _try(spot):
        pid = _holder_pid(spot)
        if pid is None:
            continue  # it was given back between the two questions
        if pid <= 0 or not take_over:
            raise _held(pid, run_id, newest)
        _end_holder(spot, pid, run_id, newest)
        take_over = False  # who was quicker than this process is not to be ended


def _end_holder(spot: _Spot, pid: int, run_id: str, newest: Newest) -> None:
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, WAIT_SECONDS)):
        _signal(pid, number, run_id, newest)
        until = time.monotonic() + seconds
        while _holder_pid(spot) == pid and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        if _holder_pid(spot) != pid:
            return
    raise _held(pid, run_id, newest, "did not end even by SIGKILL: it waits in the kernel, perhaps for a disk")


def _signal(pid: int, number: signal.Signals, run_id: str, newest: Newest) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended: its lock is free
    except PermissionError:
        why = f"user {os.geteuid()} may not end: end it as its own user or as root, then run the same program again"
        raise _held(pid, run_id, newest, why) from None


def _held(pid: int, run_id: str, newest: Newest, why: str = "") -> Held:
    if pid <= 0:
        return Held(
            f"run {run_id!r} is held by a process on another host or in another container, which cannot be named or "
            "ended from here: end it there, then run the same program again",
            Holder(socket.gethostname(), pid),
        )
    holder = _described(pid, newest)
    since = "" if holder.since is None else f", since {_clock(holder.since)}"
    why = why or "lives: wait for it, or take the run over (resume --take-over), which ends it first"
    return Held(f"run {run_id!r} is held by pid {pid} on {holder.host}{since}, which {why}", holder)


def _described(pid: int, newest: Newest) -> Holder:
    """Return the holder; host and since come from the journal when its newest `taken` is that holder's."""
    try:
        entry = newest()
    except Exception:  # a journal that cannot be read must not hide who holds it
        entry = None
    if entry is not None and isinstance(entry.body, Taken) and entry.body.pid == pid:
        return Holder(entry.body.host, pid, entry.at)
    return Holder(socket.gethostname(), pid)


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def release_all(among: set[RecordLock]) -> None:
    """Give back all of *among* but those that an attempt keeps."""
    for lease in list(among):
        if not lease.kept:
            lease.release()


# ---- the lock for one write


@contextlib.contextmanager
def exclusive(path: Path, byte: int, *, wait_seconds: float | None = None) -> Iterator[None]:
    """Hold *byte* of the lock file *path* for the block, against processes and threads alike.

    Waits for its turn, `WAIT_SECONDS` unless told otherwise, then raises StoreError. It asks again and again rather
    than wait in the kernel, which would see a deadlock where two threads of each process wait, and which cannot
    be told for how long.
    """
    until = time.monotonic() + (WAIT_SECONDS if wait_seconds is None else wait_seconds)
    while True:
        with _one_at_a_time(path, byte, until) as spot:
            if _still_named(spot):
                yield
                return


@contextlib.contextmanager
def _one_at_a_time(path: Path, byte: int, until: float) -> Iterator[_Spot]:
    spot = _open(path, byte)
    try:
        if not spot.gate.acquire(timeout=max(0.0, until - time.monotonic())):
            raise _stuck(spot)
        try:
            _lock_until(spot, until)
            try:
                yield spot
            finally:
                _unlock(spot)
        finally:
            spot.gate.release()
    finally:
        _close(spot)


def _lock_until(spot: _Spot, until: float) -> None:
    pause = 0.0002
    while not _try(spot):
        if time.monotonic() >= until:
            raise _stuck(spot)
        time.sleep(pause)
        pause = min(pause * 2, POLL_SECONDS)


def _stuck(spot: _Spot) -> StoreError:
    pid = _holder_pid(spot) or os.getpid()
    return StoreError(
        f"{spot.path} is locked by pid {pid}, which has not finished its write: nothing was written; see whether that "
        "process is stopped, and run the same program again"
    )


# ---- the kernel's side


@dataclass(frozen=True, slots=True)
class _Spot:
    """One byte of an open lock file."""

    path: Path
    inode: Inode
    descriptor: int
    byte: int
    gate: threading.Lock


def _open(path: Path, byte: int) -> _Spot:
    """Return the byte in the one descriptor that this process has of the file, which is made when missing."""
    with _table.mutex:
        if not _table.fork_seen:
            os.register_at_fork(after_in_child=_forget)
            _table.fork_seen = True
        inode = _inode(path)
        if inode is None or inode not in _table.files:
            inode = _open_anew(path)
        file = _table.files[inode]
        file.users += 1
        return _Spot(path, inode, file.descriptors[0], byte, file.gates.setdefault(byte, threading.Lock()))


def _open_anew(path: Path) -> Inode:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise disk.store_error(error, path, "written") from error
    disk.give_to_owner_of(path.with_suffix(""), descriptor)
    status = os.fstat(descriptor)
    inode = (status.st_dev, status.st_ino)
    # If the file got its name back just now, this is a second descriptor of it. It stays open with the first: closing
    # it would drop the locks.
    _table.files.setdefault(inode, _File()).descriptors.append(descriptor)
    return inode


def _close(spot: _Spot) -> None:
    with _table.mutex:
        _leave(spot)


def _leave(spot: _Spot) -> None:
    """Count one user less; a child that was forked meanwhile has another table, and the file is not in it."""
    file = _table.files.get(spot.inode)
    if file is None or spot.descriptor not in file.descriptors:
        return
    file.users -= 1
    if not file.users:
        del _table.files[spot.inode]
        for descriptor in file.descriptors:
            _close_descriptor(descriptor, spot.inode)


def _close_descriptor(descriptor: int, inode: Inode) -> None:
    with contextlib.suppress(OSError):  # a tool that makes itself a daemon has closed it, and another file may have it
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == inode:
            os.close(descriptor)


def _forget() -> None:
    global _table
    _table = _Table()
    _table.fork_seen = True  # the hook is inherited


def _inode(path: Path) -> Inode | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk.store_error(error, path, "read") from error
    return status.st_dev, status.st_ino


def _still_named(spot: _Spot) -> bool:
    return _inode(spot.path) == spot.inode


def _try(spot: _Spot) -> bool:
    try:
        fcntl.lockf(spot.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, spot.byte)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise _refused(spot, error) from error
    return True


def _refused(spot: _Spot, error: OSError) -> StoreError:
    return StoreError(
        f"{spot.path} cannot be locked or unlocked ({error.strerror}): put the store on a local file system, and run "
        "the same program again"
    )


_TAKEN, _GIVEN_BACK = b"\x01", b"\x00"


def _mark(spot: _Spot, mark: bytes) -> bytes:
    """Write *mark* into the byte itself and return what stood there: a holder that was killed leaves `_TAKEN`.

    It is a hint for counting crashes, so it is not synced, and a disk that refuses it is no error.
    """
    try:
        before = os.pread(spot.descriptor, 1, spot.byte)
        os.pwrite(spot.descriptor, mark, spot.byte)
    except OSError:
        return _GIVEN_BACK
    return before


def _unlock(spot: _Spot) -> None:
    try:
        fcntl.lockf(spot.descriptor, fcntl.LOCK_UN, 1, spot.byte)
    except OSError as error:
        raise _refused(spot, error) from error


def _holder_pid(spot: _Spot) -> int | None:
    """Return the pid that holds the byte, None when it is free or our own; 0 or less is not of this host."""
    if sys.platform == "darwin":
        form, kind_at, pid_at = "qqihh", 3, 2
        asked = struct.pack(form, spot.byte, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    else:
        form, kind_at, pid_at = "hhqqi0q", 0, 4
        asked = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, spot.byte, 1, 0)
    try:
        told = struct.unpack(form, fcntl.fcntl(spot.descriptor, fcntl.F_GETLK, asked))
    except OSError as error:
        raise _refused(spot, error) from error
    return None if told[kind_at] == fcntl.F_UNLCK else int(told[pid_at])
