"""Transactional tools: their writes and their result are one commit, or nothing of them is left."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from drive.scenes import Killed, agent_of, killed_at_start_of, kinds, results
from midstride import Context, DidNotHappen, Runs, tool
from midstride.core.steps import Transact
from midstride.stores import SqliteStore
from patience import SECONDS
from standing import Standing

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "mine.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table seats (name text primary key, row integer references rows deferrable initially deferred);"
            "create table rows (number integer primary key);"
        )
    return path


@pytest.fixture
def store(path):
    with closing(SqliteStore(path)) as store:
        yield store


def seats(path):
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("select name from seats order by name")]


@tool.transactional
def book(seat: str, context: Context[sqlite3.Connection]) -> str:
    """Book a seat; some names misbehave behind the insert."""
    ran.append(seat)
    context.transaction.execute("insert into seats (name) values (?)", (seat,))
    match seat:
        case "raises":
            raise OSError("no more paper")
        case "commits":
            context.transaction.commit()
        case "commits in sql":
            context.transaction.execute("commit")
        case "in no row":
            context.transaction.execute("update seats set row = 7")
        case "not at all":
            raise DidNotHappen("the house is full")
        case "killed" if ran.count(seat) == 1:
            raise Killed
    return f"booked {seat}"


def agent(store, *names, tools=(book,)):
    return agent_of([[("book", {"seat": name}) for name in names], "Done."], list(tools), store=store)


def test_writes_and_result_are_committed_together(drive, store, path):
    booking = agent(store, "1a", "1b")
    drive(booking)
    assert seats(path) == ["1a", "1b"]
    assert results(booking) == [("booked 1a", False), ("booked 1b", False)]
    assert kinds(store)[3:8] == ["responded", "intended", "settled", "intended", "settled"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "Failed: It raised OSError: no more paper."),
        ("commits", "Failed: It raised ProgrammingError: a transactional tool may neither commit nor roll back"),
        ("commits in sql", "Failed: It raised DatabaseError: not authorized."),
        ("in no row", "Failed: It raised IntegrityError: FOREIGN KEY constraint failed."),
        ("not at all", "Failed: it did not happen. the house is full"),
    ],
)
def test_what_goes_wrong_rolls_back_and_is_a_definite_failure(drive, store, path, name, said):
    booking = agent(store, name, "1b")
    drive(booking)
    (first, _), (second, _) = results(booking)
    assert first.startswith(said)
    assert second.startswith("Not started: ")
    assert (seats(path), ran) == ([], [name])


def test_a_seat_that_is_taken_is_the_tools_failure_and_the_run_goes_on(drive, store, path):
    booking = agent(store, "1a")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("insert into seats (name) values ('1a')")
    drive(booking)
    assert results(booking) == [("Failed: It raised IntegrityError: UNIQUE constraint failed: seats.name.", True)]


def test_a_process_that_dies_in_the_transaction_leaves_nothing_and_the_next_one_runs_it(drive, store, path):
    booking = agent(store, "killed")
    with pytest.raises(Killed):
        drive(booking)
    assert (seats(path), kinds(store)[-1]) == ([], "intended")
    drive(booking)
    assert (seats(path), results(booking)) == (["killed"], [("booked killed", False)])


def test_a_process_that_dies_before_the_transaction_books_once_later(drive, store, path):
    booking = agent(store, "1a")
    with pytest.raises(Killed):
        drive(booking, watch=killed_at_start_of("book"))
    drive(booking)
    assert (seats(path), ran) == (["1a"], ["1a"])


def test_what_is_said_before_the_commit_rolls_back_and_the_result_is_not_appended_twice(drive, store, path):
    def interfere(event):
        if isinstance(event, Transact) and not ran:
            Runs(store).say("run", "Hurry up.")

    booking = agent(store, "1a")
    drive(booking, watch=interfere)
    assert (seats(path), ran) == (["1a"], ["1a", "1a"])
    assert kinds(store).count("settled") == 1
    assert booking.model.requests[1]["messages"][-1] == {"role": "user", "content": "Hurry up."}


def test_a_run_that_is_cancelled_before_the_commit_books_nothing(drive, store, path):
    def cancel(event):
        if isinstance(event, Transact):
            Runs(store).cancel("run")

    assert drive(agent(store, "1a"), watch=cancel).status == "cancelled"
    assert seats(path) == []


def test_a_coroutine_tool_books_in_the_transaction_too(drive, store, path):
    @tool.transactional
    async def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        """Book a seat."""
        await asyncio.sleep(0)
        context.transaction.execute("insert into seats (name) values (?)", (seat,))
        if seat == "raises":
            raise OSError
        return "booked"

    booking = agent(store, "1a", "raises", tools=[book])
    drive(booking)
    assert seats(path) == ["1a"]
    assert results(booking) == [("booked", False), ("Failed: It raised OSError.", True)]


def test_a_driver_that_is_cancelled_in_a_transaction_lets_it_end(store, path):
    begun, go_on = threading.Event(), threading.Event()

    @tool.transactional
    def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        """Book a seat when told."""
        ran.append(seat)
        context.transaction.execute("insert into seats (name) values (?)", (seat,))
        begun.set()
        assert go_on.wait(SECONDS)
        return "booked"

    booking = agent(store, "1a", tools=[book])

    async def go():
        task = asyncio.create_task(booking.run_async("go", "run"))
        await asyncio.to_thread(begun.wait, SECONDS)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert (seats(path), kinds(store)[-1]) == (["1a"], "settled")
    booking.run("go", "run")
    assert (results(booking), ran) == ([("booked", False)], ["1a"])


def test_a_tool_that_hangs_in_its_transaction_is_cut_off_and_writes_nothing_more(drive, store, path, monkeypatch):
    written, gate, refused = threading.Event(), threading.Event(), []
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(written.is_set))

    @tool.transactional(timeout=0.02)
    def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        """Book a seat, and hang."""
        context.transaction.execute("insert into seats (name) values (?)", (seat,))
        written.set()
        gate.wait(SECONDS)
        try:
            context.transaction.execute("insert into seats (name) values ('zombie')")
        except sqlite3.Error as error:
            refused.append(type(error))
        return "booked"

    booking = agent(store, "1a", tools=[book])
    drive(booking)
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "midstride book":
            thread.join(SECONDS)
    assert results(booking) == [("Failed: It did not end within 0.02 s. It is still running.", True)]
    assert (seats(path), refused) == ([], [sqlite3.ProgrammingError])
