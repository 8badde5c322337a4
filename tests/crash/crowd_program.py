"""Many runs of one process and one store: `python crowd_program.py FOLDER`.

Each of them sends three mails, one a turn. A mail is a note in `sent.txt`, an entry that its store acknowledged one in
`acknowledged.txt`; descriptor 1 gets a dot for each, so that somebody outside can kill this process at any of them.
Behind the last one it gets a "!", and the process lives until its stdin ends: whoever kills it may be slow.
It exits with 5 when a write failed in one of the runs; the others went on.

Without FOLDER it forks such a process for each folder that it reads from stdin, since its imports take longer than all
that it does. Descriptors 0 and 1 are the FIFOs `in` and `out` of the folder then; its pid is answered, and its exit
code, or minus the signal that ended it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crash.outside import note
from midstride import Agent, Context, models, tool
from midstride.core.journal import Entry
from midstride.errors import StoreError
from midstride.stores import SqliteStore
from midstride.testing import SettableClock

RUNS = [f"run-{n:02}" for n in range(12)]
MAILS = 3
FAILED = 5


class NotingStore(SqliteStore):
    """A store that notes what it acknowledged."""

    def append(self, run_id: str, entries: Sequence[Entry], **more: Any) -> None:
        super().append(run_id, entries, **more)
        note(folder / "acknowledged.txt", *(f"{run_id} {entry.seq} {entry.digest}" for entry in entries))
        os.write(1, b".")


@tool
def send(number: int, context: Context) -> str:
    """Send a mail."""
    note(folder / "sent.txt", f"{context.run_id} {number}")
    return "sent"


async def carry_on() -> int:
    """Carry all runs on at once."""
    script = [*([("send", {"number": number})] for number in range(MAILS)), "Done."]
    clock = SettableClock(time.time())  # who died without an answer rests before he asks again: here for no real time
    agents = {run_id: Agent(models.Scripted(script), [send], store=store, clock=clock) for run_id in RUNS}
    results = await asyncio.gather(
        *(agent.run_async("Send them.", run_id) for run_id, agent in agents.items()), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, StoreError):
            raise result
    return FAILED if any(isinstance(result, StoreError) for result in results) else 0


def main(place: Path) -> int:
    """Carry the runs in the folder *place* on; return the exit code."""
    global folder, store
    folder = place
    store = NotingStore(folder / "runs.db")
    code = asyncio.run(carry_on())
    os.write(1, b"!")
    while os.read(0, 1):
        pass
    store.close()
    return code


def serve() -> None:
    """Fork a process for each folder that is read, and wait for it."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            in_a_fork(Path(line.strip()))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def in_a_fork(place: Path) -> None:
    code = 1
    try:
        os.dup2(os.open(place / "in", os.O_RDONLY), 0)
        os.dup2(os.open(place / "out", os.O_WRONLY), 1)
        code = main(place)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) if sys.argv[1:] else serve())
