"""Several processes at one run: names and locks that they share, and records that they write at once."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from cases.stage import forked
from midstride import Runs
from midstride.core.journal import Said, broken_link, head_of
from midstride.errors import Held
from midstride.stores import open_store
from midstride.stores.locks import lock_file_of
from midstride.testing.conformance import add, begin
from stores.places import at_once

WAYS = [("sqlite", "blocking"), ("checkpoint", "async")]
EACH_STORE = pytest.mark.parametrize(("store", "mode"), WAYS, ids=lambda word: word)
TIMES = 60


def test_case_228_shared_temporary_name(url):
    """Two processes save at once: whatever a third one sees is whole and somebody's, and no word is lost."""
    with closing(open_store(url)) as store:
        begin(store)

    def work():
        with closing(open_store(url)) as store:
            runs = Runs(store)
            for number in range(TIMES):
                runs.say("run", f"{os.getpid()} {number}", by=str(os.getpid()))
                assert broken_link(store.read("run")) is None
        return "said"

    assert at_once(2, work) == ["said", "said"]
    with closing(open_store(url)) as store:
        found = store.read("run")
    said = [entry.body.content.split() for entry in found if isinstance(entry.body, Said)]
    for speaker in {who for who, _ in said}:
        assert [int(number) for who, number in said if who == speaker] == list(range(TIMES))
    assert (len(said), broken_link(found)) == (2 * TIMES, None)


@EACH_STORE
@pytest.mark.parametrize("left", ["a living process", "no number", "nothing"])
def test_case_229_pid_reused(store, mode, left, world_of):
    """A lock file names a living process that is none of ours: the kernel knows who holds a lock: nobody."""
    world = world_of("send", store=store, mode=mode)
    world.die("append 2 after")
    lock = lock_file_of(Path(world.url.partition(":")[2]))
    assert lock.exists()
    lock.write_bytes({"a living process": f"{os.getppid()}\n".encode(), "no number": b"\xff?", "nothing": b""}[left])
    assert (world.live()["status"], world.outside.effects()) == ("done", ["send 1"])


@EACH_STORE
def test_case_230_lock_after_kill(store, mode, world_of):
    """Killed while it held the lock: the next process has it at once, with a higher token, and nothing is deleted."""
    world = world_of("send", store=store, mode=mode)
    lock = lock_file_of(Path(world.url.partition(":")[2]))
    for moment in ("append 1 after", "append 1 after", "stop 1"):
        world.die(moment)
        assert lock.exists()
    result = world.live()
    tokens = [entry["token"] for entry in map(json.loads, result["journal"]) if entry["kind"] == "taken"]
    assert (result["status"], tokens) == ("done", [1, 2, 3, 4])


def test_case_230_a_lock_that_is_held_is_not_taken_over(url):
    """What frees a lock is the death of its holder and nothing else: a living one keeps it, also without its file."""
    with closing(open_store(url)) as store:
        begin(store)
        lease = store.lease("run")

        def refused():
            with closing(open_store(url)) as other, pytest.raises(Held):
                other.lease("run")

        assert forked(refused) == 0
        lease.release()


BIG = "x" * 700_000


def test_case_233_large_record_in_two_writes(url):
    """A record of 700 kB and small ones are written at once, and the writer is killed: every record is whole."""
    with closing(open_store(url)) as store:
        begin(store)
    for _ in range(4):
        with closing(open_store(url)) as store:
            before = len(store.read("run"))
        large = writer_of(BIG, url)
        with closing(open_store(url)) as store:
            for number in range(3):
                Runs(store).say("run", f"small {number}")
            until = time.monotonic() + 120
            while BIG not in [entry.body.content for entry in store.read("run")[before:] if entry.body.kind == "said"]:
                assert time.monotonic() < until, "no large record came"
        os.kill(large, signal.SIGKILL)
        os.waitpid(large, 0)
        with closing(open_store(url)) as store:
            found = store.read("run")
            assert broken_link(found) is None
            words = {entry.body.content for entry in found if isinstance(entry.body, Said)}
            assert words == {BIG, "small 0", "small 1", "small 2"}
            add(store, head_of(found), Said("small 0"), token=None)


def writer_of(words, url):
    """Start a process that says *words* ten times, unless it is killed before; return its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        runs = Runs(open_store(url))
        for _ in range(10):
            runs.say("run", words)
        signal.pause()
    finally:
        os._exit(1)
