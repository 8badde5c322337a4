"""What a process of the crash tests does at a moment: it dies, stops, forks, loses its lock, leaves children behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from midstride.core.journal import Entry, Requested, Said, head_of, seal
from midstride.errors import MidstrideError
from midstride.stores import Store, locks

if TYPE_CHECKING:
    from program import Moments


def commit(deed: str, moments: Moments) -> None:
    """Do the deed that is called so."""
    DEEDS[deed](moments)


def kill(moments: Moments) -> None:
    """Die at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop(moments: Moments) -> None:
    """Stand still until somebody sends SIGCONT."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # at once: another thread would let this one go on a bit


def drop(moments: Moments) -> None:
    """Lose the lease unseen, as by a tool that reads every file there is: closing any descriptor drops the lock."""
    os.close(os.open(lock_file(moments), os.O_RDONLY))


def lock_file(moments: Moments) -> Path:
    assert moments.store is not None
    return locks.lock_file_of(Path(moments.store.url.partition(":")[2]))


def fork(moments: Moments) -> None:
    """Die, and go on in a child once the gate opens."""
    if os.fork() == 0:
        moments.forked = True
        moments.announce("forked")
        moments.wait_at("go")
        return
    kill(moments)


def fork_and_meddle(moments: Moments) -> None:
    """Leave a forked child behind that uses what it inherited once the gate opens, and says what became of it."""
    if os.fork() == 0:
        moments.announce("forked")
        moments.wait_at("held 1")
        meddle(moments)
        os._exit(0)


def meddle(moments: Moments) -> None:
    """Use the store and the lease that a forked child has from its parent, and tell what each attempt came to."""
    store, lease = moments.store, moments.lease
    assert store is not None
    assert lease is not None
    lease.release(clean=True)
    journal = store.read("run-1")
    entries = seal([Said("From the child."), Requested()], head_of(journal), 0.0)
    attempts: list[Callable[[], object]] = [
        lambda: store.append("run-1", entries, token=1),
        lambda: in_transaction(store, entries),
        lambda: store.lease("run-1"),
        lambda: store.lease("run-1").release(clean=True),
    ]
    moments.announce(", ".join([str(lease.held()), *map(came_to, attempts)]))


def in_transaction(store: Store, entries: Sequence[Entry]) -> None:
    with store.transaction("run-1") as transaction:
        transaction.append(entries, token=1)


def came_to(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except MidstrideError as error:
        return type(error).__name__
    return "done"


def multiprocess(moments: Moments) -> None:
    """Leave a child of multiprocessing behind, which lives until the gate opens."""
    child = multiprocessing.get_context("fork").Process(target=moments.wait_at, args=("go",))
    child.start()
    moments.announce(f"child {child.pid}")


def spawn(moments: Moments) -> None:
    """Leave a program behind that was given every descriptor there is, and lives until the gate opens."""
    child = subprocess.Popen(["head", "-c", "1", moments.folder / "go"], close_fds=False)
    moments.announce(f"child {child.pid}")


DEEDS: dict[str, Callable[[Moments], None]] = {
    "kill": kill,
    "stop": stop,
    "drop": drop,
    "fork": fork,
    "fork and meddle": fork_and_meddle,
    "multiprocess": multiprocess,
    "spawn": spawn,
}
