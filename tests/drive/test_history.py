"""A journal of any length is read in pages, and what is told of it is what reading it whole tells."""

import tracemalloc
from contextlib import closing

import pytest

from midstride import Agent, Runs, models, tool
from midstride.core.journal import Said, head_of, seal
from midstride.drive import history as module
from midstride.drive.history import History, entries_of
from midstride.errors import Damaged
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing.conformance import AT, begin


@tool.read_only
def look() -> str:
    """Look."""
    return "seen"


class Damaging(MemoryStore):
    """A store whose journals are damaged behind an entry."""

    behind = 1_000

    def read(self, run_id, after=0, limit=None):
        found = super().read(run_id, after, limit)
        whole = [entry for entry in found if entry.seq <= self.behind]
        if whole != found:
            raise Damaged(f"entry {self.behind + 1} is not as it was written", whole=whole)
        return found


def a_run(store):
    agent = Agent(models.Scripted([[("look", {})], [("look", {})], "Done."]), [look], store=store)
    assert agent.run("Look twice.", "run").status == "done"
    Runs(store).say("run", "And now?")
    return store


@pytest.mark.parametrize("page", range(1, 14))
def test_a_history_that_is_read_in_pages_is_the_one_that_is_read_at_once(page, monkeypatch):
    monkeypatch.setattr(module, "PAGE", page)
    store = a_run(MemoryStore())
    whole = store.read("run")
    assert list(entries_of(store, "run")) == whole
    assert list(entries_of(store, "run", 4)) == whole[4:]
    found = History.read(store, "run")
    assert found == History.of(whole)
    assert [entry.body.kind for entry in found.others] == ["said"]
    assert found.own.head.seq == len(whole) - 1


@pytest.mark.parametrize("page", [1, 2, 5, 6, 100])
def test_what_is_before_a_damage_comes_first(page, monkeypatch):
    monkeypatch.setattr(module, "PAGE", page)
    store = a_run(Damaging())
    store.behind = 5
    found = []
    with pytest.raises(Damaged, match="entry 6 is not as it was written"):
        collect(store, found)
    assert found == [1, 2, 3, 4, 5]
    verdict = Runs(store).verify("run")
    assert (verdict.entries, verdict.damage) == (5, "entry 6 is not as it was written")


def collect(store, found):
    for entry in entries_of(store, "run"):
        found.append(entry.seq)  # one by one, so that what came before an error is kept


def test_a_journal_of_40_megabytes_is_read_in_twelve(tmp_path):
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        head = begin(store)
        for _ in range(20):
            entries = seal([Said("x" * 20_000)] * 100, head, AT)
            store.append("run", entries, token=1)
            head = head_of(entries)
        tracemalloc.start()
        count = sum(1 for _ in entries_of(store, "run"))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert count == 2_003
    assert peak < 12e6
