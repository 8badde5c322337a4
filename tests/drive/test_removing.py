"""Runs that are removed: which ones may be, what is left of them, and that nothing of what they did is done again."""

import asyncio
from contextlib import closing

import pytest

from midstride import Agent, Limits, Run, Runs, models, tool
from midstride.core.journal import Said, head_of, seal
from midstride.errors import DeclarationError, Held, Moved, NotAllowed, Removed, UnknownRun
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore
from midstride.testing import SettableClock

SEND = [("send", {"to": "ann"})]
DAY = 86_400.0


class World:
    def __init__(self):
        self.sent = []

        @tool(in_doubt="ask")
        def send(to: str) -> str:
            self.sent.append(to)
            if to == "lost":
                raise OSError("the line broke")
            return f"sent to {to}"

        @tool
        def post(to: str) -> str:
            raise OSError("the line broke")

        @tool(approval=True)
        def pay(cents: int) -> str:
            self.sent.append(cents)
            return "paid"

        self.tools = [send, post, pay]


@pytest.fixture
def world():
    return World()


@pytest.fixture
def clock():
    return SettableClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    with closing(MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "runs.db")) as store:
        yield store


@pytest.fixture
def runs(store, clock):
    return Runs(store, clock=clock)


@pytest.fixture
def run(store, world, clock):
    """Run a script to its rest under an id."""

    def run(run_id, *script, **more):
        agent = Agent(models.Scripted(list(script)), tools=world.tools, store=store, clock=clock, **more)
        return agent.run("go", run_id)

    return run


def ids(found):
    return [one.id for one in found]


def test_only_runs_that_are_over_for_long_are_old(run, runs, clock):
    run("first", "Done.")
    clock.at += 10 * DAY
    run("second", "Done.")
    clock.at += DAY
    assert ids(runs.old(12 * DAY)) == []
    assert ids(runs.old(5 * DAY)) == ["first"]
    assert ids(runs.old(DAY / 2)) == ["first", "second"]
    (one,) = runs.old(5 * DAY)
    entries = runs.store.read("first")
    assert (one.entries, one.last, one.over, one.damage) == (len(entries), entries[-1].at, True, None)
    assert one.size == sum(len(entry.text) for entry in entries)


def test_a_run_that_somebody_has_to_look_into_or_carry_on_is_never_old(run, runs, store, world, clock):
    assert run("waiting", [("send", {"to": "lost"})], "Done.").status == "waiting"
    assert run("doubtful", [("post", {"to": "ann"})], "Done.").status == "done"
    assert run("approval", [("pay", {"cents": 5})], "Done.").status == "waiting"
    assert run("capped", SEND, "Done.", limits=Limits(turns=1)).status == "capped"
    with Run(store, "left", "go", clock=clock) as left:
        next(left)
    run("said", "Done.")
    runs.say("said", "and go on")
    clock.at += 1000 * DAY
    assert ids(runs.old(DAY)) == []
    runs.decide("doubtful", "toolu_1_0", "unknown")
    clock.at += 2 * DAY
    assert ids(runs.old(DAY)) == ["doubtful"]


def test_a_run_that_failed_or_was_called_off_is_old(run, runs, clock, store):
    run("capped", SEND, "Done.", limits=Limits(turns=1))
    runs.cancel("capped")
    clock.at += 2 * DAY
    assert ids(runs.old(DAY)) == ["capped"]


def test_a_run_that_a_living_process_holds_is_not_old(run, runs, store, clock):
    run("run", "Done.")
    clock.at += 2 * DAY
    lease = store.lease("run")
    assert ids(runs.old(DAY)) == []
    lease.release()
    assert ids(runs.old(DAY)) == ["run"]


def test_a_run_that_is_over_and_was_not_said_to_be_is_found(run, runs, store, clock):
    run("run", "Done.")
    runs.say("run", "and go on")
    entries = store.read("run")
    run("run", "Done.", "Done again.")
    assert len(store.read("run")) > len(entries)
    if isinstance(store, SqliteStore):
        with store._opened.writing_lock, store._opened.writing() as connection:
            connection.execute("update midstride_runs set ended = null")
        assert runs.unfinished() == ["run"]
    clock.at += 2 * DAY
    assert ids(runs.old(DAY)) == ["run"]


def test_the_newest_are_kept(run, runs, clock):
    for number in range(4):
        run(f"r{number}", "Done.")
    clock.at += 2 * DAY
    assert ids(runs.old(DAY, keep=3)) == ["r0"]
    assert ids(runs.old(DAY, keep=9)) == []


def test_the_same_program_under_a_removed_id_is_refused_and_does_nothing(run, runs, world, store):
    assert run("run", SEND, "Done.").status == "done"
    removed = runs.remove("run")
    assert (removed.id, removed.entries > 3, runs.ids()) == ("run", True, [])
    for _ in range(2):
        with pytest.raises(Removed, match=r"run 'run' was removed at .* UTC, and nothing is begun under its id again"):
            run("run", SEND, "Done.")
        runs.shrink()
    agent = Agent(models.Scripted([SEND, "Done."]), tools=world.tools, store=store)
    with pytest.raises(Removed):
        asyncio.run(agent.run_async("go", "run"))
    assert world.sent == ["ann"]


@pytest.mark.parametrize("act", ["get", "say", "cancel", "extend", "decide", "plan", "verify", "remove"])
def test_whoever_asks_for_a_removed_run_is_told_that_it_was_removed(run, runs, act):
    run("run", SEND, "Done.")
    runs.remove("run")
    more = {"say": ("word",), "decide": ("toolu_1_0", "allow")}.get(act, ())
    with pytest.raises(Removed, match="was removed at"):
        getattr(runs, act)("run", *more)


def test_a_forgotten_id_begins_anew(run, runs, world):
    run("run", SEND, "Done.")
    runs.remove("run")
    runs.forget("run")
    with pytest.raises(UnknownRun):
        runs.get("run")
    assert run("run", SEND, "Done again.").answer == "Done again."
    assert world.sent == ["ann", "ann"]


def test_only_a_removed_run_can_be_forgotten(run, runs):
    run("run", SEND, "Done.")
    with pytest.raises(NotAllowed, match="run 'run' is there: remove it first"):
        runs.forget("run")
    for act in (runs.forget, runs.remove):
        with pytest.raises(UnknownRun):
            act("nobody")
    assert runs.ids() == ["run"]


def test_a_named_run_is_removed_whatever_its_state(run, runs, world):
    run("waiting", [("send", {"to": "lost"})], "Done.")
    removed = runs.remove("waiting")
    assert ([call.id for call in removed.run.doubts], runs.ids(), runs.unfinished()) == (["toolu_1_0"], [], [])


def test_a_run_that_is_driven_is_not_removed(run, runs, store):
    run("run", "Done.")
    with Run(store, "other", "go") as other:
        next(other)
        with pytest.raises(Held):
            runs.remove("other")
    lease = store.lease("run")
    with pytest.raises(Held):
        runs.remove("run")
    lease.release()
    assert runs.ids() == ["run", "other"]


def test_a_run_that_went_on_since_it_was_seen_is_not_removed(run, runs, clock):
    run("run", "Done.")
    clock.at += 2 * DAY
    (seen,) = runs.old(DAY)
    runs.say("run", "and go on")
    with pytest.raises(Moved, match="went on to entry 5, behind entry 4: it was not removed"):
        runs.remove(seen)
    assert runs.status("run")[0] == "interrupted"


def test_a_named_run_that_goes_on_while_it_is_removed_is_removed_as_it_is_then(run, runs, store):
    run("run", "Done.")
    read, words = store.read, ["meanwhile"]

    def read_and_speak(run_id, after=0, limit=None):
        entries = read(run_id, after, limit)
        if words:
            store.append(run_id, seal([Said(words.pop())], head_of(entries), 0.0), token=None)
        return entries

    store.read = read_and_speak
    assert runs.remove("run").entries == 5


def test_a_damaged_run_is_left_unless_it_is_named(run, tmp_path, clock, world):
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        runs = Runs(store, clock=clock)
        Agent(models.Scripted([SEND, "Done."]), tools=world.tools, store=store, clock=clock).run("go", "run")
        with store._opened.writing_lock, store._opened.writing() as connection:
            connection.execute("update midstride_entries set body = 'x' where seq = 3")
        clock.at += 2 * DAY
        (found,) = runs.old(DAY)
        assert (found.over, found.run, found.entries, "entry 3" in found.damage) == (False, None, 2, True)
        assert runs.remove("run").damage == found.damage
        with pytest.raises(Removed):
            runs.get("run")


def test_a_store_of_one_run_is_refused(tmp_path):
    with closing(CheckpointStore(tmp_path / "checkpoint.json")) as store:
        Agent(models.Scripted(["Done."]), store=store).run("go", "run")
        runs = Runs(store)
        for act in (lambda: list(runs.old(0)), lambda: runs.remove("run")):
            with pytest.raises(DeclarationError, match="holds one run: delete the file"):
                act()
        assert runs.ids() == ["run"]
