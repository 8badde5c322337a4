"""A checkpoint that somebody else wrote: byte for byte as it is, and every open call may have been started."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from core.making import ASK, LETTERS, START, TAKEN, USER, asks, go, made, terms, text, use, with_calls
from midstride.core.apis import ModelCall, api_named
from midstride.core.imports import Foreign, doubted, imported, restored
from midstride.core.journal import (
    Asked,
    Body,
    Decided,
    Intended,
    Recorded,
    Requested,
    Responded,
    Said,
    Settled,
    Started,
)
from midstride.core.moves import Rest, next_move
from midstride.core.run import CallState, Run, State
from midstride.core.view import view
from midstride.errors import Damaged


def frozen(messages: list[Any], turns: int, tokens: int) -> Started:
    return Started("do it", "anthropic", messages, "n", turns=turns, tokens=tokens, imported=True)


def record(call: ModelCall) -> Recorded:
    known = call.name in LETTERS
    return Recorded(terms(call.name)) if known else Recorded(problem=f"there is no tool {call.name}")


def taken_over(messages: list[Any], *, pending: Any = None, turns: int = 3, prefill: bool = False) -> list[Body]:
    checkpoint = {
        "version": 1, "task": "do it", "turns": turns, "tokensUsed": 500, "messages": messages,
        "pendingToolUse": pending,
    }  # fmt: skip
    return list(imported(Foreign.of(checkpoint), frozen=frozen, record=record, prefill=prefill))


def result(index: int, content: Any = "did it", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"t{index}", "content": content, **more}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def made_calls(*letters: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [use(index, letter) for index, letter in enumerate(letters)]}


def kinds(bodies: list[Body]) -> list[str]:
    return [body.kind for body in bodies]


ANSWER = {"role": "assistant", "content": "Half of"}


@pytest.mark.parametrize(
    "messages",
    [[], [USER], [USER, {"role": "assistant", "content": "Yes?"}, USER], [USER, made_calls("u"), said(result(0))]],
)
def test_a_checkpoint_that_owes_a_request_starts_with_all_its_messages(messages: list[Any]) -> None:
    bodies = taken_over(messages)
    assert bodies == [frozen(messages, 3, 500)]
    run = made(*bodies)
    assert (run.state, run.turns, run.tokens_used, run.request) == (State.DUE, 3, 500, messages)


@pytest.mark.parametrize("content", ["Half of", [text("Half of")]])
def test_a_plain_answer_at_the_end_is_final_byte_for_byte(content: Any) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    run = made(*taken_over(messages))
    assert (run.state, run.answer, run.turns, run.tokens_used) == (State.DONE, "Half of", 3, 500)
    assert run.request == messages


@pytest.mark.parametrize("content", ["Half of", [text("Half of")]])
def test_a_plain_answer_at_the_end_is_continued_where_the_model_can(content: Any) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    run = made(*taken_over(messages, prefill=True))
    assert (run.state, run.request) == (State.DUE, messages)


@pytest.mark.parametrize("prefill", [True, False])
def test_an_open_call_may_have_been_started(prefill: bool) -> None:
    bodies = taken_over([USER, made_calls("u")], pending={"id": "t0", "name": "u", "input": {}}, prefill=prefill)
    assert bodies == [
        frozen([USER], 2, 500),
        Requested(),
        Responded({**made_calls("u"), "stop_reason": "tool_use"}, (Recorded(terms("u")),)),
        Intended(3, 0, imported=True),
    ]
    run = made(*bodies)
    assert (run.state, run.turns, run.calls[0].imported) == (State.CALLS, 3, True)


def test_results_that_are_there_are_kept_and_the_rest_may_have_been_started() -> None:
    messages = [USER, made_calls("r", "u", "u"), said(result(1, "no", is_error=True), result(0, [text("read")]))]
    bodies = taken_over(messages)
    assert bodies[3:] == [
        Settled(3, 0, "ok", [text("read")]), Settled(3, 1, "failed", "no"), Intended(3, 2, imported=True),
    ]  # fmt: skip


def test_a_result_that_says_unknown_is_none_that_is_known() -> None:
    messages = [USER, made_calls("u", "u"), said(result(0, "Outcome unknown: u may or may not", is_error=True))]
    assert taken_over(messages)[3] == Settled(3, 0, "unknown", "Outcome unknown: u may or may not")


def test_a_result_without_content_is_a_result() -> None:
    bodies = taken_over([USER, made_calls("r", "u"), said({"type": "tool_result", "tool_use_id": "t0"})])
    assert bodies[3] == Settled(3, 0, "ok", "(no result)")


@pytest.mark.parametrize(
    ("last", "rest"),
    [
        (said(result(0), text("and hurry")), [text("and hurry")]),
        ({"role": "user", "content": "and hurry"}, "and hurry"),
        (said(result(0), result(9, "whose?")), [result(9, "whose?")]),
    ],
)
def test_what_stands_behind_the_results_is_said_behind_all_of_them(last: dict[str, Any], rest: Any) -> None:
    bodies = taken_over([USER, made_calls("r", "u"), last])
    assert bodies[-1] == Said(rest)
    assert made(*bodies).pending == ({"role": "user", "content": rest},)


def test_an_unknown_tool_is_recorded_as_one() -> None:
    bodies = taken_over([USER, {"role": "assistant", "content": [{**use(0, "u"), "name": "fly"}]}])
    assert isinstance(bodies[2], Responded)
    assert bodies[2].calls == (Recorded(problem="there is no tool fly"),)


def test_a_checkpoint_of_no_turns_is_of_one_with_its_answer() -> None:
    assert made(*taken_over([USER, made_calls("u")], turns=0)).calls[0].key == (1, 0)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([USER], "leave no call open"),
        ([USER, made_calls("u"), said(result(0))], "leave no call open"),
        ([USER, made_calls("u", "r")], "leave open t0, t1"),
        ([], "leave no call open"),
    ],
)
def test_a_pending_call_that_is_not_open_is_damage(messages: list[Any], found: str) -> None:
    with pytest.raises(Damaged) as refused:
        taken_over(messages, pending={"id": "t7", "name": "u", "input": {}})
    assert str(refused.value) == (
        f"pendingToolUse names call t7, but the messages {found}: the checkpoint was edited or torn; "
        "set pendingToolUse to null if the messages are right"
    )


@pytest.mark.parametrize("letters", ["u", "ur", "rxiv"])
def test_an_import_is_seen_again_as_it_was(letters: str) -> None:
    messages = [USER, made_calls(*letters)]
    run = made(*taken_over(messages))
    found = view(run)
    assert (found["messages"], found["turns"], found["tokensUsed"]) == (messages, 3, 500)
    assert found["pendingToolUse"] == {"id": "t0", "name": letters[0], "input": {"n": 0}}


# ---- the other APIs


def chat_call(index: int, letter: str) -> dict[str, Any]:
    return {"id": f"t{index}", "type": "function", "function": {"name": letter, "arguments": '{"n": 1}'}}


def chat_calls(*letters: str) -> dict[str, Any]:
    calls = [chat_call(index, letter) for index, letter in enumerate(letters)]
    return {"role": "assistant", "content": None, "tool_calls": calls, "odd": 1}


def told(index: int, content: Any = "did it") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"t{index}", "content": content}


def item(index: int, letter: str, **more: Any) -> dict[str, Any]:
    named = {"type": "function_call", "id": f"fc_{index}", "call_id": f"t{index}", "name": letter}
    return {**named, "arguments": '{"n": 1}', "status": "completed", **more}


def output(index: int, content: Any = "did it", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": f"t{index}", "output": content}


ASKS = {"role": "user", "content": "go"}
THINKS = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
SAYS = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Half of"}]}
RULES = {"role": "developer", "content": "Be brief."}
CHAT, RESPONSES = "openai-chat", "openai-responses"


def brought(api: str, *messages: Any, made_up: str = "") -> Run:
    """Return the run that goes on from *messages* of *api*; no tool gave the result of the call *made_up*."""
    foreign = Foreign("do it", list(messages), 3, 500, api=api, made=frozenset({made_up, "t8"}))
    start = partial(Started, "do it", api, nonce="n", imported=True)
    return made(*imported(foreign, frozen=start, record=record, prefill=False))


@pytest.mark.parametrize(
    ("api", "messages"),
    [
        (CHAT, [ASKS]),
        (CHAT, [RULES, ASKS, {"role": "assistant", "content": "Yes?"}, ASKS]),
        (CHAT, [ASKS, chat_calls("u"), told(0)]),
        (CHAT, [ASKS, chat_calls("u", "u"), told(0), RULES]),
        (CHAT, [RULES]),
        (CHAT, [ASKS, chat_calls("u"), told(9)]),
        (CHAT, []),
        (RESPONSES, [ASKS]),
        (RESPONSES, [ASKS, SAYS, ASKS]),
        (RESPONSES, [ASKS, THINKS, item(0, "u"), output(0)]),
        (RESPONSES, [ASKS, item(0, "u"), item(1, "u"), output(0), RULES]),
        (RESPONSES, [ASKS, item(0, "u"), output(9)]),
        (RESPONSES, [ASKS, item(0, "u"), item(1, "u", type="shell_call"), output(1, [], "shell_call_output")]),
        (RESPONSES, [ASKS, item(0, "u"), item(1, "u", type="computer_call"), output(0)]),
        (RESPONSES, []),
    ],
    ids=str,
)
def test_a_transcript_of_another_api_that_owes_a_request_goes_out_as_it_is(api: str, messages: list[Any]) -> None:
    run = brought(api, *messages)
    assert (run.state, run.calls, run.turns, run.request) == (State.DUE, (), 3, messages)


@pytest.mark.parametrize(("api", "answer"), [(CHAT, ANSWER), (RESPONSES, SAYS)])
def test_an_answer_of_another_api_at_the_end_is_final(api: str, answer: Any) -> None:
    run = brought(api, ASKS, answer)
    assert (run.state, run.answer, run.turns, run.request) == (State.DONE, "Half of", 3, [ASKS, answer])


@pytest.mark.parametrize(
    ("api", "before", "behind"),
    [
        (CHAT, [ASKS, chat_calls("u", "r", "u")], [told(1, "seen"), ASKS]),
        (CHAT, [RULES, ASKS, ANSWER, ASKS, chat_calls("u", "r", "u")], [told(1, "seen")]),
        (RESPONSES, [ASKS, THINKS, item(0, "u"), item(1, "r"), item(2, "u")], [output(1, "seen"), ASKS]),
        (RESPONSES, [ASKS, SAYS, ASKS, SAYS, item(0, "u"), item(1, "r"), item(2, "u")], [output(1, "seen")]),
        (
            RESPONSES,
            [ASKS, item(7, "r"), output(7), item(0, "u"), item(1, "r"), item(2, "u")],
            [output(1, [{"type": "input_text", "text": "seen"}])],
        ),
    ],
    ids=str,
)
def test_open_calls_of_another_api_may_have_been_started(api: str, before: list[Any], behind: list[Any]) -> None:
    run = brought(api, *before, *behind)
    assert (run.state, run.turns) == (State.CALLS, 3)
    assert state_of(run) == [CallState.INTENDED, CallState.SETTLED, CallState.INTENDED]
    settled = go(run, Settled(3, 0, "unknown", "who knows"), Settled(3, 2, "ok", "done"), Requested())
    fill = {CHAT: told, RESPONSES: output}[api]
    assert settled.request == [*before, fill(0, "Error: who knows"), behind[0], fill(2, "done"), *behind[1:]]


@pytest.mark.parametrize(
    ("api", "messages"),
    [
        (CHAT, [ASKS, {**chat_calls("u"), "refusal": "No."}]),
        (CHAT, [ASKS, {"role": "assistant", "content": None, "function_call": {"name": "u", "arguments": "{}"}}]),
        (CHAT, [ASKS, chat_calls("u", "u") | {"tool_calls": [chat_call(0, "u"), chat_call(0, "u")]}]),
        (CHAT, [ASKS, chat_calls("u", "u"), told(0), told(0, "again")]),
        (CHAT, [ASKS, chat_calls("u", "u"), told(0), {**ASKS, "name": "bob"}]),
        (CHAT, [ASKS, chat_calls("u", "u"), told(0, [text("a"), text("b")])]),
        (RESPONSES, [ASKS, item(0, "u", status="incomplete")]),
        (RESPONSES, [ASKS, item(0, "u"), item(1, "u", type="computer_call")]),
        (RESPONSES, [ASKS, item(0, "u"), item(0, "u")]),
        (RESPONSES, [ASKS, item(0, "u"), output(0), item(0, "u")]),
        (RESPONSES, [ASKS, item(0, "u"), item(1, "u"), output(0), output(0, "again")]),
        (RESPONSES, [ASKS, item(0, "u"), item(1, "u"), output(0, [{"type": "odd"}])]),
        (RESPONSES, [ASKS, {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}]),
    ],
    ids=str,
)
def test_an_answer_that_a_run_could_not_give_again_goes_out_as_it_is(api: str, messages: list[Any]) -> None:
    run = brought(api, *messages)
    assert (run.state, run.calls, run.request) == (State.DUE, (), messages)


def test_a_refusal_at_the_end_is_the_end() -> None:
    assert brought(CHAT, ASKS, {"role": "assistant", "content": None, "refusal": "No."}).state is State.STOPPED


@pytest.mark.parametrize(
    ("api", "asked", "behind"),
    [
        ("anthropic", [made_calls("u", "v")], [said(result(0, "Outcome unknown: x", is_error=True), result(1))]),
        (CHAT, [chat_calls("u", "v")], [told(0, "Outcome unknown: x"), told(1)]),
        (RESPONSES, [item(0, "u"), output(0, "Outcome unknown: x"), item(1, "v")], [output(1)]),
        (RESPONSES, [item(0, "u"), item(1, "v")], [output(0, "Outcome unknown: x"), output(1)]),
        (
            RESPONSES,
            [item(8, "u", role="developer"), output(8, "Outcome unknown: y"), item(0, "u"), item(1, "v")],
            [output(1)],
        ),
    ],
    ids=str,
)
def test_a_result_that_no_tool_gave_leaves_its_call_open(api: str, asked: list[Any], behind: list[Any]) -> None:
    run = brought(api, ASKS, *asked, *behind, made_up="t0")
    assert state_of(run) == [CallState.INTENDED, CallState.SETTLED]


def test_an_approval_that_nobody_gave_is_no_work_that_may_have_begun() -> None:
    asks = {"type": "mcp_approval_request", "id": "mr_1", "name": "u", "server_label": "s", "arguments": "{}"}
    assert state_of(brought(RESPONSES, ASKS, asks, item(0, "u"))) == [CallState.NEW, CallState.INTENDED]


def test_an_answer_in_the_short_form_is_read() -> None:
    run = brought(RESPONSES, ASKS, {"role": "assistant", "content": "Half of"})
    assert (run.state, run.answer) == (State.DONE, "Half of")


def test_words_of_several_messages_are_said_one_by_one() -> None:
    run = brought("anthropic", USER, made_calls("u"), said(text("a")), said(text("b")))
    assert (state_of(run), run.pending) == ([CallState.INTENDED], (said(text("a")), said(text("b"))))


def test_the_servers_own_items_are_a_part_of_its_answer() -> None:
    served = output(5, [], "shell_call_output") | {"execution": "server"}
    run = brought(RESPONSES, ASKS, item(5, "u", type="shell_call", execution="server"), served, item(0, "u"))
    assert (state_of(run), run.calls[0].id) == ([CallState.INTENDED], "t0")


@pytest.mark.parametrize(
    ("api", "messages", "count"),
    [
        ("anthropic", [USER, made_calls("u"), said(result(0)), ANSWER], 2),
        (CHAT, [RULES, ASKS, chat_calls("u"), told(0), ANSWER], 2),
        (RESPONSES, [THINKS, SAYS, ASKS, THINKS, item(0, "u"), item(1, "u"), output(0), output(1), SAYS], 3),
        ("ledger", [{"calls": []}], 0),
    ],
    ids=str,
)
def test_answers_are_counted_as_far_as_the_messages_show(api: str, messages: list[Any], count: int) -> None:
    assert api_named(api).answers(messages) == count


def test_a_ledgers_call_has_no_transcript() -> None:
    assert api_named("ledger").last_answer([{"calls": []}]) is None


# ---- a journal that may lack its newest entries


def state_of(run: Run) -> list[CallState]:
    return [call.state for call in run.calls]


def test_every_call_free_to_begin_may_have_begun() -> None:
    run = go(with_calls("uruu"), Asked(1, 0, "approval"), Settled(1, 1, "ok", "x"), Asked(1, 3, "approval"))
    run = go(run, Decided(1, 3, "allow"))
    assert doubted(run) == (Intended(1, 2, imported=True), Intended(1, 3, imported=True))
    doubtful = go(run, *doubted(run))
    assert state_of(doubtful) == [
        CallState.ASKING_APPROVAL, CallState.SETTLED, CallState.INTENDED, CallState.INTENDED,
    ]  # fmt: skip
    assert not isinstance(next_move(doubtful, now=9999.0), Rest)


def test_a_backup_puts_in_doubt_whatever_it_does_not_prove() -> None:
    run = go(with_calls("ruxi"), Settled(1, 1, "ok", "sent"))
    assert restored(run) == (
        Intended(1, 0, imported=True), Intended(1, 2, imported=False), Intended(1, 3, imported=False),
    )  # fmt: skip
    assert all(not isinstance(next_move(go(run, *restored(run)), now=9999.0), Rest) for _ in "once")


def test_a_key_that_may_have_been_forgotten_since_the_backup_proves_nothing() -> None:
    assert restored(with_calls("i", key_life=60.0)) == (Intended(1, 0, imported=True),)
    assert restored(go(with_calls("i"), Intended(1, 0))) == ()


def test_a_call_without_terms_is_in_doubt_behind_a_backup() -> None:
    assert restored(go(made(START, TAKEN, ASK), asks("u", recorded=Recorded()))) == (Intended(1, 0, imported=True),)


def test_a_call_that_waited_for_approval_when_the_backup_was_made_is_not_asked_about_again() -> None:
    run = go(with_calls("u", approval=True), Asked(1, 0, "approval"))
    (told,) = restored(run)
    assert isinstance(told, Settled)
    assert (told.outcome, "It waited for an approval when the backup was made" in told.content) == ("unknown", True)
    assert go(run, told).state is State.DUE


def test_a_run_without_calls_has_nothing_in_doubt() -> None:
    assert doubted(made(START)) == ()
    assert asks("u").kind == "responded"
