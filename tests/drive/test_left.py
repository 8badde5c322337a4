"""Drivers that are left in the middle: by a cancellation, by a crash of a tool, by a look that drives nothing."""

import asyncio
import sys

import pytest

from drive.scenes import agent_of, uses
from midstride import AsyncRun, Run, tool
from midstride.errors import NotAllowed
from midstride.stores import MemoryStore, SqliteStore


def test_a_step_that_was_ended_by_a_crash_is_not_done_again():
    sent = []

    @tool
    def send(to: str) -> str:
        """Send, and end the program."""
        sent.append(to)
        sys.exit(1)

    with Run(MemoryStore(), "run", "go", tools=[send]) as run:
        next(run).respond(uses(("send", {"to": "ann"})))
        with pytest.raises(SystemExit):
            next(run)
        with pytest.raises(NotAllowed, match="ended in the middle of a step"):
            next(run)
    assert sent == ["ann"]


def test_a_run_whose_opening_is_cancelled_is_given_back(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")

    async def cancelled():
        opening = asyncio.ensure_future(AsyncRun(store, "run", "go").__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(cancelled())
    assert store.holder("run") is None
    assert agent_of(["Done."], store=store).run("go", "run").status == "done"
    store.close()
