"""What a resume must not lose: which run it is, whole entries, what was counted, where it is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cases.stage import Killed
from midstride import Limits, Runs, tool
from midstride.core.journal import Said
from midstride.errors import AccessRefused, Damaged, TaskDiffers, UnknownRun
from midstride.stores import open_store
from midstride.testing import Answer, Fail, calls
from midstride.testing.conformance import add, begin

SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
CHECKPOINT = pytest.mark.parametrize("url", ["checkpoint"], indirect=True)


def dies_at(kind):
    def watch(event):
        if getattr(getattr(event, "body", None), "kind", "") == kind:
            raise Killed

    return watch


@SQLITE
def test_case_252_wrong_session_continued(stage):
    """Another run was touched last: a run is carried on by its id alone, and one id never stands for two tasks."""
    stage.says(lambda body, number: Answer(f"About {body['messages'][0]['content']}."))
    stage.killed(task="main", id="main", watch=dies_at("requested"))
    stage.run(task="sub-agent", id="sub")
    assert stage.run(task="main", id="main").answer == "About main."
    with pytest.raises(TaskDiffers):
        stage.run(task="main", id="sub")
    assert Runs(stage.store).ids() == ["main", "sub"]


@SQLITE
@pytest.mark.parametrize("gone", [1, 2, 6, 9])
def test_case_253_broken_parent_chain(gone, url):
    """One record is missing: the gap is named, nothing behind it is read as if it followed, and nothing is changed."""
    with closing(open_store(url)) as store:
        head = begin(store)
        for number in range(7):
            head = add(store, head, Said(str(number)), token=None)
    with closing(sqlite3.connect(url.partition(":")[2])) as connection, connection:
        connection.execute("delete from midstride_entries where seq = ?", (gone,))
    with closing(open_store(url)) as store:
        with pytest.raises(Damaged, match=f"run 'run' in .*: entry {gone} is missing"):
            store.read("run")
        with pytest.raises(Damaged):
            Runs(store).say("run", "and on")
    with closing(sqlite3.connect(url.partition(":")[2])) as connection:
        assert connection.execute("select count(*) from midstride_entries").fetchone() == (9,)


@CHECKPOINT
@pytest.mark.parametrize("gone", [1, 6, 10])
def test_case_253_broken_parent_chain_in_a_file(gone, url):
    """The same in a checkpoint file, also for its last record."""
    with closing(open_store(url)) as store:
        head = begin(store)
        for number in range(7):
            head = add(store, head, Said(str(number)), token=None)
    path = Path(url.partition(":")[2])
    lines = path.read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if '\\"seq\\":1,' in line)
    del lines[first + gone - 1]
    path.write_text("".join(lines).replace("],\n    ]", "]\n    ]"))
    before = path.read_bytes()
    with closing(open_store(url)) as store, pytest.raises(Damaged, match="holds 9 entries where its length says 10"):
        store.read("run")
    assert path.read_bytes() == before


@pytest.mark.parametrize("store", ["sqlite", "checkpoint"])
@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_case_254_counters_reset(store, mode, world_of):
    """A task with a limit of ten requests is killed every three turns: what counts is the run's, not a process's."""
    world = world_of("endless", store=store, mode=mode, turns=10)
    for _ in range(3):
        world.die("stop 3")
    results = [world.live() for _ in range(3)]
    assert [(result["status"], result["turns"]) for result in results] == [("capped", 10)] * 3
    assert len(world.bodies) == 10


def test_case_256_environment_changed_credentials(stage):
    """The key is not good any more when the run is carried on: a clear stop, no effect, and a new key goes on."""
    sent = []

    @tool
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    stage.says(
        [calls(("send", {"to": "ann"}))], [Fail(401, "authentication_error", "invalid x-api-key"), Answer("Done.")]
    )
    with pytest.raises(AccessRefused, match="set it right and run again"):
        stage.run(send)
    assert (stage.run(send).answer, sent) == ("Done.", ["ann"])


def test_case_256_environment_changed_folder(stage, folder, monkeypatch):
    """The program is somewhere else now: a run that is to be carried on is not begun anew there, and that is said."""
    stage.says(calls(("look", {"at": "x"})), Answer("Done."))

    @tool.read_only
    def look(at: str) -> str:
        os.chdir(folder / "elsewhere")
        return "seen"

    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder)
    form, name = stage.store.url.partition(":")[0], Path(stage.store.url.partition(":")[2]).name
    with closing(open_store(f"{form}:{name}")) as relative:
        real, stage.store = stage.store, relative
        assert stage.run(look).status == "done"  # a tool that changes the folder moves no journal
        stage.store = real
    assert (stage.run(look).status, os.listdir(folder / "elsewhere")) == ("done", [])
    with closing(open_store(f"{form}:{name}")) as other:
        stage.store = other
        with pytest.raises(UnknownRun, match="there is no run 'run' in"):
            stage.run(look, task=None)
        stage.store = real
    assert os.listdir(folder / "elsewhere") == []


@pytest.mark.parametrize("what", ["tool gone", "file gone"])
def test_case_256_environment_changed_tools(what, stage, folder):
    """What the pending call needs is gone: it is told to the model as it is, and nothing else runs in its place."""
    (folder / "notes.md").write_text("notes")

    @tool.read_only
    def read_file(name: str) -> str:
        return (folder / name).read_text()

    stage.says(calls(("read_file", {"name": "notes.md"})), Answer("Done."))
    stage.killed(read_file, watch=dies_at("responded"))
    (folder / "notes.md").unlink()
    assert stage.run(*([] if what == "tool gone" else [read_file]), limits=Limits()).status == "done"
    ((content, is_error),) = stage.results
    assert is_error
    wanted = "Failed: the tool read_file is not there any more." if what == "tool gone" else "FileNotFoundError"
    assert wanted in content
