"""`Run` and `AsyncRun` with a loop and a client of one's own."""

import asyncio

import anthropic
import pydantic
import pytest

from drive.scenes import kinds, says, uses
from midstride import AsyncRun, Run, tool
from midstride.core.journal import Responded
from midstride.errors import Held, NotAllowed, NotAResponse
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing import Answer, FakeModel, SettableClock, calls


@tool.read_only
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@pytest.fixture
def store():
    return MemoryStore()


def run_of(store, task="go", **more):
    return Run(store, "run", task, tools=[read], clock=SettableClock(), **more)


# ---- the loop


def test_the_same_program_carries_on_from_every_answer(store):
    script = [uses(("read", {"path": "a"})), uses(("read", {"path": "b"})), says("Done.")]
    for response in script:
        with run_of(store) as run:
            turn = next(run)
            turn.respond(response)
    with run_of(store) as run:
        assert list(run) == []
        assert (run.answer, run.result.status, run.result.turns) == ("Done.", "done", 3)


def test_a_real_client_needs_nothing_but_the_request(store):
    with FakeModel([calls(("read", {"path": "a"})), Answer("Done.")]) as server:
        with anthropic.Anthropic(api_key="k", base_url=server.url) as client, run_of(store, system="Be kind.") as run:
            for turn in run:
                turn.respond(client.messages.create(model="claude-opus-5", max_tokens=9, **turn.request))
    assert run.answer == "Done."
    assert (server.requests[1]["system"], server.requests[1]["tools"][0]["name"]) == ("Be kind.", "read")
    assert server.requests[1]["messages"][2]["content"][0]["content"] == "text of a"


def test_a_run_without_system_and_tools_sends_messages_only(store):
    with Run(store, "run", "go") as run:
        turn = next(run)
        assert turn.request == {"messages": [{"role": "user", "content": "go"}]}
        turn.respond(says("Done."))


def test_the_message_of_an_sdk_is_stored_without_what_the_sdk_put_in(store):
    class Weather(pydantic.BaseModel):
        degrees: int

    with FakeModel([Answer('{"degrees": 7}')]) as server:
        with anthropic.Anthropic(api_key="k", base_url=server.url) as client, run_of(store) as run:
            turn = next(run)
            asked = {"model": "claude-opus-5", "max_tokens": 9, **turn.request}
            turn.respond(client.messages.parse(output_format=Weather, **asked))
    stored = [e.body.response for e in store.read("run") if isinstance(e.body, Responded)]
    assert stored[0]["content"] == [{"type": "text", "text": '{"degrees": 7}'}]


def test_the_answer_is_on_disk_when_respond_returns_and_its_tools_run_with_the_next_turn(store):
    with run_of(store) as run:
        next(run).respond(uses(("read", {"path": "a"})))
        assert kinds(store)[-1] == "responded"
        next(run)
        assert kinds(store)[-2:] == ["settled", "requested"]


def test_turns_are_numbered_over_the_whole_life_of_the_run(store):
    numbers = []
    for response in (uses(("read", {"path": "a"})), says("Done.")):
        with run_of(store) as run:
            turn = next(run)
            numbers.append(turn.number)
            turn.respond(response)
    assert numbers == [1, 2]


def test_a_cut_answer_is_told_so_that_the_loop_gives_more_room(store):
    with run_of(store) as run:
        turn = next(run)
        turn.respond({**says("Do"), "stop_reason": "max_tokens"})
        assert (turn.cuts, next(run).cuts) == (0, 1)


# ---- misuse


def test_a_turn_is_answered_once(store):
    with run_of(store) as run:
        turn = next(run)
        turn.respond(says("Done."))
        with pytest.raises(NotAllowed, match="turn 1 has its response already"):
            turn.respond(says("Done again."))
        assert (list(run), run.answer) == ([], "Done.")


def test_a_turn_without_a_response_is_an_error_and_can_still_be_answered(store):
    with run_of(store) as run:
        turn = next(run)
        with pytest.raises(NotAllowed, match=r"turn 1 has no response yet: call turn.respond\(response\) first"):
            next(run)
        turn.respond(says("Done."))
        assert (list(run), run.answer) == ([], "Done.")


NO_RESPONSES = [
    None,
    "Done.",
    says("Done.")["content"],
    {**says("Done."), "stop_reason": None},
    {**says("Done."), "content": "Done."},
    {**says("Done."), "content": ["Done."]},
    {**says("Done."), "role": "user"},
    {"choices": [{"message": {"role": "assistant", "content": "Done."}}]},
    {},
]


@pytest.mark.parametrize("value", NO_RESPONSES, ids=str)
def test_what_is_no_response_records_nothing_and_the_turn_stays_open(store, value):
    with run_of(store) as run:
        turn = next(run)
        before = kinds(store)
        with pytest.raises(NotAResponse, match=r"is no response|has no stop reason|is no object"):
            turn.respond(value)
        assert kinds(store) == before
        turn.respond(says("Done."))
        assert (list(run), run.answer) == ([], "Done.")


def test_a_run_is_looped_over_inside_its_with_block_only(store):
    with pytest.raises(NotAllowed, match="with Run"):
        next(run_of(store))
    with run_of(store) as run:
        turn = next(run)
    with pytest.raises(NotAllowed, match="with Run"):
        turn.respond(says("Done."))
    assert "responded" not in kinds(store)


def test_a_run_that_is_driven_is_held_against_a_second_driver(store):
    with run_of(store) as run:
        turn = next(run)
        with pytest.raises(Held, match="held by this very process"), run_of(store):
            pass
        turn.respond(says("Done."))
        assert list(run) == []


def test_an_exception_in_the_loop_frees_the_run(store):
    with pytest.raises(ZeroDivisionError), run_of(store) as run:
        next(run).respond(1 / 0)
    with run_of(store) as run:
        next(run).respond(says("Done."))
    assert run.answer == "Done."


def test_a_response_for_a_run_that_was_cancelled_meanwhile_is_kept_and_runs_nothing(store):
    from midstride import Runs

    with run_of(store) as run:
        turn = next(run)
        Runs(store).cancel("run")
        turn.respond(uses(("read", {"path": "a"})))
        assert list(run) == []
        assert run.result.status == "cancelled"
    assert kinds(store)[-2:] == ["cancelled", "responded"]


# ---- asynchronous


async def driven(store, *responses):
    async with AsyncRun(store, "run", "go", tools=[read], clock=SettableClock()) as run:
        given = iter(responses)
        async for turn in run:
            await turn.respond(next(given))
        return run


def test_an_asynchronous_loop_is_the_same_program(store):
    run = asyncio.run(driven(store, uses(("read", {"path": "a"})), says("Done.")))
    assert (run.answer, run.result.turns) == ("Done.", 2)
    assert asyncio.run(driven(store)).answer == "Done."


def test_an_asynchronous_turn_is_answered_once_and_only_by_a_response(store):
    async def go():
        async with AsyncRun(store, "run", "go") as run:
            turn = await anext(run)
            with pytest.raises(NotAResponse):
                await turn.respond({**says("Done."), "stop_reason": None})
            with pytest.raises(NotAllowed, match="turn 1 has no response yet"):
                await anext(run)
            await turn.respond(says("Done."))
            with pytest.raises(NotAllowed, match="turn 1 has its response already"):
                await turn.respond(says("Done."))
            return run.answer

    assert asyncio.run(go()) == "Done."


def test_an_asynchronous_run_is_looped_over_inside_its_with_block_only(store):
    async def outside():
        async for _ in AsyncRun(store, "run", "go"):
            pass

    with pytest.raises(NotAllowed, match="with AsyncRun"):
        asyncio.run(outside())


def test_a_run_can_change_drivers_in_the_middle(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    with run_of(store) as run:
        next(run).respond(uses(("read", {"path": "a"})))
    assert asyncio.run(driven(store, says("Done."))).answer == "Done."
    store.close()
