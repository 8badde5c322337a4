"""Deeds that were done twice: by a retry, under a new key, by two workers, by a queue, or by trust in a name."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cases.stage import Killed
from midstride import Context, DidNotHappen, Happened, Runs, tool
from midstride.core.steps import Start
from midstride.errors import Held, MidstrideError
from midstride.testing import Answer, calls

STORES = pytest.mark.parametrize("store", ["sqlite", "checkpoint"])
HELD = 3


def starts(name):
    """Return a watch that kills the process when the intent of a call is saved and its tool not begun."""

    def watch(event):
        if isinstance(event, Start) and event.call.name == name:
            raise Killed

    return watch


class Jobs:
    """A service that makes jobs: its answer is lost, or comes too late."""

    def __init__(self):
        self.made, self.asked, self.free = [], [], threading.Event()
        self.has_made = threading.Event()

    def make(self, name, key, how):
        self.asked.append(key)
        if how == "late" and len(self.asked) == 1:
            self.made.append(name)
            self.has_made.set()
            assert self.free.wait(60)
        elif how == "lost" and len(self.asked) == 1:
            self.made.append(name)
            raise TimeoutError("the read operation timed out")
        elif key not in self.asked[:-1]:
            self.made.append(name)
        return f"made {name}"


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.free.set()


def create_job(jobs, how, effect, timeout):
    declare = {
        "unsafe": tool(timeout=timeout),
        "idempotent": tool.idempotent(key_life=3600, timeout=timeout),
        "verifiable": tool.verifiable(timeout=timeout),
    }[effect]

    @declare
    def create_job(name: str, context: Context) -> str:
        return jobs.make(name, context.key, how)

    if effect == "verifiable":

        @create_job.verify
        def find_job(name: str) -> Happened | DidNotHappen:
            return Happened(f"made {name}") if name in jobs.made else DidNotHappen("no such job")

    return create_job


@pytest.mark.parametrize("effect", ["unsafe", "idempotent", "verifiable"])
@pytest.mark.parametrize("how", ["lost", "late"])
def test_case_188_timeout_then_retry_creates_twice(how, effect, jobs, stage):
    """The client gave up and the service had made the job: a timeout is no failure, and nothing makes a second one."""
    made = create_job(jobs, how, effect, timeout=0.05 if how == "late" else 30)
    stage.says(calls(("create_job", {"name": "nightly"})), Answer("Done."))
    assert stage.run(made).status == "done"
    assert how == "lost" or jobs.has_made.wait(60)  # its thread may begin when its time is over
    assert jobs.made == ["nightly"]
    ((content, is_error),) = stage.results
    if effect == "unsafe" or how == "late":  # what still runs in a thread is neither repeated nor looked up
        assert (is_error, content.split(":")[0]) == (True, "Outcome unknown")
        assert len(jobs.asked) == 1
    else:
        assert (content, is_error) == ("made nightly", False)
        assert len(set(jobs.asked)) == 1


@pytest.mark.parametrize("lost", ["raised", "killed"])
@pytest.mark.parametrize("in_doubt", ["report", "ask"])
def test_case_189_model_mints_new_key(lost, in_doubt, stage):
    """The model fills in a key and invents another one for the second try: what is the same deed the program says."""
    paid = []

    @tool(key=lambda amount: amount, in_doubt=in_doubt)
    def pay(amount: int, key: str) -> str:
        paid.append(amount)
        raise Killed if lost == "killed" else OSError("the line broke")

    first, second = ("pay", {"amount": 5, "key": "k-aaa"}), ("pay", {"amount": 5, "key": "k-bbb"})
    stage.says(calls(first), calls(second), Answer("Done."))
    if lost == "killed":
        stage.killed(pay)
    result = stage.run(pay)
    if in_doubt == "ask":
        assert (result.status, [call.id for call in result.doubts]) == ("waiting", ["toolu_0_0"])
        Runs(stage.store).decide("run", "toolu_0_0", "unknown")
        result = stage.run(pay)
    assert (result.status, paid) == ("done", [5])
    (_, (content, is_error)) = stage.results
    assert is_error
    assert content.startswith("Not started: the same deed was asked for before, by call toolu_0_0 of turn 1")
    assert "its outcome is unknown: a person must decide" in content


def test_case_189_the_key_of_a_request_is_none_of_the_model_s(stage):
    """An idempotent tool sends the call's own key: the same for each attempt, whatever the model wrote into it."""
    keys = []

    @tool.idempotent(key_life=3600)
    def pay(amount: int, key: str, context: Context) -> str:
        keys.append(context.key)
        raise OSError("the line broke")

    stage.says(calls(("pay", {"amount": 5, "key": "k-aaa"})), Answer("Done."))
    stage.run(pay)
    assert (len(keys), len(set(keys)), "k-aaa" in keys) == (3, 1, False)


@STORES
@pytest.mark.parametrize("task", ["charge", "send"])
def test_case_192_claim_not_first_write(store, task, world_of, gate_of):
    """Two workers carried one run on: the lease and the intent come before the deed, and the loser does nothing."""
    world = world_of(task, store=store)
    world.die("append 2 after")
    gate = gate_of(world)
    pair = {p.name: p for p in (world.start({"start": "hold", f"{task} 1 before": "hold"}) for _ in range(2))}
    assert {gate.arrived() for _ in pair} == {f"{name} start" for name in pair}
    gate.open(2, "start")
    winner = pair.pop(gate.arrived().removesuffix(f" {task} 1 before"))
    (loser,) = pair.values()
    assert (loser.wait(), world.outside.effects()) == (HELD, [])
    gate.open()
    assert winner.wait() == 0
    requests = len(world.bodies)
    assert world.live()["status"] == "done"  # the loser, run again, takes the recorded result
    assert (world.outside.count(f"{task} 1"), len(world.bodies)) == (1, requests)


@pytest.mark.parametrize("hours", [23, 72])
@pytest.mark.parametrize("in_doubt", ["report", "ask"])
def test_case_193_key_retention_expired(hours, in_doubt, stage):
    """The service forgets keys after a day: what died before is repeated within that day, and never behind it."""
    keys = []

    @tool.idempotent(key_life=24 * 3600, timeout=60, in_doubt=in_doubt)
    def charge(cents: int, context: Context) -> str:
        keys.append(context.key)
        if len(keys) == 1:
            raise Killed
        return "charged"

    stage.says(calls(("charge", {"cents": 5})), Answer("Done."))
    stage.killed(charge)
    stage.clock.at += hours * 3600
    result = stage.run(charge)
    if hours == 23:
        assert (result.status, len(keys), len(set(keys)), stage.results) == ("done", 2, 1, [("charged", False)])
        return
    assert len(keys) == 1
    if in_doubt == "ask":
        assert (result.status, [call.id for call in result.doubts]) == ("waiting", ["toolu_0_0"])
    else:
        ((content, is_error),) = stage.results
        assert (is_error, "Its idempotency key is too old to be repeated safely." in content) == (True, True)


@STORES
@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("moment", ["append 5 after", "stop 2", "send 1 after"])
def test_case_195_queue_redelivery(store, mode, moment, world_of):
    """A message was delivered again because the worker died before it said thanks: its id is the run's, and done once.

    The queue delivers it three times; the answer of the later ones is the recorded one.
    """
    world = world_of("send", store=store, mode=mode)
    world.die(moment)
    answers = [world.live() for _ in range(3)]
    assert [answer["status"] for answer in answers] == ["done"] * 3
    assert len({answer["answer"] for answer in answers}) == 1
    assert answers[0]["journal"] == answers[2]["journal"]
    assert world.outside.effects() == ["send 1"]


def test_case_195_a_redelivery_while_the_first_is_worked_on(stage):
    """The queue lost patience and delivers again while the work goes on: the second worker is refused."""
    at_work, may_end, paid = threading.Event(), threading.Event(), []

    @tool
    def pay(amount: int) -> str:
        paid.append(amount)
        at_work.set()
        assert may_end.wait(60)
        return "paid"

    stage.says(calls(("pay", {"amount": 5})), Answer("Done."))
    first = threading.Thread(target=stage.run, args=(pay,), kwargs={"id": "m1"})
    first.start()
    try:
        assert at_work.wait(60)
        with pytest.raises(Held):
            stage.run(pay, id="m1")
    finally:
        may_end.set()
        first.join()
    assert (stage.run(pay, id="m1").answer, paid) == ("Done.", [5])


@pytest.mark.parametrize("name", ["bash", "read_file", "list_folder", "get_status"])
@pytest.mark.parametrize("softened", [False, True], ids=["same program", "softer program"])
def test_case_197_read_only_by_name(name, softened, stage):
    """A tool's name sounds like a read: what counts is its declaration, as it was when the call was recorded."""
    ran = []

    def work(command: str) -> str:
        ran.append(command)
        raise Killed

    stage.says(calls((name, {"command": "rm -r build"})), Answer("Done."))
    stage.killed(tool(name=name)(work))
    later = tool.read_only(name=name)(work) if softened else tool(name=name)(work)
    assert stage.run(later).status == "done"
    ((content, is_error),) = stage.results
    assert (ran, is_error, content.split(":")[0]) == (["rm -r build"], True, "Outcome unknown")


def test_case_197_a_read_that_has_become_an_effect_is_not_rerun(stage):
    """The declaration was wrong and has been set right since: the call that began as a read is not run as an effect."""
    ran = []

    def bash(command: str) -> str:
        ran.append(command)
        raise Killed

    stage.says(calls(("bash", {"command": "rm -r build"})), Answer("Done."))
    stage.killed(tool.read_only(bash))
    assert stage.run(tool(bash)).status == "done"
    assert (ran, stage.results[0][1]) == (["rm -r build"], True)


@pytest.mark.parametrize("one_answer", [True, False], ids=["one answer", "two answers"])
def test_case_199_compensate_or_not(one_answer, stage):
    """A seat is reserved, and whether it was paid nobody knows: both is told as it is, and nothing is undone."""
    done = []

    @tool
    def reserve(seat: str) -> str:
        done.append("reserve")
        return f"reserved {seat}"

    @tool
    def charge(cents: int) -> str:
        done.append("charge")
        raise Killed

    @tool
    def release(seat: str) -> str:
        done.append("release")
        return "released"

    both = [("reserve", {"seat": "4A"}), ("charge", {"cents": 5})]
    stage.says(*([calls(*both)] if one_answer else [calls(both[0]), calls(both[1])]), Answer("Ask the office."))
    stage.killed(reserve, charge, release)
    assert stage.run(reserve, charge, release).answer == "Ask the office."
    (reserved, (charged, is_error)) = stage.results
    assert (reserved, is_error, charged.split(":")[0]) == (("reserved 4A", False), True, "Outcome unknown")
    assert done == ["reserve", "charge"]


GONE = {
    "a folder in its place": lambda path: path.mkdir(),
    "no bytes": lambda path: path.touch(),
    "something else": lambda path: path.write_bytes(b"<html>502 Bad Gateway</html>" * 400),
}


@pytest.mark.parametrize("fault", GONE)
def test_case_200_ledger_unreadable_means_safe(fault, stage, url):
    """The ledger cannot be read: that is no "not found". Nothing runs until it can, and then the truth is told."""
    sent = []

    @tool
    def send_mail(to: str) -> str:
        sent.append(to)
        raise Killed

    stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
    stage.killed(send_mail)
    stage.store.close()
    away = moved_away(Path(url.partition(":")[2]))
    GONE[fault](Path(url.partition(":")[2]))
    for _ in range(2):
        with pytest.raises(MidstrideError) as caught:
            stage.run(send_mail)
        assert "not found" not in str(caught.value)
    stage.store.close()
    back(Path(url.partition(":")[2]), away)
    assert (sent, len(stage.server.requests)) == (["ann"], 1)
    assert stage.run(send_mail).status == "done"
    ((content, is_error),) = stage.results
    assert (sent, is_error, content.split(":")[0]) == (["ann"], True, "Outcome unknown")


def moved_away(path):
    """Take the store's files away, all but the lock; return where they are."""
    away = path.parent / "away"
    away.mkdir()
    for name in os.listdir(path.parent):
        if name.startswith(path.name) and not name.endswith(".lock"):
            os.rename(path.parent / name, away / name)
    return away


def back(path, away):
    """Put them back."""
    for name in os.listdir(path.parent):
        if name.startswith(path.name) and not name.endswith(".lock"):
            found = path.parent / name
            found.rmdir() if found.is_dir() and not found.is_symlink() else found.unlink()
    for name in os.listdir(away):
        os.rename(away / name, path.parent / name)
