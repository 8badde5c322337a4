"""Processes that are killed between the points at which a run is saved, and while it is being saved."""

from __future__ import annotations

import json
import os
import resource
import signal
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from cases.stage import Killed
from crash.checks import check, effects, is_its_own, results_told
from crash.plan import Plan, and_then, carry_out
from midstride import Agent, models, tool
from midstride.core.journal import Said, head_of
from midstride.errors import Damaged
from midstride.stores import open_store
from midstride.testing import Answer, calls
from midstride.testing.conformance import add, begin

EFFECTS = ["send", "pay", "post", "charge", "book", "wipe", "look"]
ONE_OF_EACH = [
    *(("sqlite", "blocking", task) for task in EFFECTS),
    ("sqlite", "async", "send"),
    ("sqlite", "async", "book"),
    ("checkpoint", "blocking", "send"),
    ("checkpoint", "async", "charge"),
    ("checkpoint", "async", "post"),
]
PLAYED = pytest.mark.parametrize(("store", "mode", "task"), ONE_OF_EACH, ids=lambda word: word)


def to_the_intent(task):
    """Return the append that holds the intent: behind an approval the next process's second one."""
    return {"wipe": 1}.get(task, 3)


def up_to(world, moment):
    """Let a process die at *moment*, with a person's yes where one is needed."""
    if world.task == "wipe":
        world.decide(world.live())
    world.die(moment)


def only_result(world):
    (told,) = results_told(world.bodies[-1].decode())
    return told


@PLAYED
def test_case_178_kill_between_a_and_start(store, mode, task, world_of):
    """The answer was saved and its tool not begun: no intent is proof of that, so it runs, once, as if nothing was."""
    world = world_of(task, store=store, mode=mode)
    up_to(world, "look 1 before" if task == "look" else f"append {to_the_intent(task)} before")
    assert world.outside.effects() == []
    result = world.finish()
    intended = [entry for entry in map(json.loads, result["journal"]) if entry["kind"] == "intended"]
    told = only_result(world)
    assert (result["status"], is_its_own(told), effects(world, told), len(intended)) == ("done", True, 1, 1)


@PLAYED
@pytest.mark.parametrize("moment", ["intended", "before", "after"])
def test_case_179_kill_after_intent_before_effect(store, mode, task, moment, world_of):
    """Around the effect nobody can tell: it is looked up, repeated with its own key, or told as unknown; never sent."""
    if task == "look":
        moment = "before" if moment == "intended" else moment  # a first read has no intent
    world = world_of(task, store=store, mode=mode)
    up_to(world, f"append {to_the_intent(task)} after" if moment == "intended" else f"{task} 1 {moment}")
    happened = task == "book" or world.outside.count(f"{task} 1")
    result = world.finish()
    told = only_result(world)
    assert result["status"] == "done"
    if task in ("send", "wipe"):
        assert told.is_error
        assert told.text.startswith(f'Outcome unknown: {task}({{"n": 1}}) may or may not have taken effect')
        assert effects(world, told) == happened
        assert world.moments.count(f"{task} 1 before") == (moment != "intended")
    elif task != "look":
        assert effects(world, told) == 1
        assert is_its_own(told) or told.text.startswith("Done: a person confirmed")
    keys = {one for one in world.outside.effects() if one.startswith("asked to charge")}
    assert len(keys) == (task == "charge")


@PLAYED
def test_case_180_kill_after_effect_before_b(store, mode, task, world_of):
    """The mail is out and its result not saved: there is one mail, and the next request is valid and keeps the call."""
    world = world_of(task, store=store, mode=mode)
    up_to(world, f"{task} 1 after")
    assert world.finish()["status"] == "done"
    told = only_result(world)  # the server has refused no request, and each call has its result behind it
    assert (told.name, told.input["n"]) == (task, 1)
    assert effects(world, told) == 1 or task == "look"


@PLAYED
def test_case_181_kill_after_ledger_before_b(store, mode, task, world_of):
    """The outcome was recorded, and the process died before the model was told: it is told that, and nothing runs."""
    world = world_of(task, store=store, mode=mode)
    recorded = {"look": "append 3 after", "book": "commit after", "wipe": "append 2 after"}.get(task, "append 4 after")
    up_to(world, recorded)
    begun = world.moments.count(f"{task} 1 before")
    result = world.finish()
    (settled,) = [entry for entry in map(json.loads, result["journal"]) if entry["kind"] == "settled"]
    told = only_result(world)
    assert (told.text, told.is_error, is_its_own(told)) == (settled["content"], False, True)
    assert world.moments.count(f"{task} 1 before") == begun == 1


# ---- within a save


def grown(store, words):
    """Append to the run from outside; return what it holds then."""
    add(store, head_of(store.read("run")), Said(words), token=None)
    return [entry.text for entry in store.read("run")]


def killed_by_the_kernel_at(url, size):
    """Save in a process that the kernel ends when a file of its would grow beyond *size* bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not matter to the child
        pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            grown(open_store(url), "new " * 100)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def sizes(url, path):
    """Return after how many bytes of which file to kill: of the next generation, or of what the log has grown by."""
    if url.startswith("checkpoint"):
        whole = path.stat().st_size + 2 * 600  # the entry stands in it twice: in the journal, and as a message
        return [1, 2, *range(61, whole, 97), *range(whole - 8, whole)]
    log = path.with_name("runs.db-wal").stat().st_size
    return [log + cut for cut in (0, 1, 23, 24, 25, 4096, *range(8000, 33_000, 1_033))]


def test_case_182_kill_during_save(url, folder):
    """The process died in the middle of writing: at whatever byte, the run is as it was before or after."""
    path = Path(url.partition(":")[2])
    with closing(open_store(url)) as store:
        begin(store)
        before = [entry.text for entry in store.read("run")]
        cuts = sizes(url, path)
    died = []
    for cut in cuts:
        died.append(killed_by_the_kernel_at(url, cut))
        with closing(open_store(url)) as store:
            found = [entry.text for entry in store.read("run")]
            assert found[: len(before)] == before
            assert len(found) - len(before) in (0, 1)
            before = found
    assert {-signal.SIGXFSZ, 0} >= set(died)
    assert died.count(-signal.SIGXFSZ) > 10
    with closing(open_store(url)) as store:
        assert grown(store, "and on")[: len(before)] == before
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


# ---- the power goes


DAMAGES = {
    "no bytes": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "a tail of zeros": lambda whole: whole[:-200] + bytes(200),
    "half": lambda whole: whole[: len(whole) // 2],
}


@tool
def send(to: str) -> str:
    """Send a mail."""
    raise AssertionError("nothing may be sent that may have been sent")


@pytest.mark.parametrize("url", ["checkpoint"], indirect=True)
@pytest.mark.parametrize("damage", DAMAGES)
def test_case_183_power_loss_after_rename(damage, url, stage, folder):
    """The name outlived a power cut and its bytes did not: refused by name, untouched, and the way out is said."""
    path = folder / "checkpoint.json"
    stage.says(calls(("send", {"to": "ann"}), ("send", {"to": "bob"})), Answer("Done."))
    stage.killed(send, watch=dies_behind_append_of("responded"))
    path.replace(folder / "checkpoint.json.prev")  # the generation before the one that the power cut took
    lost = DAMAGES[damage]((folder / "checkpoint.json.prev").read_bytes())
    path.write_bytes(lost)
    with pytest.raises(Damaged, match=r"checkpoint\.json\.prev: only an explicit import takes that one"):
        stage.run(send)
    assert path.read_bytes() == lost
    agent_of(stage).import_previous("run")
    assert (stage.run(send).status, (folder / "checkpoint.json.set-aside").read_bytes()) == ("done", lost)
    assert [content.split(":")[0] for content, _ in stage.results] == ["Outcome unknown"] * 2


def agent_of(stage):
    return Agent(models.Anthropic("claude-opus-5"), [send], store=stage.store)


def dies_behind_append_of(kind):
    def watch(event):
        if getattr(getattr(event, "body", None), "kind", "") == kind:
            raise Killed

    return watch


@pytest.mark.parametrize("url", ["checkpoint"], indirect=True)
def test_case_183_each_save_is_synced_before_and_behind_its_name(store, folder, monkeypatch):
    """A name may stand for data that is on disk and for no other: synced, named, and the name synced, each time."""
    begin(store)
    done = []

    def noted(name):
        real = getattr(os, name)

        def call(*arguments, **named):
            is_folder = name == "fsync" and os.readlink(f"/proc/self/fd/{arguments[0]}") == str(folder)
            done.append("fsync folder" if is_folder else name)
            return real(*arguments, **named)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "replace"):
        noted(name)
    grown(store, "once more")
    assert done == ["fsync", "replace", "replace", "fsync folder"]  # the first name is that of the one before


# ---- while a dead run is carried on


@pytest.mark.parametrize(
    ("store", "mode", "task"), [("sqlite", "blocking", "send"), ("checkpoint", "async", "look")], ids=lambda word: word
)
def test_case_184_kill_during_reconcile(store, mode, task, forks, server, folder):
    """Whoever carries the run on dies too, at each of its moments: each call has one result, no effect comes twice."""
    plan = Plan(store, mode, task, (f"{task} 1 after",))
    bare = Plan(store, mode, task)
    unkilled = carry_out(bare, bare.world(folder / "unkilled", server, forks))
    worlds = and_then(plan, plan.world(folder / "killed", server, forks), folder / "then")
    assert len(worlds) >= 5
    for world in worlds.values():
        check(world, unkilled)
        assert world.outside.count(f"{task} 1") == 1 or task == "look"
