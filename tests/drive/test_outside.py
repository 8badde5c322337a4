"""What anybody may do to a run from outside, while it is driven or not: look, say, decide, cancel, extend."""

import threading

import pytest

from drive.scenes import Killed, agent_of, kinds, results
from midstride import Limits, Runs, tool
from midstride.core.journal import Cancelled, Decided, Extended, Said
from midstride.core.moves import Request, Rest
from midstride.core.steps import Start
from midstride.errors import NotAllowed, UnknownRun
from midstride.stores import MemoryStore, SqliteStore

SEND = [("send", {"to": "ann"})]
sent: list[str] = []


@pytest.fixture(autouse=True)
def nothing_sent():
    sent.clear()


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request, tmp_path):
    store = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "runs.db")
    yield store
    store.close()


@pytest.fixture
def runs(store):
    return Runs(store)


@tool
def send(to: str) -> str:
    """Send a letter."""
    sent.append(to)
    if to == "lost":
        raise OSError("the line broke")
    return f"sent to {to}"


def once(kind, act):
    """Return a watch that acts when an entry of *kind* is saved, or a tool starts, for the first time."""
    pending = [act]

    def watch(event):
        found = "start" if isinstance(event, Start) else getattr(getattr(event, "body", None), "kind", None)
        if found == kind and pending:
            pending.pop()()

    return watch


# ---- looking


def test_a_run_is_seen_as_its_journal_has_it(drive, store, runs):
    drive(agent_of([SEND, "Done."], [send], store=store))
    run = runs.get("run")
    assert (runs.ids(), run.answer, run.turns) == (["run"], "Done.", 2)
    assert runs.plan("run") == Rest("done", "the model has given its final answer")


def test_a_plan_says_what_comes_next_and_does_nothing(drive, store, runs):
    with pytest.raises(Killed):
        drive(agent_of([SEND, "Done."], [send], store=store), watch=_killed_at("requested"))
    before = kinds(store)
    assert isinstance(runs.plan("run"), Request)
    assert kinds(store) == before


def _killed_at(kind):
    def die():
        raise Killed

    return once(kind, die)


@pytest.mark.parametrize(
    "act",
    [
        lambda runs: runs.get("nix"),
        lambda runs: runs.plan("nix"),
        lambda runs: runs.doubts("nix"),
        lambda runs: runs.decide("nix", "toolu_1_0", "allow"),
        lambda runs: runs.say("nix", "hello"),
        lambda runs: runs.cancel("nix"),
        lambda runs: runs.extend("nix", turns=3),
    ],
)
def test_a_run_that_is_not_there_is_named_with_its_store(store, runs, act):
    with pytest.raises(UnknownRun, match=f"there is no run 'nix' in {store.url}"):
        act(runs)
    assert runs.ids() == []


# ---- saying


def test_what_is_said_to_a_finished_run_is_answered_when_it_is_next_driven(drive, store, runs):
    drive(agent_of(["Done."], store=store))
    runs.say("run", "And now?", by="ann")
    agent = agent_of(["Done.", "Well."], store=store)
    assert drive(agent).answer == "Well."
    assert agent.model.requests[0]["messages"][-1] == {"role": "user", "content": "And now?"}


def test_what_is_said_while_the_model_speaks_comes_behind_its_answer(drive, store, runs):
    agent = agent_of([SEND, "Done."], [send], store=store)
    drive(agent, watch=once("requested", lambda: runs.say("run", "Hurry.")))
    assert [m["role"] for m in agent.model.requests[1]["messages"]] == ["user", "assistant", "user", "user"]
    assert agent.model.requests[1]["messages"][-1]["content"] == "Hurry."


def test_a_word_that_comes_behind_the_last_request_is_answered_too(drive, store, runs):
    agent = agent_of(["Done.", "All right."], store=store)
    assert drive(agent, watch=once("requested", lambda: runs.say("run", "Wait!"))).answer == "All right."


def test_what_is_said_while_a_tool_runs_comes_behind_its_result(drive, store, runs):
    agent = agent_of([SEND, "Done."], [send], store=store)
    drive(agent, watch=once("start", lambda: runs.say("run", "Hurry.")))
    assert [m["content"] for m in agent.model.requests[1]["messages"]][-1] == "Hurry."
    assert sent == ["ann"]


@pytest.mark.parametrize("nothing", ["", "  \n", None, []])
def test_nothing_cannot_be_said(drive, store, runs, nothing):
    drive(agent_of(["Done."], store=store))
    with pytest.raises(NotAllowed, match="nothing was said: wanted some text"):
        runs.say("run", nothing)


def test_a_cancelled_run_is_not_spoken_to(drive, store, runs):
    drive(agent_of(["Done."], store=store), id="other")
    with pytest.raises(Killed):
        drive(agent_of(["Done."], store=store), watch=_killed_at("requested"))
    runs.cancel("run")
    with pytest.raises(NotAllowed, match="a run that is cancelled has no room for 'said'; nothing was written"):
        runs.say("run", "Hello?")


# ---- cancelling


def test_a_run_that_is_cancelled_while_a_tool_runs_keeps_its_real_result_and_starts_nothing_new(drive, store, runs):
    agent = agent_of([[*SEND, ("send", {"to": "bob"})], "Done."], [send], store=store)
    result = drive(agent, watch=once("start", lambda: runs.cancel("run", "enough", by="ann")))
    assert (result.status, result.why, sent) == ("cancelled", "enough", ["ann"])
    outcomes = [e.body.outcome for e in store.read("run") if e.body.kind == "settled"]
    assert outcomes == ["ok", "not started"]
    assert len(agent.model.requests) == 1


def test_a_cancelled_run_stays_cancelled(drive, store, runs):
    with pytest.raises(Killed):
        drive(agent_of(["Done."], store=store), watch=_killed_at("requested"))
    runs.cancel("run")
    agent = agent_of(["Done."], store=store)
    assert [drive(agent, force=force).status for force in (False, True)] == ["cancelled", "cancelled"]
    assert agent.model.requests == []


def test_a_finished_run_is_not_cancelled(drive, store, runs):
    drive(agent_of(["Done."], store=store))
    with pytest.raises(NotAllowed, match="a run that is done has no room for 'cancelled'"):
        runs.cancel("run")


def test_a_run_that_was_killed_in_a_tool_and_then_cancelled_reports_it_as_unknown(drive, store, runs):
    def die():
        raise Killed

    with pytest.raises(Killed):
        drive(agent_of([SEND, "Done."], [send], store=store), watch=once("start", die))
    runs.cancel("run")
    result = drive(agent_of([SEND, "Done."], [send], store=store))
    assert (result.status, [call.id for call in result.doubts], sent) == ("cancelled", ["toolu_1_0"], [])


# ---- deciding


def test_a_decision_while_the_run_is_live_is_told_with_the_next_request(drive, store, runs):
    def script(request, number):
        if number == 1:
            runs.decide("run", "toolu_1_0", "happened", "It is in her box.", by="ann")
        return [[("send", {"to": "lost"})], [("send", {"to": "bob"})], "Done."][number]

    agent = agent_of(script, [send], store=store)
    drive(agent)
    told = agent.model.requests[2]["messages"][-1]["content"]
    assert told.startswith('About the earlier call send({"to": "lost"}) with id toolu_1_0, whose outcome was unknown: ')
    assert told.endswith("ann reports that it took effect. It is in her box.")
    assert agent.model.requests[2]["messages"][:3] == agent.model.requests[1]["messages"]


def test_a_decision_about_a_finished_run_does_not_wake_it(drive, store, runs):
    agent = agent_of([[("send", {"to": "lost"})], "Done."], [send], store=store)
    drive(agent)
    assert [call.id for call in runs.doubts("run")] == ["toolu_1_0"]
    runs.decide("run", "toolu_1_0", "deny")
    assert (runs.doubts("run"), drive(agent).answer, len(agent.model.requests)) == ([], "Done.", 2)


@pytest.mark.parametrize(
    ("call", "verdict", "said"),
    [
        ("toolu_1_0", "yes", "'yes' is no verdict: wanted one of allow, deny, happened, unknown"),
        ("toolu_2_0", "allow", "call toolu_2_0 needs no decision: it is settled"),
        ("toolu_9_9", "allow", "the run has no call toolu_9_9 to decide about; in doubt: toolu_1_0"),
    ],
)
def test_a_decision_that_nobody_asked_for_is_refused(drive, store, runs, call, verdict, said):
    drive(agent_of([[("send", {"to": "lost"})], SEND, "Done."], [send], store=store))
    before = kinds(store)
    with pytest.raises(NotAllowed, match=said):
        runs.decide("run", call, verdict)
    assert kinds(store) == before


def test_a_call_is_decided_once(drive, store, runs):
    drive(agent_of([[("send", {"to": "lost"})], "Done."], [send], store=store))
    runs.decide("run", "toolu_1_0", "happened")
    with pytest.raises(NotAllowed, match="call toolu_1_0 needs no decision: it is settled unknown, decided happened"):
        runs.decide("run", "toolu_1_0", "deny")


# ---- extending


def test_a_capped_run_goes_on_when_it_is_extended(drive, store, runs):
    agent = agent_of([SEND, "Done."], [send], store=store, limits=Limits(turns=1))
    assert drive(agent).status == "capped"
    runs.extend("run", turns=5, by="ann")
    assert drive(agent).answer == "Done."
    assert [(e.body.limits, e.body.by) for e in store.read("run") if isinstance(e.body, Extended)] == [
        (Limits(turns=5), "ann")
    ]


def test_extending_one_limit_leaves_the_others(drive, store, runs):
    drive(agent_of([SEND, "Done."], [send], store=store, limits=Limits(turns=1, tokens=1000, seconds=60)))
    assert runs.extend("run", tokens=9).limits == Limits(turns=1, tokens=9, seconds=60)


# ---- several at once


def test_words_from_many_threads_are_all_heard(drive, store, runs):
    def all_at_once():
        threads = [threading.Thread(target=runs.say, args=("run", f"word {n}")) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    agent = agent_of([SEND, "Done."], [send], store=store)
    drive(agent, watch=once("start", all_at_once))
    said = [m["content"] for m in agent.model.requests[1]["messages"][3:]]
    assert sorted(said) == [f"word {n}" for n in range(8)]
    assert len([e for e in store.read("run") if isinstance(e.body, Said)]) == 8


def test_what_comes_between_any_two_entries_is_taken_in(drive, store, runs):
    for kind in ("started", "responded", "intended", "settled"):
        agent = agent_of([SEND, "Done.", "Done."], [send], store=store)
        result = drive(agent, id=kind, watch=once(kind, lambda kind=kind: runs.say(kind, "Hm.")))
        assert (result.answer, results(agent)) == ("Done.", [("sent to ann", False)])
    assert sent == ["ann"] * 4
    kept = (Said, Decided, Cancelled)
    assert [len([e for e in store.read(kind) if isinstance(e.body, kept)]) for kind in runs.ids()] == [1, 1, 1, 1]
