"""Ctrl-C, SIGTERM and SIGHUP while a run is driven: the first one stops in order, the second one, or the end of the
grace, at once.

A thread listens, so that neither a tool that blocks the event loop nor a transaction that hangs can keep a process
from ending. A signal that was ignored when the process began stays ignored (nohup, a shell's background jobs).
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from midstride.cli.exits import Exit

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

MARGIN_SECONDS = 1.5
"""What saving the last results may take beyond the grace; with 8 s of grace it stays below a container's 10 s."""

LAST_WORDS_SECONDS = 5.0
"""How long the last words may take to be written: a moment, but on a busy machine, or where nobody reads them."""


class Signals:
    """Use it as a context: *first* is called at the first signal, *last* before the process ends at once.

    Both are called in threads of their own; *last* is told whether it was a second signal.
    """

    def __init__(self, first: Callable[[], None], last: Callable[[bool], None], *, grace_seconds: float) -> None:
        self._first, self._last = first, last
        self._seconds = grace_seconds + MARGIN_SECONDS
        self._before: dict[signal.Signals, Any] = {}
        self.came = False
        """Whether a signal has come, also in the last moment, when *first* is not called any more."""

    def __enter__(self) -> Signals:
        self._heard, self._tell = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="midstride signals", daemon=True)
        self._thread.start()
        for number in NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._tell)
        self._thread.join()
        os.close(self._heard)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        os.write(self._tell, b"!")  # nothing else is safe in the middle of whatever was interrupted

    def _listen(self) -> None:
        if not os.read(self._heard, 1):
            return
        _aside(self._first)
        ready, _, _ = select.select([self._heard], [], [], self._seconds)
        if ready and not os.read(self._heard, 1):
            return  # the run stopped in order
        self._end(again=bool(ready))

    def _end(self, *, again: bool) -> NoReturn:
        _aside(self._last, again).join(LAST_WORDS_SECONDS)
        os._exit(Exit.INTERRUPTED)  # a crash like any other: what runs is cut off, and a resume settles it


def _aside(function: Callable[..., None], *arguments: object) -> threading.Thread:
    """Call *function* in a thread of its own: it writes, and a reader that has stopped reading must not hold us."""
    thread = threading.Thread(target=function, args=arguments, name="midstride words", daemon=True)
    thread.start()
    return thread
