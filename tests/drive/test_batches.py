"""Several calls in one answer: what runs at once, what waits its turn, and whose result is whose."""

import asyncio
import contextvars
import threading

import pytest

from drive.scenes import agent_of, kinds, results
from midstride import DidNotHappen, tool
from midstride.stores import MemoryStore
from patience import SECONDS

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@pytest.fixture
def store():
    return MemoryStore()


@tool
def do(what: str) -> str:
    """Do something; "bad" goes wrong behind its effect."""
    done.append(what)
    if what == "bad":
        raise OSError("the line broke")
    return f"did {what}"


@tool
def refuse() -> str:
    """Do nothing, for certain."""
    raise DidNotHappen("there is no paper")


@tool.read_only
def read(path: str) -> str:
    """Read a file."""
    if path == "missing":
        raise FileNotFoundError(path)
    return f"text of {path}"


def do_(*whats):
    return [("do", {"what": what}) for what in whats]


# ---- at once, or one after the other


def test_reads_of_one_answer_run_at_once(drive, store):
    together = threading.Barrier(3, timeout=SECONDS)

    @tool.read_only
    def meet(name: str) -> str:
        """Wait for the others."""
        together.wait()
        return name

    agent = agent_of([[("meet", {"name": name}) for name in "abc"], "Done."], [meet], store=store)
    drive(agent)
    assert results(agent) == [("a", False), ("b", False), ("c", False)]


def test_coroutine_reads_run_at_once_in_the_loop(store):
    async def go():
        together = asyncio.Barrier(3)

        @tool.read_only
        async def meet(name: str) -> str:
            """Wait for the others."""
            async with asyncio.timeout(SECONDS):
                await together.wait()
            return name

        agent = agent_of([[("meet", {"name": name}) for name in "abc"], "Done."], [meet], store=store)
        await agent.run_async("go", "run")
        return results(agent)

    assert asyncio.run(go()) == [("a", False), ("b", False), ("c", False)]


def test_a_coroutine_tool_runs_in_a_blocking_program_too(store):
    @tool.read_only
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "seen"

    agent = agent_of([[("look", {})], "Done."], [look], store=store)
    agent.run("go", "run")
    assert results(agent) == [("seen", False)]


def test_effects_run_in_the_order_of_the_answer_and_never_overlap(drive, store):
    seen, inside = [], threading.Lock()

    @tool
    def move(what: str) -> str:
        """Move."""
        assert inside.acquire(blocking=False)
        seen.append(what)
        inside.release()
        return "moved"

    names = [str(number) for number in range(12)]
    agent = agent_of([[("move", {"what": name}) for name in names], "Done."], [move], store=store)
    drive(agent)
    assert seen == names
    assert kinds(store).count("intended") == 12


def test_an_effect_waits_for_the_effect_before_it_but_reads_do_not(drive, store):
    read_first = threading.Event()

    @tool
    def slow() -> str:
        """Act when the read behind it was run."""
        done.append("slow" if read_first.wait(SECONDS) else "too early")
        return "slow"

    @tool.read_only
    def quick() -> str:
        """Read."""
        read_first.set()
        return "quick"

    agent = agent_of([[("slow", {}), *do_("after"), ("quick", {})], "Done."], [slow, quick, do], store=store)
    drive(agent)
    assert done == ["slow", "after"]


class SlowStore(MemoryStore):
    """A store whose disk is so slow that every tool has ended before a result is saved."""

    def append(self, run_id, entries, **more):
        if entries[0].body.kind == "settled":
            for thread in threading.enumerate():
                if thread.name == "midstride meet":
                    thread.join()
        super().append(run_id, entries, **more)


def test_a_tool_that_ends_while_a_result_is_saved_is_heard(drive):
    second_is_done = threading.Event()

    @tool.read_only
    def meet(name: str) -> str:
        """Wait for the second."""
        if name == "first":
            assert second_is_done.wait(SECONDS)
        else:
            second_is_done.set()
        return name

    script = [[("meet", {"name": name}) for name in ("first", "second")], "Done."]
    assert drive(agent_of(script, [meet], store=SlowStore())).answer == "Done."


# ---- whose result is whose


def test_results_of_one_tool_are_paired_by_call_whichever_ends_first(drive, store):
    second_is_done = threading.Event()

    @tool.read_only
    def shell(command: str) -> str:
        """Run a command."""
        if command == "late":
            assert second_is_done.wait(SECONDS)
            return "A"
        second_is_done.set()
        return "B"

    agent = agent_of([[("shell", {"command": c}) for c in ("late", "early")], "Done."], [shell], store=store)
    drive(agent)
    blocks = agent.model.requests[1]["messages"][2]["content"]
    assert [(b["tool_use_id"], b["content"]) for b in blocks] == [("toolu_1_0", "A"), ("toolu_1_1", "B")]


def test_one_call_that_fails_costs_the_others_nothing(drive, store):
    calls = [("read", {"path": "a"}), ("read", {"path": "missing"}), *do_("letter"), ("read", {"path": "b"})]
    agent = agent_of([calls, "Done."], [read, do], store=store)
    drive(agent)
    assert results(agent) == [
        ("text of a", False),
        ("Failed: It raised FileNotFoundError: missing.", True),
        ("did letter", False),
        ("text of b", False),
    ]


def test_behind_an_effect_that_went_wrong_later_effects_are_not_started_and_reads_are(drive, store):
    agent = agent_of([[*do_("one", "bad", "two"), ("read", {"path": "a"})], "Done."], [read, do], store=store)
    drive(agent)
    told = [content for content, _ in results(agent)]
    assert done == ["one", "bad"]
    assert [each.split(":")[0] for each in told] == ["did one", "Outcome unknown", "Not started", "text of a"]
    assert "OSError: the line broke" in told[1]


def test_an_effect_that_did_not_happen_stops_the_later_ones_too(drive, store):
    agent = agent_of([[("refuse", {}), *do_("two")], "Done."], [refuse, do], store=store)
    drive(agent)
    assert [content for content, _ in results(agent)] == [
        "Failed: it did not happen. there is no paper",
        "Not started: an earlier call of the same answer, refuse (toolu_1_0), ended as 'failed'. It had no effect.",
    ]


# ---- what the model did wrong


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("do", {"waht": "x"}), "what"),
        (("do", {"what": 7}), "what"),
        (("do", {}), "what"),
        (("doo", {"what": "x"}), "there is no tool doo; did you mean do?"),
        (("", {}), "there is no tool"),
    ],
)
def test_bad_arguments_and_unknown_tools_are_definite_and_start_nothing(drive, store, call, said):
    agent = agent_of([[call], "Done."], [do, read], store=store)
    drive(agent)
    ((content, is_error),) = results(agent)
    assert content.startswith("Failed: ")
    assert said in content
    assert is_error
    assert (done, kinds(store).count("intended")) == ([], 0)


def test_arguments_that_are_no_object_start_nothing(drive, store):
    block = {"type": "tool_use", "id": "toolu_x", "name": "do", "input": '{"what": "x"}'}
    agent = agent_of([_answer(block), "Done."], [do], store=store)
    drive(agent)
    ((content, is_error),) = results(agent)
    assert (done, content.startswith("Failed: "), is_error) == ([], True, True)


def test_the_names_and_arguments_of_server_tools_are_left_to_the_server(drive, store):
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "do", "input": {"what": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    agent = agent_of([{**_answer(search, found), "stop_reason": "end_turn"}], [do], store=store)
    assert drive(agent).status == "done"
    assert done == []


def _answer(*blocks):
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"role": "assistant", "content": list(blocks), "stop_reason": "tool_use", "usage": usage}


# ---- what a tool can see


user = contextvars.ContextVar("user", default="nobody")


def test_a_tool_sees_the_context_variables_of_its_caller(drive, store):
    @tool.read_only
    def who() -> str:
        """Tell who asks."""
        return user.get()

    @tool.read_only
    async def who_async() -> str:
        """Tell who asks."""
        return user.get()

    agent = agent_of([[("who", {}), ("who_async", {})], "Done."], [who, who_async], store=store)
    token = user.set("ann")
    try:
        drive(agent)
    finally:
        user.reset(token)
    assert results(agent) == [("ann", False), ("ann", False)]


# ---- what is no exception


@pytest.mark.parametrize("crash", [SystemExit, KeyboardInterrupt])
def test_a_tool_that_ends_its_program_is_a_crash_and_no_result(drive, store, crash):
    @tool
    def leave() -> str:
        """Leave."""
        done.append("left")
        raise crash("now")

    agent = agent_of([[("leave", {})], "Done."], [leave], store=store)
    with pytest.raises(crash):
        drive(agent)
    assert kinds(store)[-1] == "intended"
    drive(agent)
    ((content, is_error),) = results(agent)
    assert (is_error, done) == (True, ["left"])
    assert content.startswith("Outcome unknown: leave({}) may or may not have taken effect")


@pytest.mark.parametrize("crash", [SystemExit, KeyboardInterrupt])
def test_a_coroutine_tool_that_ends_its_program_is_a_crash_too(store, crash):
    @tool
    async def leave() -> str:
        """Leave."""
        done.append("left")
        raise crash("now")

    agent = agent_of([[("leave", {})], "Done."], [leave], store=store)
    with pytest.raises(crash):
        asyncio.run(agent.run_async("go", "run"))
    assert kinds(store)[-1] == "intended"
    assert asyncio.run(agent.run_async("go", "run")).answer == "Done."
    assert done == ["left"]


def test_a_crash_beside_other_tools_loses_none_of_their_results(drive, store):
    first_is_done = threading.Event()

    @tool
    def charge() -> str:
        """Charge."""
        done.append("charged")
        first_is_done.set()
        return "charged"

    @tool.read_only
    def crash() -> str:
        """Crash the first time."""
        assert first_is_done.wait(SECONDS)
        if "crashed" not in done:
            done.append("crashed")
            raise KeyboardInterrupt
        return "read"

    agent = agent_of([[("crash", {}), ("charge", {})], "Done."], [charge, crash], store=store)
    with pytest.raises(KeyboardInterrupt):
        drive(agent)
    drive(agent)
    assert results(agent) == [("read", False), ("charged", False)]
    assert done == ["charged", "crashed"]
