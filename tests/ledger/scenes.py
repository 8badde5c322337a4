"""What the tests of the ledger share: a death in thought, and the kinds of a run's entries."""

import contextlib

from midstride import Ledger
from midstride.testing import Killed, Process, SettableClock


def kinds(store, run_id="t/c1"):
    return [entry.body.kind for entry in store.read(run_id)]


@contextlib.contextmanager
def process(store, at=None, clock=None):
    """A process in thought with a ledger; it dies at the point *at*, and `own` gives it its copy of a tool."""
    one = Process(store, clock or SettableClock(), at)
    try:
        yield one, Ledger(one.store, clock=one.clock), lambda tool: one.tools([tool])[0]
    except Killed:
        if one.fuse.died_at is None:
            raise
    finally:
        one.end()


def die(store, tool, at, call_id="c1", arguments=None, clock=None):
    """Let a process die at the point *at* of a call."""
    with process(store, at, clock) as (one, ledger, own):
        ledger.once(own(tool), call_id, arguments or {}, scope="t")
    assert one.fuse.died_at == at
