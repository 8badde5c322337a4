"""The program of the crash tests, which also notes each entry that its store acknowledged, and tells how it failed.

`acknowledged.txt` gets a note of an entry after `append` has returned, or its transaction has committed: what stands
there may never be missing again. A run that ends by an error of midstride's exits with 9 and leaves it in NAME.error.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import forks
import outside
import program

from midstride.core.journal import Entry
from midstride.drive import blocking
from midstride.errors import MidstrideError
from midstride.stores import Transaction

FAILED = 5


class NotingStore(program.FusedStore):
    """A fused store that notes what was acknowledged."""

    def append(self, run_id: str, entries: Sequence[Entry], **more: Any) -> None:
        super().append(run_id, entries, **more)
        note(self.inner.url, entries)

    @contextlib.contextmanager
    def transaction(self, run_id: str) -> Iterator[Transaction]:
        with super().transaction(run_id) as transaction:
            yield transaction
        note(self.inner.url, transaction.appended)


class NotingTransaction(program.FusedTransaction):
    """A transaction that remembers what was appended in it."""

    def append(self, entries: Sequence[Entry], **more: Any) -> None:
        super().append(entries, **more)
        self.appended = entries


def note(url: str, entries: Sequence[Entry]) -> None:
    """Note *entries* as acknowledged."""
    path = Path(url.partition(":")[2])
    folder = next(parent for parent in path.parents if (parent / "p0.json").exists())
    outside.note(folder / "acknowledged.txt", *(entry.text for entry in entries))


PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)


def main(path: str) -> int:
    """As the program's own, with an exit code for errors of midstride's."""
    # Else many a kernel lets only a process's own ancestors trace it. One that does not know the word lets all.
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY)
    # Whoever waits for a tool looks at the store meanwhile: on a slow machine that would make calls of its own.
    blocking.LISTEN_SECONDS = 1e6
    try:
        return carry_on(path)
    except MidstrideError as error:
        told = [type(error).__name__, str(error), None]
        Path(path).with_suffix(".error").write_text(json.dumps(told))
        return FAILED


carry_on = program.main

if __name__ == "__main__":
    program.FusedStore, program.FusedTransaction, program.main = NotingStore, NotingTransaction, main
    forks.serve()
