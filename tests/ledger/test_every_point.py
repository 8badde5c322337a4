"""A call dies at every point of its way, and again at every point of each recovery; then its maker asks once more."""

import asyncio
import itertools
import os
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from midstride import CannotTell, Context, DidNotHappen, Happened, InDoubt, Ledger, tool
from midstride.core.fold import fold
from midstride.core.journal import broken_link
from midstride.errors import ToolFailed
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing import Killed, Process, SettableClock

EFFECTS = ("look", "charge", "book", "post", "guess", "send", "refuse", "mail")


@dataclass
class World:
    """The tools, and what they did outside of every process."""

    folder: object
    done: Counter = field(default_factory=Counter)
    begun: int = 0
    memory: MemoryStore = field(default_factory=MemoryStore)

    def store(self):
        """The journals, opened for one process."""
        return self.memory

    def count(self):
        """How often the deed took effect."""
        return sum(self.done.values())

    def tool(self, name):
        return getattr(self, name)()

    def look(self):
        @tool.read_only
        def look() -> str:
            self.begun += 1
            return "done"

        return look

    def charge(self):
        @tool.idempotent(key_life=10**6)
        def charge(context: Context) -> str:
            self.begun += 1
            self.done[context.key] = 1
            return "done"

        return charge

    def book(self):
        @tool.transactional
        def book(context: Context) -> str:
            self.begun += 1
            context.transaction.execute("create table if not exists seats (n)")
            context.transaction.execute("insert into seats values (1)")
            return "done"

        return book

    def post(self, answer=None):
        @tool.verifiable(timeout=5, settle=1)
        def post() -> str:
            self.begun += 1
            self.done["post"] += 1
            return "done"

        @post.verify
        def find() -> Happened | DidNotHappen | CannotTell:
            return answer or (Happened("done") if self.done else DidNotHappen())

        return post

    def guess(self):
        return self.post(CannotTell("busy"))

    def send(self, **options):
        @tool(**options)
        def send() -> str:
            self.begun += 1
            self.done["send"] += 1
            return "done"

        return send

    def mail(self):
        return self.send(key=lambda: "the deed")

    def refuse(self):
        @tool
        def refuse() -> str:
            self.begun += 1
            raise DidNotHappen("not now")

        return refuse


class BookWorld(World):
    """The seats stand in the journals' own database: they commit together."""

    def store(self):
        return SqliteStore(self.folder / "calls.db")

    def count(self):
        with closing(sqlite3.connect(self.folder / "calls.db")) as connection:
            there = connection.execute("select 1 from sqlite_master where name = 'seats'").fetchall()
            return connection.execute("select count(*) from seats").fetchone()[0] if there else 0


class Trial:
    """One world, in which processes make the same call one after the other."""

    def __init__(self, effect, driver, folder):
        self.world = (BookWorld if effect == "book" else World)(folder)
        self.effect, self.driver, self.clock = effect, driver, SettableClock()
        self.points = []

    def process(self, at=None, call_id="c1"):
        """Run one process; return what its maker got, None when it died. `points` are those that it reached."""
        process = Process(self.world.store(), self.clock, at)
        (made,) = process.tools([self.world.tool(self.effect)])
        ledger = Ledger(process.store, clock=process.clock)
        try:
            return self.made(ledger, made, call_id)
        except Killed:
            if process.fuse.died_at is None:
                raise
            return None
        finally:
            process.end()
            process.clean_up()
            self.points = process.fuse.points
            self.died = process.fuse.died_at is not None

    def made(self, ledger, made, call_id):
        try:
            if self.driver == "async":
                return asyncio.run(ledger.once_async(made, call_id, {}, scope="t"))
            return ledger.once(made, call_id, {}, scope="t")
        except (InDoubt, ToolFailed) as told:
            return told

    def journal(self):
        store = self.world.store()
        try:
            return store.read("t/c1")
        finally:
            store.close()

    def judge(self):
        """Ask once more, and hold what is said against what is true."""
        given = self.process()
        begun, count = self.world.begun, self.world.count()
        entries = self.journal()
        assert broken_link(entries) is None
        assert fold(entries).state == "done"
        intended = sum(entry.body.kind == "intended" for entry in entries)
        if isinstance(given, InDoubt):
            assert self.effect in ("send", "guess", "mail", "refuse")
            assert count <= 1
            assert intended == 1
            assert str(given).startswith("Outcome unknown: ")
        elif self.effect == "refuse":
            assert isinstance(given, ToolFailed)
        else:
            assert given == "done"
            assert count == (0 if self.effect == "look" else 1)
        again = self.process()
        assert (str(again), type(again)) == (str(given), type(given))
        assert (self.world.begun, self.journal()) == (begun, entries)
        if self.effect == "mail":
            self.judge_another_id(given, begun)

    def judge_another_id(self, given, begun):
        other = self.process(call_id="c2")
        assert self.world.begun == begun
        assert isinstance(other, InDoubt) == isinstance(given, InDoubt)
        assert isinstance(other, InDoubt) or other.startswith("Already done")


def folders(above):
    for number in itertools.count():
        folder = above / str(number)
        folder.mkdir()
        yield folder


@pytest.fixture
def fresh():
    """New folders, in memory where there is one: who dies in thought loses nothing that it wrote."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as above:
        yield folders(Path(above))


@pytest.mark.parametrize("driver", ["blocking", "async"])
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_call_that_dies_anywhere_is_made_once_or_told_as_unknown(effect, driver, fresh):
    whole = Trial(effect, driver, next(fresh))
    whole.process()
    points = whole.points
    whole.judge()
    assert {"take before", "append 1 before", "append 1 after", "release"} <= set(points)
    for point in points:
        trial = Trial(effect, driver, next(fresh))
        trial.process(point)
        if not trial.died:  # a read that ends as soon as it is begun is saved with its beginning: one append, not two
            assert (effect, point.startswith("append 2")) == ("look", True)
            continue
        trial.judge()


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_call_that_dies_again_while_it_recovers_is_made_once_or_told_as_unknown(effect, fresh):
    whole = Trial(effect, "blocking", next(fresh))
    whole.process()
    for point in whole.points:
        recovery = Trial(effect, "blocking", next(fresh))
        recovery.process(point)
        recovery.process()
        for second in recovery.points[:: 3 if effect == "book" else 1]:  # a database takes its time
            pair = Trial(effect, "blocking", next(fresh))
            pair.process(point)
            pair.process(second)
            pair.judge()
