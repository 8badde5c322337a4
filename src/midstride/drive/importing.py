"""The explicit way out of a damaged checkpoint.json: take its previous generation.

That one may lack the newest intents, so silence proves nothing: every call of its last response that has no result
counts as intended (decision 14 and DESIGN, section 5), and is looked up, reported or asked about, never just run.
"""

from __future__ import annotations

from midstride.core.imports import Foreign, doubted
from midstride.core.journal import Entry, Taken, seal
from midstride.core.run import NEW
from midstride.drive.shell import Shell
from midstride.errors import DeclarationError, UnknownRun
from midstride.stores import CheckpointStore


def import_previous(shell: Shell) -> None:
    """Make the previous generation the run's journal; the damaged file is kept as `<name>.set-aside`.

    Raises UnknownRun when there is none, Held while a living process drives the run.
    """
    store = shell.store
    if not isinstance(store, CheckpointStore):
        raise DeclarationError(f"{store.url} keeps no previous generation: only checkpoint:PATH does")
    lease = store.lease(shell.run_id, take_over=shell.plan.take_over)
    try:
        entries = _entries(shell, store)
        token = max(entry.body.token for entry in entries if isinstance(entry.body, Taken))
        store.import_over(shell.run_id, entries, token=token)
    finally:
        lease.release()


def _entries(shell: Shell, store: CheckpointStore) -> list[Entry]:
    previous = store.previous()
    if previous is None:
        raise UnknownRun(f"{store.url} has no previous generation: restore it from a backup")
    now = shell.clock.now()
    if previous.foreign is None:
        if previous.run_id != shell.run_id:
            raise UnknownRun(f"the previous generation of {store.url} is run {previous.run_id!r}: give that id")
        return [*previous.entries, *seal(doubted(previous.run), previous.run.head, now)]
    return list(seal([*shell.imported(Foreign.of(previous.foreign)), shell.taken(1, clean=False)], NEW.head, now))
