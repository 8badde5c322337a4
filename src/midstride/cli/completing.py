"""What the shell offers on TAB. Whatever is wrong with a store is no matter there: then nothing is offered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

import typer

from midstride.core.run import CallState
from midstride.drive import Runs

NEWEST = 1_000
"""So many ids of runs are offered at most."""


def run_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of runs."""
    return _offered(ctx, incomplete, lambda runs: runs.ids(newest=NEWEST))


def call_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of the run's calls that a person can decide about."""
    return _offered(ctx, incomplete, lambda runs: _asked_about(runs, ctx.params["run_"]))


def _asked_about(runs: Runs, run_id: str) -> list[str]:
    run = runs.get(run_id)
    asked = [call for call in run.calls if call.state is CallState.ASKING_APPROVAL]
    return [call.id for call in (*run.doubts, *asked)]


def _offered(ctx: typer.Context, incomplete: str, find: Callable[[Runs], list[str]]) -> list[str]:
    logging.disable()  # this process does nothing else, and a shell shows all that it says in the middle of a line
    try:
        with closing(Runs(ctx.params.get("store"))) as runs:
            return [word for word in find(runs) if word.startswith(incomplete)]
    except Exception:
        return []
