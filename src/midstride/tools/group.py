"""The process group of a command, and the guard that ends it when this process cannot any more.

The command waits behind a gate, a shell that reads one line and then becomes it, until its guard knows it. The guard is
a shell that reads a pipe which this process alone can write to: the pipe ends with this process, however it ends, and
then the guard kills the whole group. All it takes is a POSIX shell.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import IO

OUTPUT_MAX = 10_000_000
"""Bytes of each of a command's outputs that are kept, its beginning and its end: a hundred times what a model reads."""

KILL_SECONDS = 5.0
"""How long a command that was killed is waited for: one of another user's, or stuck in the kernel, is left."""

CHUNK = 65_536

SHELL = "/bin/sh"
GUARD = "trap '' HUP INT QUIT TERM; read -r group && { read -r _ || kill -s KILL -- \"-$group\"; }"


class Bell:
    """A pipe that wakes who waits for a command: its process has ended ("e"), or its call is over ("c")."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.reader, self._writer = os.pipe()
        self._is_open = True

    def ring(self, why: bytes) -> None:
        """Wake who waits; nobody does once it is closed."""
        with self._mutex:
            if self._is_open:
                os.write(self._writer, why)

    def heard(self) -> str:
        """Return what was rung: "over" where the call is, whatever the process does."""
        return "over" if b"c" in os.read(self.reader, 16) else "ended"

    def close(self) -> None:
        """Close the pipe."""
        with self._mutex:
            self._is_open = False
            os.close(self.reader)
            os.close(self._writer)


class Kept:
    """The beginning and the end of an output, half of OUTPUT_MAX each."""

    def __init__(self) -> None:
        self._head, self._tail, self.left_out = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Keep *data*, and let go what is neither beginning nor end any more."""
        room = OUTPUT_MAX // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > OUTPUT_MAX:  # twice what is kept of it: each byte is moved once
            self._shorten()

    def _shorten(self) -> None:
        over = max(0, len(self._tail) - OUTPUT_MAX // 2)
        del self._tail[:over]
        self.left_out += over

    def data(self) -> bytes:
        """Return what is kept; `left_out` bytes are missing behind the first half of OUTPUT_MAX."""
        self._shorten()
        return bytes(self._head + self._tail)


class Group:
    """A process behind its gate, and what is said to it and heard of it."""

    def __init__(self, process: subprocess.Popen[bytes], guard: Guard, bell: Bell) -> None:
        self._process, self._guard, self._bell = process, guard, bell
        self._is_killed = False
        self._waiter = threading.Thread(target=self._wait, name="midstride command", daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        # It is left a zombie: its number is nobody else's before its group is dead.
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._bell.ring(b"e")

    def talk(self, said: bytes, outputs: Sequence[Kept], seconds: float | None) -> str:
        """Write *said* to it and keep what it writes, until it has "ended", is "late", or its call is "over"."""
        until = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell.reader, selectors.EVENT_READ, self._bell.heard)
            for pipe, kept in zip(self._outputs, outputs, strict=False):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, partial(_hear, selector, pipe, kept))
            os.set_blocking(self._stdin.fileno(), False)
            selector.register(
                self._stdin, selectors.EVENT_WRITE, partial(_tell, selector, self._stdin, bytearray(said))
            )
            while True:
                for key, _ in selector.select(None if until is None else max(0.0, until - time.monotonic())):
                    why: str | None = key.data()
                    if why is not None:
                        return why
                if until is not None and time.monotonic() >= until:
                    return "late"

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _outputs(self) -> list[IO[bytes]]:
        return [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]

    def drain(self, outputs: Sequence[Kept]) -> None:
        """Keep what is in the pipes still; who has taken them into a session of its own is not waited for."""
        for pipe, kept in zip(self._outputs, outputs, strict=False):
            for _ in range(64):  # of CHUNK each: more than a pipe holds
                if not _read(kept, pipe.fileno()):
                    break

    def kill(self) -> None:
        """Kill the whole group, let the guard go, and reap the process."""
        if self._is_killed:
            return
        self._is_killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left, or nothing of this user's
            os.killpg(self._process.pid, signal.SIGKILL)
        self._waiter.join(KILL_SECONDS)
        self._guard.dismiss()
        if not self._waiter.is_alive():
            self._process.wait()

    def close(self) -> None:
        """Kill what is left, and close its pipes."""
        self.kill()
        for pipe in (self._process.stdin, *self._outputs):
            if pipe is not None:
                pipe.close()


def _tell(selector: selectors.BaseSelector, stdin: IO[bytes], left: bytearray) -> None:
    try:
        del left[: os.write(stdin.fileno(), left[:CHUNK])]
    except BlockingIOError:
        return
    except BrokenPipeError:  # it reads no more: what it was to read is its own affair
        left.clear()
    if not left:
        selector.unregister(stdin)
        stdin.close()


def _hear(selector: selectors.BaseSelector, pipe: IO[bytes], kept: Kept) -> None:
    if _read(kept, pipe.fileno()) == b"":
        selector.unregister(pipe)


def _read(kept: Kept, descriptor: int) -> bytes | None:
    """Keep what is there to be read; None where there is nothing now."""
    try:
        data = os.read(descriptor, CHUNK)
    except BlockingIOError:
        return None
    kept.add(data)
    return data


# ---- the guard


class _Forks:
    """The pipes that guards read, kept from forked children: one would hold them open when this process ends."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.lifelines: set[IO[bytes]] = set()
        self._is_told = False

    def hear(self) -> None:
        """See every fork from here on."""
        with self.mutex:
            told, self._is_told = self._is_told, True
        if not told:
            os.register_at_fork(
                before=self.mutex.acquire, after_in_parent=self.mutex.release, after_in_child=self._in_child
            )

    def _in_child(self) -> None:
        for lifeline in self.lifelines:
            lifeline.close()
        self.lifelines.clear()
        self.mutex.release()


_forks = _Forks()


class Guard:
    """A shell that outlives this process for a moment, to kill the group that it watches."""

    def __init__(self) -> None:
        _forks.hear()
        with _forks.mutex:
            self._process = subprocess.Popen(
                [SHELL, "-c", GUARD],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
            assert self._process.stdin is not None
            self._lifeline = self._process.stdin
            _forks.lifelines.add(self._lifeline)

    def watch(self, group: int) -> None:
        """From here on the group dies when this process does."""
        self._lifeline.write(b"%d\n" % group)

    def dismiss(self) -> None:
        """Let it go; the group is dead, or was never begun."""
        self._process.kill()
        self._process.wait()
        with _forks.mutex:
            _forks.lifelines.discard(self._lifeline)
        self._lifeline.close()
