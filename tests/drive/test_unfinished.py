"""A call whose attempt left no result: what its effect says is done about it."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from drive.scenes import Killed, agent_of, killed_at_start_of, kinds, results
from midstride import CannotTell, Context, DidNotHappen, Happened, Runs, tool
from midstride.core.journal import Recorded
from midstride.core.run import Call
from midstride.core.steps import LookUp
from midstride.drive.calls import Calls
from midstride.errors import NotAllowed
from midstride.stores import MemoryStore
from midstride.testing import SettableClock
from midstride.tools import Toolbox
from patience import SECONDS
from standing import Standing

SEND = [("send", {"to": "ann"})]


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def clock():
    return SettableClock()


class World:
    """What a tool does to it, and how: each way is taken by one attempt, the last one by all further."""

    def __init__(self):
        self.attempts, self.sent, self.ways = [], [], ["ok"]

    def act(self, to, context):
        self.attempts.append((context.attempt, context.key))
        way = self.ways[min(len(self.attempts), len(self.ways)) - 1]
        if way in ("ok", "lost", "killed behind"):
            self.sent.append(to)
        match way:
            case "lost" | "broken":
                raise OSError("the line broke")
            case "killed" | "killed behind":
                raise Killed
            case "did not happen":
                raise DidNotHappen("no stamps")
        return f"sent to {to}"


@pytest.fixture
def world():
    return World()


def sender(world, declare):
    @declare
    def send(to: str, context: Context) -> str:
        """Send a letter."""
        return world.act(to, context)

    return send


# ---- unsafe


def test_an_unsafe_call_is_never_run_a_second_time(drive, store, world):
    world.ways = ["killed behind"]
    agent = agent_of([SEND, "Done."], [sender(world, tool)], store=store)
    with pytest.raises(Killed):
        drive(agent)
    drive(agent)
    ((content, is_error),) = results(agent)
    assert (world.sent, is_error) == (["ann"], True)
    assert content == (
        'Outcome unknown: send({"to": "ann"}) may or may not have taken effect (it started 2026-09-21 14:13:20 UTC). '
        "Its process ended before the result was recorded. Nothing tells whether it took effect. It was not run again. "
        "Do not assume either outcome and do not simply repeat it: check in another way whether it took effect, or ask "
        "a person."
    )


def test_an_unsafe_call_that_says_it_did_not_happen_has_definitely_failed(drive, store, world):
    world.ways = ["did not happen"]
    agent = agent_of([SEND, "Done."], [sender(world, tool)], store=store)
    drive(agent)
    assert results(agent) == [("Failed: it did not happen. no stamps", True)]


# ---- a person is asked


def asking(store, world, drive):
    """Let the call die and its run wait for a person."""
    world.ways = ["killed", "ok"]
    agent = agent_of([SEND, "Done."], [sender(world, tool(in_doubt="ask"))], store=store)
    with pytest.raises(Killed):
        drive(agent)
    result = drive(agent)
    assert (result.status, [call.id for call in result.doubts]) == ("waiting", ["toolu_1_0"])
    assert 'toolu_1_0 send({"to": "ann"}) (asking doubt)' in result.why
    return agent


@pytest.mark.parametrize(
    ("verdict", "content", "is_error", "sent"),
    [
        ("allow", "sent to ann", False, ["ann"]),
        ("happened", "Done: a person confirmed that this call took effect. I saw it.", False, []),
        ("unknown", "Outcome unknown: a person looked and cannot tell whether this call took effect.", True, []),
        ("deny", "Outcome unknown: a person decided that this call is not to be run again; it may", True, []),
    ],
)
def test_a_persons_word_is_carried_out(drive, store, world, verdict, content, is_error, sent):
    agent = asking(store, world, drive)
    Runs(store).decide("run", "toolu_1_0", verdict, "I saw it.", by="ann")
    assert drive(agent).answer == "Done."
    ((told, is_told_error),) = results(agent)
    assert told.startswith(content)
    assert (is_told_error, world.sent) == (is_error, sent)


def test_a_run_that_waits_stays_as_it_is_until_somebody_decides(drive, store, world):
    agent = asking(store, world, drive)
    before = kinds(store)
    assert drive(agent).status == "waiting"
    assert (kinds(store), agent.model.requests[1:]) == (before, [])


def test_a_permission_is_spent_by_one_attempt(drive, store, world):
    agent = asking(store, world, drive)
    world.ways = ["killed"]
    Runs(store).decide("run", "toolu_1_0", "allow")
    with pytest.raises(Killed):
        drive(agent)
    assert drive(agent).status == "waiting"
    with pytest.raises(NotAllowed, match="no call toolu_9_9 to decide about; in doubt: toolu_1_0"):
        Runs(store).decide("run", "toolu_9_9", "allow")


# ---- idempotent


def test_an_idempotent_call_is_repeated_with_the_same_key(drive, store, world):
    world.ways = ["lost", "killed", "ok"]
    agent = agent_of([SEND, "Done."], [sender(world, tool.idempotent(key_life=60))], store=store)
    with pytest.raises(Killed):
        drive(agent)
    drive(agent)
    assert results(agent) == [("sent to ann", False)]
    assert [number for number, _ in world.attempts] == [1, 2, 3]
    assert len({key for _, key in world.attempts}) == 1


def test_after_three_attempts_an_idempotent_call_is_unknown(drive, store, world):
    world.ways = ["broken"]
    agent = agent_of([SEND, "Done."], [sender(world, tool.idempotent(key_life=60))], store=store)
    drive(agent)
    ((content, _),) = results(agent)
    assert len(world.attempts) == 3
    assert "It was tried 3 times with the same idempotency key." in content


@pytest.mark.parametrize(("later", "attempts"), [(49, 2), (50, 1), (51, 1)])
def test_a_key_is_repeated_while_the_attempt_can_end_within_its_life(drive, store, clock, world, later, attempts):
    world.ways = ["killed", "ok"]
    declared = tool.idempotent(key_life=timedelta(minutes=1), timeout=10)
    agent = agent_of([SEND, "Done."], [sender(world, declared)], store=store, clock=clock)
    with pytest.raises(Killed):
        drive(agent)
    clock.at += later
    drive(agent)
    ((content, _),) = results(agent)
    assert len(world.attempts) == attempts
    assert ("Its idempotency key is too old to be repeated safely." in content) is (attempts == 1)


def test_no_two_calls_have_one_key(drive, store, world):
    declared = sender(world, tool.idempotent(key_life=60))
    for run_id in ("one", "two"):
        drive(agent_of([SEND + SEND, SEND, "Done."], [declared], store=store), id=run_id)
    assert len({key for _, key in world.attempts}) == 6


# ---- verifiable


def verifiable(world, look, *, timeout=30, settle=5):
    send = sender(world, tool.verifiable(timeout=timeout, settle=settle))
    send.verify(look)
    return send


def looked_up(drive, store, world, look, *ways, **terms):
    """Drive a run whose call goes the *ways*; return what the model is told of it."""
    world.ways = list(ways)
    agent = agent_of([SEND, "Done."], [verifiable(world, look, **terms)], store=store)
    assert drive(agent).answer == "Done."
    ((content, is_error),) = results(agent)
    return content, is_error


def test_what_a_look_finds_is_the_result(drive, store, world):
    def find(to: str):
        return Happened(f"found it at {to}'s") if world.sent else DidNotHappen()

    assert looked_up(drive, store, world, find, "lost") == ("found it at ann's", False)
    assert world.sent == ["ann"]


def test_what_a_look_does_not_find_is_run_again(drive, store, world):
    def find(to: str):
        return Happened("found") if world.sent else DidNotHappen("not there")

    assert looked_up(drive, store, world, find, "broken", "ok") == ("sent to ann", False)
    assert world.sent == ["ann"]


def test_a_look_may_also_raise_that_it_did_not_happen(drive, store, world):
    def find():
        raise DidNotHappen("not there")

    assert looked_up(drive, store, world, find, "broken", "ok") == ("sent to ann", False)


def test_after_three_attempts_that_were_not_found_it_is_unknown(drive, store, world):
    content, _ = looked_up(drive, store, world, lambda: DidNotHappen(), "broken")
    assert len(world.attempts) == 3
    assert "It was looked up and not found, but 3 attempts ended badly." in content


def raises():
    raise ConnectionError("no route")


CANNOT = "It was looked up, which did not tell whether it happened. "


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (lambda: CannotTell("The office is closed."), "The office is closed."),
        (raises, "Its verify raised ConnectionError: no route."),
        (lambda: "yes", "Its verify returned str, wanted Happened, DidNotHappen or CannotTell."),
        (lambda: None, "Its verify returned NoneType, wanted Happened, DidNotHappen or CannotTell."),
        (lambda: Happened, "Its verify returned type, wanted Happened, DidNotHappen or CannotTell."),
    ],
    ids=["cannot tell", "raises", "text", "none", "class"],
)
@pytest.mark.parametrize("form", ["plain", "coroutine"])
def test_a_look_that_does_not_tell_leaves_the_call_unknown(drive, store, world, look, why, form):
    async def coroutine():
        return look()

    content, is_error = looked_up(drive, store, world, look if form == "plain" else coroutine, "lost")
    assert (len(world.attempts), is_error) == (1, True)
    assert CANNOT + why in content


@pytest.fixture
def looking(monkeypatch):
    """Set by a look when it begins: before that nothing runs out of time, the tool before it neither."""
    looking = threading.Event()
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(looking.is_set))
    return looking


def test_a_look_that_hangs_cannot_tell(drive, store, world, looking):
    gate = threading.Event()

    def find():
        looking.set()
        return gate.wait(SECONDS) and CannotTell()

    content, _ = looked_up(drive, store, world, find, "lost", timeout=0.02)
    gate.set()
    assert f"{CANNOT}It did not end within 0.02 s." in content


def test_a_coroutine_look_that_hangs_cannot_tell(store, world, looking):
    async def find():
        looking.set()
        await asyncio.Event().wait()

    world.ways = ["lost"]
    agent = agent_of([SEND, "Done."], [verifiable(world, find, timeout=0.02)], store=store)
    asyncio.run(agent.run_async("go", "run"))
    assert f"{CANNOT}Its verify did not end within 0.02 s." in results(agent)[0][0]


def test_a_look_waits_until_the_effect_can_no_longer_come(drive, store, clock, world):
    looked_at = []

    def find():
        looked_at.append(clock.now())
        return Happened("found")

    world.ways = ["lost"]
    agent = agent_of([SEND, "Done."], [verifiable(world, find, settle=7)], store=store, clock=clock)
    begun = clock.now()
    drive(agent)
    assert (looked_at, clock.waits) == ([begun + 7], [7])


def test_after_a_death_the_time_to_settle_counts_from_the_next_take_up(drive, store, clock, world):
    looked_at = []

    def find():
        looked_at.append(clock.now())
        return Happened("found")

    world.ways = ["killed behind"]
    agent = agent_of([SEND, "Done."], [verifiable(world, find, settle=7)], store=store, clock=clock)
    with pytest.raises(Killed):
        drive(agent)
    clock.at += 100
    taken_up = clock.now()
    drive(agent)
    assert looked_at == [taken_up + 7]
    assert results(agent) == [("found", False)]


def test_a_process_that_dies_while_it_looks_looks_again(drive, store, world):
    def die_at_the_look(event):
        if isinstance(event, LookUp):
            raise Killed

    world.ways = ["lost"]
    agent = agent_of([SEND, "Done."], [verifiable(world, lambda: Happened("found"))], store=store)
    with pytest.raises(Killed):
        drive(agent, watch=die_at_the_look)
    drive(agent)
    assert (results(agent), world.sent) == ([("found", False)], ["ann"])


def test_a_look_is_told_the_key_of_the_attempt(drive, store, world):
    keys = []

    def find(context: Context):
        keys.append(context.key)
        return Happened("found")

    looked_up(drive, store, world, find, "lost")
    assert keys == [key for _, key in world.attempts]


# ---- the same deed under a new id


def mailer(world, **terms):
    return sender(world, tool(key=lambda to: to, **terms))


def test_a_deed_that_is_done_is_not_done_again_under_a_new_id(drive, store, world):
    agent = agent_of([SEND, SEND, "Done."], [mailer(world)], store=store)
    drive(agent)
    (_, (content, is_error)) = results(agent)
    assert (world.sent, is_error) == (["ann"], False)
    assert content[0]["text"].startswith("Already done: the same deed was done by call toolu_1_0 of turn 1 at 2026-")
    assert content[1] == {"type": "text", "text": "sent to ann"}


def test_another_deed_has_a_key_of_its_own(drive, store, world):
    drive(agent_of([SEND, [("send", {"to": "bob"})], "Done."], [mailer(world)], store=store))
    assert world.sent == ["ann", "bob"]


def test_the_same_deed_twice_in_one_answer_is_done_once(drive, store, world):
    agent = agent_of([SEND + SEND, "Done."], [mailer(world)], store=store)
    drive(agent)
    assert world.sent == ["ann"]
    assert [is_error for _, is_error in results(agent)] == [False, False]


def test_a_deed_in_doubt_is_not_begun_again(drive, store, world):
    world.ways = ["lost", "ok"]
    agent = agent_of([SEND, SEND, "Done."], [mailer(world)], store=store)
    drive(agent)
    (_, (content, is_error)) = results(agent)
    assert (world.sent, is_error) == (["ann"], True)
    assert content.startswith("Not started: the same deed was asked for before, by call toolu_1_0 of turn 1")
    assert "its outcome is unknown: a person must decide" in content


@pytest.mark.parametrize(
    ("verdict", "sent", "said"),
    [
        ("allow", ["bob", "ann"], "sent to ann"),
        ("deny", ["bob"], "a person has decided that it is not to be done again"),
        ("unknown", ["bob"], "a person has decided that it is not to be done again"),
        ("happened", ["bob"], "Already done: "),
    ],
)
def test_what_a_person_decided_about_a_deed_counts_for_the_next_one(drive, store, world, verdict, sent, said):
    def script(request, number):
        if number == 2:
            Runs(store).decide("run", "toolu_1_0", verdict, "I know.")
        return [SEND, [("send", {"to": "bob"})], SEND, "Done."][number]

    world.ways = ["broken", "ok"]
    agent = agent_of(script, [mailer(world)], store=store)
    drive(agent)
    assert world.sent == sent
    assert said in str(results(agent)[2][0])


def test_a_deed_that_did_not_happen_is_free(drive, store, world):
    world.ways = ["did not happen", "ok"]
    agent = agent_of([SEND, SEND, "Done."], [mailer(world)], store=store)
    drive(agent)
    assert (world.sent, results(agent)[1]) == (["ann"], ("sent to ann", False))


def test_a_deed_in_doubt_that_can_be_looked_up_is_looked_up(drive, store, world):
    answers = [CannotTell("not yet"), Happened("found")]
    send = sender(world, tool.verifiable(timeout=30, key=lambda to: to))
    send.verify(lambda: answers.pop(0))
    world.ways = ["lost", "ok"]
    agent = agent_of([SEND, SEND, "Done."], [send], store=store)
    drive(agent)
    assert (world.sent, results(agent)[1][1]) == (["ann"], False)
    assert results(agent)[1][0][1] == {"type": "text", "text": "found"}


# ---- the tool has changed since


def changed(drive, store, world, before, *after, unsafe_died=True):
    """Kill a run at its call of *before*, and carry it on with the tools *after*."""
    world.ways = ["killed behind", "ok"]
    with pytest.raises(Killed):
        drive(agent_of([SEND, "Done."], [before], store=store))
    agent = agent_of([SEND, "Done."], list(after), store=store)
    assert drive(agent).answer == "Done."
    ((content, _),) = results(agent)
    return content


@tool.read_only
def other() -> str:
    """Look at something else."""
    return "seen"


def test_a_call_whose_tool_is_gone_is_not_run(drive, store, world):
    content = changed(drive, store, world, sender(world, tool.idempotent(key_life=60)), other)
    assert content.startswith("Outcome unknown: ")
    assert "the tool send is not there any more." in content


def test_a_read_whose_tool_is_gone_has_definitely_failed(drive, store, world):
    content = changed(drive, store, world, sender(world, tool.read_only), other)
    assert content.startswith("Failed: the tool send is not there any more.")


def test_a_call_that_never_started_and_whose_tool_takes_other_arguments_is_not_run(drive, store, world):
    @tool
    def send(recipient: str) -> str:
        """Send a letter."""
        return f"sent to {recipient}"

    @tool
    def first() -> str:
        """Come before."""
        raise Killed

    script = [[*SEND, ("first", {})], "Done."]
    with pytest.raises(Killed):
        drive(agent_of(script, [sender(world, tool), first], store=store), watch=_killed_behind("responded"))
    agent = agent_of(script, [send, first], store=store)
    with pytest.raises(Killed):
        drive(agent, watch=_killed_behind("settled"))
    settled = [e.body for e in store.read("run") if e.body.kind == "settled"]
    assert settled[0].content == (
        "Failed: the tool send takes other arguments now than when this call was made. The call was not run; make it "
        "again as the tool is now."
    )
    assert world.sent == []


def _killed_behind(kind):
    def watch(event):
        if getattr(getattr(event, "body", None), "kind", None) == kind:
            raise Killed

    return watch


def test_the_stricter_effect_wins(drive, store, world):
    content = changed(drive, store, world, sender(world, tool), sender(world, tool.read_only))
    assert (content.split(":")[0], world.sent) == ("Outcome unknown", ["ann"])


def test_the_stricter_effect_wins_the_other_way_round(drive, store, world):
    content = changed(drive, store, world, sender(world, tool.read_only), sender(world, tool))
    assert content.startswith("Outcome unknown: send(")  # a read writes no intent, so silence proves nothing


def test_an_intent_whose_tool_never_began_is_in_doubt_all_the_same(drive, store, world):
    agent = agent_of([SEND, "Done."], [sender(world, tool)], store=store)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_start_of("send"))
    drive(agent)
    assert (results(agent)[0][1], world.sent) == (True, [])


def test_a_key_does_not_come_from_the_id_that_the_model_gave():
    first = Call(1, 0, "toolu_1", "send", {"to": "ann"}, Recorded())
    calls = Calls(Toolbox(), "run", "nonce")
    assert calls.context(first, 1).key != calls.context(replace(first, turn=2), 1).key
