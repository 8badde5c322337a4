"""A call through the ledger: what its maker gets the first time, the second time, and after a crash."""

import asyncio
import re
import threading

import pytest

from ledger.scenes import die, kinds, process
from midstride import (
    CannotTell,
    Context,
    Denied,
    DidNotHappen,
    Document,
    Happened,
    InDoubt,
    Ledger,
    Runs,
    models,
    tool,
)
from midstride.agent import Agent
from midstride.errors import (
    CallError,
    DeclarationError,
    Held,
    NeedsPerson,
    NotAllowed,
    StoreError,
    TaskDiffers,
    ToolFailed,
    WrongArguments,
)
from midstride.stores import CheckpointStore, MemoryStore
from midstride.testing import SettableClock


class Mails:
    """Unsafe tools, and what they sent."""

    def __init__(self, **options):
        self.sent = []

        @tool(**options)
        def send(to: str = "ann") -> str:
            self.sent.append(to)
            return f"sent to {to}"

        self.send = send


@pytest.fixture
def mails():
    return Mails()


# ---- the first time, and the second


def test_a_call_runs_once_and_gives_its_result_again(once, ledger, mails):
    given = [once(ledger, mails.send, arguments={"to": "bob"}) for _ in range(3)]
    assert given == ["sent to bob"] * 3
    assert mails.sent == ["bob"]


def test_another_process_gets_the_recorded_result(once, store, mails):
    once(Ledger(store), mails.send)
    assert once(Ledger(store), mails.send) == "sent to ann"
    assert mails.sent == ["ann"]


def test_another_call_id_or_scope_is_another_call(once, ledger, mails):
    for call_id, scope in (("c1", "t"), ("c2", "t"), ("c1", "u")):
        once(ledger, mails.send, call_id, scope=scope)
    assert mails.sent == ["ann"] * 3


def test_coroutine_tools_and_plain_ones_are_made_both_ways(once, ledger):
    @tool
    async def later(n: int) -> str:
        await asyncio.sleep(0)
        return str(n)

    @tool.read_only
    def now(n: int) -> str:
        return str(n)

    assert [once(ledger, later, "a", {"n": 1}), once(ledger, now, "b", {"n": 2})] == ["1", "2"]


def test_a_document_comes_as_blocks(once, ledger):
    @tool.read_only
    def paper() -> Document:
        return Document("a page", title="p")

    first, again = once(ledger, paper), once(ledger, paper)
    assert [block["type"] for block in first] == ["document"]
    assert first == again


class Counting(MemoryStore):
    def __init__(self):
        super().__init__()
        self.appends = []

    def append(self, run_id, entries, **more):
        super().append(run_id, entries, **more)
        self.appends.append([entry.body.kind for entry in entries])


def test_an_effect_costs_two_appends_a_read_one_and_a_repeat_none(once, mails):
    store = Counting()
    ledger = Ledger(store)

    @tool.read_only
    def look() -> str:
        return "seen"

    for _ in range(2):
        once(ledger, mails.send, "effect")
        once(ledger, look, "read")
    begun = ["started", "taken", "requested", "responded"]
    # A read that takes its time is waited for with nothing unsaved: two appends then, on a busy machine too.
    in_time, late = [[*begun, "settled"]], [begun, ["settled"]]
    assert store.appends in ([[*begun, "intended"], ["settled"], *read] for read in (in_time, late))


def test_the_intent_is_on_disk_before_the_tool_starts(once, store):
    seen = []

    @tool
    def send() -> str:
        seen.extend(kinds(store))
        return "sent"

    once(Ledger(store), send)
    assert seen[-1] == "intended"


def test_a_tool_is_told_which_call_it_answers(once, ledger):
    told = []

    @tool
    def send(context: Context) -> str:
        told.append(context)
        return ""

    once(ledger, send, "a/b", scope="x/y")
    assert (told[0].run_id, told[0].call_id, told[0].attempt) == ("x%2Fy/a/b", "a/b", 1)


def test_many_threads_may_use_one_ledger(tmp_path, mails):
    given = []
    with Ledger(f"sqlite:{tmp_path}/calls.db") as ledger:

        def call(number):
            given.append(ledger.once(mails.send, f"c{number}", {"to": str(number)}, scope="t"))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(given) == [f"sent to {number}" for number in range(8)]
    assert sorted(mails.sent) == [str(number) for number in range(8)]


# ---- what was asked wrongly


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"to": 3}, "to: "), ({"whom": "ann"}, "whom"), (None, "must be a JSON object, got None"),
        ({"to": float("nan")}, "cannot be kept as JSON"), ({"to": {1, 2}}, "cannot be kept as JSON"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_and_nothing_is_written(ledger, mails, arguments, why):
    with pytest.raises(WrongArguments, match=why):
        ledger.once(mails.send, "c1", arguments, scope="t")
    assert (mails.sent, ledger.store.runs()) == ([], [])
    assert ledger.once(mails.send, "c1", {"to": "ann"}, scope="t") == "sent to ann"


def test_other_arguments_under_the_same_id_are_refused(once, ledger, mails):
    once(ledger, mails.send)
    with pytest.raises(TaskDiffers, match=r"made before as send\(.*now as send\(\{'to': 'bob'\}\)"):
        once(ledger, mails.send, arguments={"to": "bob"})
    assert mails.sent == ["ann"]


def test_the_same_arguments_are_the_same_however_they_are_written(once, ledger):
    @tool
    def add(numbers: tuple[int, int], by: dict[str, int]) -> str:
        return "done"

    once(ledger, add, arguments={"numbers": (1, 2), "by": {"a": 1, "b": 2}})
    assert once(ledger, add, arguments={"by": {"b": 2, "a": 1}, "numbers": [1, 2]}) == "done"


def test_an_agents_run_is_no_call_and_a_call_no_agents_run(store, ledger, mails):
    agent = Agent(models.Scripted(["Done."]), store=store)
    agent.run("go", "t/c1")
    with pytest.raises(TaskDiffers, match="is an agent's run"):
        ledger.once(mails.send, "c1", {}, scope="t")
    ledger.once(mails.send, "c2", {}, scope="t")
    with pytest.raises(TaskDiffers):
        agent.run("go", "t/c2")
    with pytest.raises(TaskDiffers, match="speaks 'ledger'"):
        agent.resume("t/c2")


@pytest.mark.parametrize(("call_id", "scope"), [("", "t"), ("c", " "), (3, "t"), ("c" * 501, "t")])
def test_what_names_nothing_is_no_id(ledger, mails, call_id, scope):
    with pytest.raises(DeclarationError):
        ledger.once(mails.send, call_id, {}, scope=scope)


def test_a_function_that_is_no_tool_is_refused(ledger):
    with pytest.raises(DeclarationError, match="decorate it"):
        ledger.once(print, "c1", {}, scope="t")


def test_a_transactional_tool_needs_a_database(ledger):
    @tool.transactional
    def book(context: Context) -> str:
        return ""

    with pytest.raises(DeclarationError, match="no transactions"):
        ledger.once(book, "c1", {}, scope="t")


def test_a_store_of_one_run_is_refused(tmp_path):
    with pytest.raises(DeclarationError, match="holds one run"):
        Ledger(CheckpointStore(tmp_path / "checkpoint.json"))
    with pytest.raises(DeclarationError, match="holds one run"):
        Ledger(f"checkpoint:{tmp_path}/checkpoint.json")


# ---- failures


def test_a_definite_failure_is_raised_and_stays(once, ledger):
    tries = []

    @tool
    def send() -> str:
        tries.append(1)
        raise DidNotHappen("the server said 550")

    for _ in range(2):
        with pytest.raises(ToolFailed, match=r"^Failed: it did not happen. the server said 550$"):
            once(ledger, send)
    assert tries == [1]


def test_a_read_that_fails_is_definite(once, ledger):
    @tool.read_only
    def look() -> str:
        raise FileNotFoundError("no such file")

    with pytest.raises(ToolFailed, match="FileNotFoundError: no such file"):
        once(ledger, look)


def test_an_exception_of_an_effect_is_in_doubt(once, ledger):
    @tool
    def send() -> str:
        raise ConnectionResetError("reset")

    for _ in range(2):
        with pytest.raises(InDoubt, match=r"^Outcome unknown: send\(\{\}\) may or may not.*reset") as caught:
            once(ledger, send)
    assert (caught.value.run_id, caught.value.call_id) == ("t/c1", "c1")


def test_a_tool_that_outlives_its_time_is_in_doubt_until_it_ends(ledger, store):
    let_go = threading.Event()

    @tool(timeout=0.02)
    def send() -> str:
        let_go.wait(30)
        return "sent at last"

    with pytest.raises(InDoubt, match="It is still running"):
        ledger.once(send, "c1", {}, scope="t")
    with pytest.raises(InDoubt, match="did not end within"):
        ledger.once(send, "c1", {}, scope="t")
    let_go.set()
    for name in ("midstride send", "midstride late"):  # the tool's own thread, and the one that records its result
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join()
    assert "sent at last" in ledger.once(send, "c1", {}, scope="t")
    assert kinds(store)[-1] == "decided"


# ---- after a crash


def test_an_unsafe_call_that_was_cut_off_is_never_run_again(once, store, mails):
    die(store, mails.send, "send 1.0 after")
    for _ in range(2):
        with process(store) as (_, ledger, own), pytest.raises(InDoubt, match="Its process ended before the result"):
            once(ledger, own(mails.send))
    assert mails.sent == ["ann"]


def test_a_call_whose_intent_was_not_saved_runs(once, store, mails):
    die(store, mails.send, "append 1 before")
    with process(store) as (_, ledger, own):
        assert once(ledger, own(mails.send)) == "sent to ann"
    assert mails.sent == ["ann"]


def test_a_verifiable_call_is_looked_up(once, store):
    posted = []

    @tool.verifiable(timeout=5, settle=2)
    def post(title: str) -> str:
        posted.append(title)
        return "posted"

    @post.verify
    def find(title: str) -> Happened | DidNotHappen | CannotTell:
        return Happened("posted before") if title in posted else DidNotHappen()

    die(store, post, "post 1.0 after", arguments={"title": "x"})
    with process(store) as (_, ledger, own):
        assert once(ledger, own(post), arguments={"title": "x"}) == "posted before"
    assert posted == ["x"]


def test_a_call_is_held_when_it_ends_its_process_every_time(store):
    @tool.idempotent(key_life=10**9)
    def charge() -> str:
        return "charged"

    for number in range(1, 5):
        die(store, charge, "wait" if number > 1 else "append 1 after")
    with process(store) as (_, ledger, own), pytest.raises(InDoubt, match="ended 4 times in a row") as caught:
        ledger.once(own(charge), "c1", {}, scope="t")
    assert "Runs(store).extend('t/c1', ...)" in str(caught.value)
    Runs(store).extend("t/c1", turns=40)
    with process(store) as (_, ledger, own):
        assert ledger.once(own(charge), "c1", {}, scope="t") == "charged"


# ---- a person's word


def test_a_doubt_is_asked_about_and_decided(once, store):
    mails = Mails(in_doubt="ask")
    die(store, mails.send, "send 1.0 before")
    with process(store) as (_, ledger, own), pytest.raises(InDoubt, match="a person has to say whether it happened"):
        once(ledger, own(mails.send))
    assert Runs(store).status("t/c1")[0] == "waiting"
    Runs(store).decide("t/c1", "c1", "allow")
    with process(store) as (_, ledger, own):
        assert once(ledger, own(mails.send)) == "sent to ann"
    assert mails.sent == ["ann"]


@pytest.mark.parametrize("doubt", ["ask", "report"])
@pytest.mark.parametrize(
    ("verdict", "given"),
    [
        ("happened", "ann reports that it took effect|Done: a person confirmed"),
        ("unknown", "cannot tell whether (it|this call) took effect"),
        ("deny", "a person decided that (it|this call) is not to be run again"),
    ],
)
def test_what_a_person_decides_is_what_the_call_came_to(once, store, doubt, verdict, given):
    mails = Mails(in_doubt=doubt)
    die(store, mails.send, "send 1.0 before")
    with process(store) as (_, ledger, own), pytest.raises(InDoubt):
        once(ledger, own(mails.send))
    Runs(store).decide("t/c1", "c1", verdict, "I looked.", by="ann")
    ledger = Ledger(store)
    for _ in range(2):
        if verdict == "happened":
            assert _matches(once(ledger, mails.send), given)
        else:
            with pytest.raises(InDoubt) as caught:
                once(ledger, mails.send)
            assert _matches(str(caught.value), given)
            assert "I looked." in str(caught.value)
    assert mails.sent == []


def _matches(text, pattern):
    return re.search(pattern, text) is not None


def test_a_call_reported_as_unknown_is_made_anew_where_a_person_allows_it(once, store, mails):
    die(store, mails.send, "send 1.0 before")
    with process(store) as (_, ledger, own), pytest.raises(InDoubt):
        once(ledger, own(mails.send))
    Runs(store).decide("t/c1", "c1", "allow")
    assert Runs(store).status("t/c1") == (
        "interrupted",
        "nobody drives it; it goes on when its program makes this call again: a person allowed it to be run again",
    )
    with process(store) as (_, ledger, own):
        assert [once(ledger, own(mails.send)) for _ in range(2)] == ["sent to ann"] * 2
    assert mails.sent == ["ann"]
    assert Runs(store).status("t/c1")[0] == "done"


def test_a_permission_is_spent_by_one_attempt(once, store, mails):
    die(store, mails.send, "send 1.0 before")
    with process(store) as (_, ledger, own), pytest.raises(InDoubt):
        once(ledger, own(mails.send))
    Runs(store).decide("t/c1", "c1", "allow")
    die(store, mails.send, "send 1.0 after")
    with process(store) as (_, ledger, own), pytest.raises(InDoubt):
        once(ledger, own(mails.send))
    assert mails.sent == ["ann"]


def test_a_call_made_anew_is_the_same_call_and_what_began_of_it_counts_on(once, store):
    keys, attempts = [], []

    @tool
    def send(context: Context) -> str:
        keys.append(context.key)
        attempts.append(context.attempt)
        if len(keys) == 1:
            raise ConnectionResetError
        raise DidNotHappen("the server says no")

    ledger = Ledger(store)
    with pytest.raises(InDoubt):
        once(ledger, send)
    Runs(store).decide("t/c1", "c1", "allow")
    with pytest.raises(InDoubt, match="the server says no"):  # the first attempt may have happened
        once(ledger, send)
    assert keys[0] == keys[1]
    assert attempts == [1, 2]


def test_an_approval_is_waited_for(once, store):
    mails = Mails(approval=True)
    ledger = Ledger(store)
    for _ in range(2):
        with pytest.raises(NeedsPerson, match=r"^Not started: send\(\{\}\) needs a person's approval first"):
            once(ledger, mails.send)
    assert mails.sent == []
    Runs(store).decide("t/c1", "c1", "allow")
    assert once(ledger, mails.send) == "sent to ann"


def test_a_refused_approval_is_denied(once, store):
    mails = Mails(approval=True)
    ledger = Ledger(store)
    with pytest.raises(NeedsPerson):
        once(ledger, mails.send)
    Runs(store).decide("t/c1", "c1", "deny", "not to ann")
    for _ in range(2):
        with pytest.raises(Denied, match=r"It had no effect\. The person said: not to ann"):
            once(ledger, mails.send)
    assert mails.sent == []


def test_a_call_that_is_called_off_is_denied(once, store):
    mails = Mails(approval=True)
    with pytest.raises(NeedsPerson):
        once(Ledger(store), mails.send)
    Runs(store).cancel("t/c1", "not today")
    with pytest.raises(Denied, match=r"the run was cancelled\. It had"):
        once(Ledger(store), mails.send)


def test_nothing_can_be_said_to_a_call(store, ledger, mails):
    ledger.once(mails.send, "c1", {}, scope="t")
    with pytest.raises(NotAllowed, match="one call of a ledger"):
        Runs(store).say("t/c1", "hello")


def test_the_command_for_a_person_can_be_copied(tmp_path):
    mails = Mails(approval=True)
    with Ledger(f"sqlite:{tmp_path}/a b.db") as ledger, pytest.raises(NeedsPerson) as caught:
        ledger.once(mails.send, "c'1", {}, scope="-t")
    command = """midstride decide '%2Dt/c'"'"'1' 'c'"'"'1' --approve | --deny --store"""
    assert f"{command} 'sqlite:{tmp_path}/a b.db'" in str(caught.value)


# ---- two at once


def test_a_second_maker_of_the_same_call_is_held_off(once, store):
    started, let_go, given = threading.Event(), threading.Event(), []

    @tool
    def send() -> str:
        started.set()
        let_go.wait(30)
        return "sent"

    ledger = Ledger(store)
    first = threading.Thread(target=lambda: given.append(ledger.once(send, "c1", {}, scope="t")))
    first.start()
    assert started.wait(30)
    with pytest.raises(Held, match=r"call 't/c1' is being made by pid \d+"):
        once(ledger, send)
    let_go.set()
    first.join()
    assert (given, once(ledger, send)) == (["sent"], "sent")


def test_a_cancelled_task_leaves_the_call_in_doubt(store):
    started = []

    @tool
    async def send() -> str:
        started.append(1)
        await asyncio.sleep(3600)
        return "sent"

    async def program():
        ledger = Ledger(store)
        task = asyncio.create_task(ledger.once_async(send, "c1", {}, scope="t"))
        while not started:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(InDoubt):
            await ledger.once_async(send, "c1", {}, scope="t")

    asyncio.run(program())
    assert started == [1]


def test_an_event_loop_goes_on_while_a_call_is_made(store, mails):
    async def program():
        calls = [Ledger(store).once_async(mails.send, f"c{n}", {}, scope="t") for n in range(3)]
        return await asyncio.gather(*calls)

    assert asyncio.run(program()) == ["sent to ann"] * 3


# ---- the store


def test_a_store_that_cannot_be_written_starts_nothing(once, mails):
    class Full(MemoryStore):
        def append(self, run_id, entries, **more):
            raise StoreError("no room")

    with pytest.raises(StoreError, match="no room"):
        once(Ledger(Full()), mails.send)
    assert mails.sent == []


def test_every_error_about_a_call_is_a_call_error():
    assert [e for e in (WrongArguments, ToolFailed, Denied, NeedsPerson, InDoubt) if not issubclass(e, CallError)] == []


def test_a_ledger_closes_only_what_it_opened(tmp_path, mails):
    store = MemoryStore()
    lease = store.lease("other")
    Ledger(store).close()
    assert lease.held()
    with Ledger(f"sqlite:{tmp_path}/calls.db", clock=SettableClock(1e9)) as ledger:
        ledger.once(mails.send, "c1", {}, scope="t")
        assert ledger.store.read("t/c1")[0].at == 1e9
