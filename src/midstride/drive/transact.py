"""A transactional attempt: the tool's writes and its result commit together, or neither does (decision 6)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from midstride.core.fold import fold
from midstride.core.journal import Entry
from midstride.core.steps import Ended, Tail, Transact
from midstride.drive.attempts import bounded
from midstride.drive.calls import raised
from midstride.drive.shell import Shell
from midstride.errors import Moved


class _RolledBack(Exception):
    """Leaves the transaction's block, so that it is rolled back."""

    def __init__(self, ended: Ended) -> None:
        self.ended = ended


def transact(
    shell: Shell, step: Transact, body_of: Callable[[Any], Callable[[], Ended]]
) -> tuple[Entry, ...] | Ended | Tail:
    """Run the attempt and append its result in one transaction; whatever goes wrong rolls both back.

    *body_of* makes the attempt's body for a connection. A tool that does not end in time is cut off from its
    connection, so it can write nothing more: that is a definite failure too.
    """
    shell.check_lease()
    try:
        with shell.store.transaction(shell.run_id) as transaction:
            ended = bounded(body_of(transaction.connection), step.call.key, step.timeout, step.call.name)
            if ended.how != "returned":
                raise _RolledBack(ended)
            entries = step.seal(ended.content, shell.clock.now())
            transaction.append(entries, token=shell.token, over=fold(entries, shell.run).over)
    except _RolledBack as rolled_back:
        return replace(rolled_back.ended, alive=False)
    except Moved:
        return shell.tail()
    except sqlite3.IntegrityError as error:
        return raised(step.call, error)  # a constraint that is only checked at the commit: the tool's, not the store's
    return entries
