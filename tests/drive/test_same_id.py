"""The same id is the same piece of work: it starts, carries on, or returns what is stored."""

import asyncio
import os
import threading

import pytest

from drive.scenes import Killed, agent_of, killed_at_start_of, kinds, results
from midstride import Agent, Limits, Runs, tool
from midstride.core.journal import Extended, Requested
from midstride.core.steps import Refused
from midstride.errors import AccessRefused, Held, InvalidTranscript, ModelUnavailable, TaskDiffers, UnknownRun
from midstride.models import Scripted
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing import SettableClock
from patience import SECONDS


@tool.read_only
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


READ, SEND = ("read", {"path": "a"}), ("send", {"to": "ann"})


@pytest.fixture
def store():
    return MemoryStore()


# ---- done


def test_a_finished_run_is_returned_without_a_request_an_entry_or_a_lease(drive, store):
    agent = agent_of(["Done."], store=store)
    first = drive(agent)
    before = len(store.read("run"))
    with_lease_elsewhere = store.lease("run")
    assert drive(agent) == first
    with_lease_elsewhere.release()
    assert (first.answer, len(agent.model.requests), len(store.read("run"))) == ("Done.", 1, before)


def test_a_finished_run_is_returned_from_the_disk_without_its_script(drive, tmp_path):
    url = f"sqlite:{tmp_path}/runs.db"
    drive(agent_of(["Done."], store=url))
    assert drive(agent_of([], store=url)).answer == "Done."


def test_other_limits_do_not_wake_a_finished_run(drive, store):
    drive(agent_of(["Done."], store=store))
    before = len(store.read("run"))
    drive(agent_of(["Done."], store=store, limits=Limits(turns=3)))
    assert len(store.read("run")) == before


def test_a_run_without_an_id_is_a_new_one_that_the_result_names(store):
    agent = agent_of(["Done.", "Done."], store=store)
    ids = [agent.run("go").id for _ in range(2)]
    assert len(set(ids)) == 2
    assert store.runs() == ids
    assert agent.run("go", ids[0]).answer == "Done."
    assert len(agent.model.requests) == 2


# ---- carried on


def test_a_run_that_was_killed_is_carried_on_from_where_it_was(drive, store):
    with pytest.raises(Killed):
        drive(agent_of([[READ], [SEND], "Done."], [read, send], store=store), watch=killed_at_start_of("send"))
    agent = agent_of([[READ], [SEND], "Done."], [read, send], store=store)
    result = drive(agent)
    assert (result.answer, result.turns, len(agent.model.requests)) == ("Done.", 3, 1)
    assert [is_error for _, is_error in results(agent)] == [False, True]


def test_a_run_is_resumed_without_its_task(store):
    with pytest.raises(Killed):
        agent_of([[SEND], "Done."], [send], store=store).run("go", "run", watch=killed_at_start_of("send"))
    agent = agent_of([[SEND], "Done."], [send], store=store)
    assert agent.resume("run").answer == "Done."
    assert asyncio.run(agent.resume_async("run")).answer == "Done."
    assert agent.model.requests[0]["messages"][0] == {"role": "user", "content": "go"}


def test_a_run_that_nobody_started_is_not_resumed_and_nothing_is_made(drive, tmp_path):
    agent = agent_of(["Done."], store=f"sqlite:{tmp_path}/runs.db")
    with pytest.raises(UnknownRun, match=r"there is no run 'run' in sqlite:.*: start it with its task"):
        drive(agent, task=None)
    with pytest.raises(UnknownRun):
        agent.resume("run")
    assert os.listdir(tmp_path) == []


def test_system_and_tools_are_those_the_run_began_with(drive, store):
    with pytest.raises(Killed):
        drive(agent_of([[SEND], "Done."], [send], store=store, system="One."), watch=killed_at_start_of("send"))
    agent = agent_of([[SEND], "Done."], [read, send], store=store, system="Two.")
    drive(agent)
    assert agent.model.requests[0]["system"] == "One."
    assert [each["name"] for each in agent.model.requests[0]["tools"]] == ["send"]


def test_a_run_that_another_thread_drives_is_held_and_named(drive, store):
    begun, go_on = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        begun.set()
        assert go_on.wait(SECONDS)
        return "waited"

    agent = agent_of([[("wait", {})], "Done."], [wait], store=store)
    driving = threading.Thread(target=lambda: agent.run("go", "run"))
    driving.start()
    assert begun.wait(SECONDS)
    with pytest.raises(Held, match="held by this very process"):
        drive(agent)
    go_on.set()
    driving.join()
    assert drive(agent).answer == "Done."


@pytest.mark.parametrize("error", [AccessRefused("no"), ModelUnavailable("no")], ids=["access", "unavailable"])
def test_a_model_that_could_not_be_reached_leaves_the_run_to_be_carried_on(drive, store, error):
    def away(request, number):
        raise error

    for _ in range(3):
        with pytest.raises(type(error)):
            drive(agent_of(away, store=store))
    assert drive(agent_of(["Done."], store=store)).answer == "Done."


# ---- another task


def test_another_task_under_a_known_id_shows_both_and_changes_nothing(drive, store):
    drive(agent_of(["Done."], store=store), task="mail the notes")
    before = len(store.read("run"))
    with pytest.raises(TaskDiffers) as caught:
        drive(agent_of(["Done."], store=store), task="mail the nodes")
    assert str(caught.value) == (
        "run 'run' is about another task: it was started with 'mail the notes', this program says 'mail the nodes'; "
        "use another id, or the first task to carry it on"
    )
    assert len(store.read("run")) == before


def test_long_tasks_that_differ_at_their_end_are_told_apart(drive, store):
    drive(agent_of(["Done."], store=store), task="x" * 5_000 + "a")
    with pytest.raises(TaskDiffers) as caught:
        drive(agent_of(["Done."], store=store), task="x" * 5_000 + "b")
    said = str(caught.value)
    assert len(said) < 600
    first, second = said.split("this program says")
    assert ("a'" in first, "b'" in second) == (True, True)


def test_a_task_of_blocks_is_the_same_task_after_it_was_stored(drive, tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    task = [{"type": "text", "text": "go"}]
    drive(agent_of(["Done."], store=store), task=task)
    assert drive(agent_of([], store=store), task=task).answer == "Done."
    store.close()


def test_a_request_that_would_be_invalid_is_never_sent(drive, store):
    agent = agent_of(["Done."], store=store)
    with pytest.raises(InvalidTranscript, match="the request was not sent: A12"):
        drive(agent, task=[{"type": "text", "text": " "}])
    assert agent.model.requests == []


# ---- limits


def test_a_limit_of_turns_holds_over_the_whole_life_of_the_run(drive, store):
    for _ in range(3):
        with pytest.raises(Killed):
            drive(agent_of(_always(READ), [read], store=store, limits=Limits(turns=2)), watch=_killed_at("responded"))
        if kinds(store).count("requested") == 2:
            break
    agent = agent_of(_always(READ), [read], store=store, limits=Limits(turns=2))
    result = drive(agent)
    assert (result.status, result.turns, agent.model.requests) == ("capped", 2, [])
    assert result.why == "2 requests were made, the limit is 2 turns"


def test_a_limit_of_tokens_counts_all_requests(drive, store):
    result = drive(agent_of(_always(READ), [read], store=store, limits=Limits(tokens=300)))
    assert (result.status, result.turns, result.tokens_used, result.tokens_total) == ("capped", 2, 210, 320)
    assert result.why == "320 tokens were used, the limit is 300"


def test_a_limit_of_seconds_counts_the_time_at_work_and_not_the_time_between(drive, store):
    clock = SettableClock()

    @tool.read_only
    def think() -> str:
        """Take ten seconds."""
        clock.at += 10
        return "thought"

    def capped(seconds):
        agent = agent_of(_always(("think", {})), [think], store=store, clock=clock, limits=Limits(seconds=seconds))
        return drive(agent)

    first = capped(25)
    clock.at += 1_000_000
    second = capped(45)
    assert [(first.status, first.seconds), (second.status, second.seconds)] == [("capped", 30), ("capped", 50)]
    assert first.why == "30 seconds were worked, the limit is 25"


def test_a_change_of_the_programs_limits_is_recorded_once(drive, store):
    for turns in (1, 1, 2, 2):
        drive(agent_of(_always(READ), [read], store=store, limits=Limits(turns=turns)))
    recorded = [e.body for e in store.read("run") if isinstance(e.body, Extended)]
    assert [(body.limits.turns, body.by) for body in recorded] == [(2, "program")]


def test_what_a_person_granted_is_not_undone_by_an_unchanged_program(drive, store):
    drive(agent_of(_always(READ), [read], store=store, limits=Limits(turns=1)))
    Runs(store).extend("run", turns=3)
    assert drive(agent_of(_always(READ), [read], store=store, limits=Limits(turns=1))).turns == 3
    assert drive(agent_of(_always(READ), [read], store=store, limits=Limits(turns=1))).turns == 3


def test_a_limit_of_nothing_is_no_limit(drive, store):
    script = [[("read", {"path": str(n)})] for n in range(50)]
    result = drive(agent_of([*script, "Done."], [read], store=store, limits=Limits(turns=None)))
    assert (result.status, result.turns) == ("done", 51)


def test_force_releases_a_run_that_failed(drive, store):
    drive(agent_of([Refused("no")], store=store))
    assert drive(agent_of(["Done."], store=store)).status == "failed"
    assert drive(agent_of(["Done."], store=store), force=True).answer == "Done."


def test_force_leaves_a_finished_run_as_it_is(drive, store):
    drive(agent_of(["Done."], store=store))
    agent = agent_of(["Again."], store=store)
    assert drive(agent, force=True).answer == "Done."
    assert agent.model.requests == []


# ---- a call that ends its process


def test_a_read_that_kills_its_process_is_tried_three_times_and_then_told_as_unknown(drive, store):
    @tool.read_only
    def parse(path: str) -> str:
        """Read a file that breaks the reader."""
        raise Killed

    script = [[("parse", {"path": "a"})], "Done."]
    for _ in range(3):
        with pytest.raises(Killed):
            drive(agent_of(script, [parse], store=store))
    agent = agent_of(script, [parse], store=store)
    assert drive(agent).answer == "Done."
    ((content, is_error),) = results(agent)
    assert is_error
    assert "each time it ended its process" in content


def test_a_run_that_dies_before_every_answer_is_held_and_force_carries_it_on(drive, store):
    def dies(request, number):
        raise Killed

    for _ in range(4):
        with pytest.raises(Killed):
            drive(agent_of(dies, store=store))
    agent = agent_of(["Done."], store=store)
    assert drive(agent).status == "held"
    assert agent.model.requests == []
    assert drive(agent, force=True).answer == "Done."


# ---- an agent


def test_an_agent_keeps_its_runs_in_the_default_store(tmp_path, monkeypatch):
    monkeypatch.delenv("MIDSTRIDE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert Agent(Scripted(["Done."])).run("go", "run").answer == "Done."
    assert (tmp_path / ".midstride" / "runs.db").exists()


def test_the_environment_names_another_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTRIDE_STORE", f"sqlite:{tmp_path}/mine.db")
    Agent(Scripted(["Done."])).run("go", "run")
    runs = Runs()
    assert runs.ids() == ["run"]
    runs.close()
    assert (tmp_path / "mine.db").exists()


def _always(named):
    """Return a model that calls the same tool for ever."""

    def answer(request, number):
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        block = {"type": "tool_use", "id": f"toolu_{turn}", "name": named[0], "input": named[1]}
        usage = {"input_tokens": 100 * (turn + 1), "output_tokens": 10}
        return {"role": "assistant", "content": [block], "stop_reason": "tool_use", "usage": usage}

    return answer


def _killed_at(kind):
    def watch(event):
        if getattr(getattr(event, "body", None), "kind", None) == kind:
            raise Killed

    return watch


def test_a_lost_response_was_paid_and_counts(drive, store):
    with pytest.raises(Killed):
        drive(agent_of(["Done."], store=store), watch=_killed_at("requested"))
    result = drive(agent_of(["Done."], store=store))
    assert (result.answer, result.turns) == ("Done.", 2)
    assert [e.body.params["model"] for e in store.read("run") if isinstance(e.body, Requested)] == ["scripted"] * 2
