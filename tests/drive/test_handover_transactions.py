"""A transaction whose driver is cancelled: nobody waits for its tool, and nothing of it is left."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from drive.scenes import agent_of, kinds, results
from midstride import Context, tool
from midstride.stores import SqliteStore
from patience import SECONDS
from standing import Standing

BOOK = [("book", {"seat": "1a"})]


@pytest.fixture
def store(tmp_path):
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        connection.execute("create table seats (name)")
    with closing(SqliteStore(tmp_path / "mine.db")) as store:
        yield store


def seats(tmp_path):
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        return [name for (name,) in connection.execute("select name from seats")]


class Booking:
    """A tool that writes and then does not come back; the second time it does."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()
        self.times = 0

    def write(self, seat, context):
        context.transaction.execute("insert into seats values (?)", (seat,))
        self.times += 1
        self.begun.set()
        return self.times > 1

    def coroutine(self, *, finishes=False, **terms):
        @tool.transactional(**terms)
        async def book(seat: str, context: Context[sqlite3.Connection]) -> str:
            """Book a seat."""
            if not self.write(seat, context):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.ended.set()
                    if not finishes:
                        raise
            return f"booked {seat}"

        return book


@pytest.fixture
def booking():
    return Booking()


async def cancelled_once_begun(agent, booking):
    task = asyncio.create_task(agent.run_async("go", "run"))
    assert await asyncio.to_thread(booking.begun.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SECONDS)


def test_a_cancelled_driver_does_not_wait_for_a_coroutine_without_an_end(store, booking, tmp_path):
    agent = agent_of([BOOK, "Done."], [booking.coroutine()], store=store)
    asyncio.run(cancelled_once_begun(agent, booking))
    assert (booking.ended.is_set(), kinds(store)[-1], seats(tmp_path)) == (True, "intended", [])
    assert store.holder("run") is None
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert (seats(tmp_path), results(agent)) == (["1a"], [("booked 1a", False)])


def test_a_coroutine_that_finishes_while_it_is_cancelled_is_run_again(store, booking, tmp_path):
    agent = agent_of([BOOK, "Done."], [booking.coroutine(finishes=True)], store=store)
    asyncio.run(cancelled_once_begun(agent, booking))
    assert (kinds(store)[-1], seats(tmp_path)) == ("intended", [])
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert (seats(tmp_path), results(agent)) == (["1a"], [("booked 1a", False)])


def test_a_coroutine_that_cancels_itself_has_failed_and_left_nothing(store, tmp_path):
    @tool.transactional
    async def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        """Book a seat, and give up."""
        context.transaction.execute("insert into seats values (?)", (seat,))
        raise asyncio.CancelledError

    agent = agent_of([BOOK, "Done."], [book], store=store)
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert (seats(tmp_path), results(agent)) == ([], [("Failed: It was cancelled.", True)])


def test_a_coroutine_that_ran_out_of_time_in_its_transaction_is_cancelled(store, booking, tmp_path, monkeypatch):
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(booking.begun.is_set))
    agent = agent_of([BOOK, "Done."], [booking.coroutine(timeout=0.02)], store=store)
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    ((told, _),) = results(agent)
    assert (booking.ended.is_set(), seats(tmp_path), told.partition(":")[0]) == (True, [], "Failed")


def test_a_transaction_that_is_given_up_before_its_tool_begins_runs_nothing(store, booking, tmp_path):
    """Another connection holds the database; when it lets go, the cancelled driver's tool must not start."""

    async def go():
        with closing(sqlite3.connect(tmp_path / "mine.db", isolation_level=None)) as other:
            blocked = asyncio.Event()
            loop = asyncio.get_running_loop()

            def watch(event):
                if type(event).__name__ == "Transact":
                    other.execute("begin immediate")
                    loop.call_soon(blocked.set)

            task = asyncio.create_task(agent.run_async("go", "run", watch=watch))
            await blocked.wait()
            task.cancel()
            await asyncio.sleep(0)
            other.execute("rollback")
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, SECONDS)

    agent = agent_of([BOOK, "Done."], [booking.coroutine()], store=store)
    asyncio.run(go())
    assert (booking.times, kinds(store)[-1], store.holder("run")) == (0, "intended", None)
