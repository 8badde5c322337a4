"""What a repair makes of each kind of fault, as literal messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstride.core import words as run_words
from midstride.core.run import Call
from midstride.transcript import check, entries, guess_provider, remedy, repair, words
from transcript.test_anthropic_rules import (
    BY_CODE,
    CITED,
    CODE,
    CUT,
    FALL,
    FILE,
    FOUND,
    HID,
    LISTED,
    LONG,
    PNG,
    RAN,
    SHORT,
    UPLOAD,
    document,
    encoded,
    hit,
    image,
    marked,
    png,
    sent,
)
from transcript.writing import (
    GO,
    assistant,
    call,
    compaction,
    result,
    searched,
    searching,
    system,
    text,
    thinking,
    user,
)

ASK = assistant(call("a"))
SAID = assistant(text())
UNKNOWN = words.unknown("look({})")


def mended(messages: Any, provider: str = "anthropic", **facts: Any) -> Any:
    return repair(messages, provider=provider, **facts).messages


def unknown(one: str, **fields: Any) -> dict[str, Any]:
    return result(one, UNKNOWN, is_error=True, **fields)


# ---- the words


def test_the_words_are_those_of_the_run() -> None:
    run = Call(1, 0, "a", "look", {}, recorded=None)  # type: ignore[arg-type]
    why = "The transcript holds no result for it."
    assert words.unknown(words.asked_for("look", {})) == run_words.unknown(run, why)
    assert words.not_started("so.") == run_words.not_started("so.")
    assert words.denied() == run_words.denied("", started=False)
    assert words.failed("so.") == run_words.failed("so.")
    long = {"a": "x" * 400}
    assert words.asked_for("look", long).endswith("...)")
    assert words.asked_for(None, "raw") == "the call(raw)"


def test_four_states_are_told_apart() -> None:
    calls = assistant(*[call(one) for one in "abcde"])
    states = {one: {"state": state} for one, state in zip("abcd", words.STATES, strict=True)}
    blocks = mended([GO, calls], results=states)[2]["content"]
    begins = ["Not started:", "Outcome unknown:", "Denied:", "Done:", "Outcome unknown:"]
    assert [b["content"].startswith(begin) for b, begin in zip(blocks, begins, strict=True)] == [True] * 5
    assert [b.get("is_error", False) for b in blocks] == [True, True, True, False, True]


def test_a_recorded_result_is_taken_as_it_is() -> None:
    recorded = {"a": "seen", "b": {"content": [text("seen")], "is_error": True}, "c": 7, "d": {"state": "odd"}}
    blocks = mended([GO, assistant(*[call(one) for one in "abcd"])], results=recorded)[2]["content"]
    assert blocks == [
        result("a", "seen"),
        result("b", [text("seen")], is_error=True),
        result("c", "7"),
        result("d", None),
    ]


# ---- Anthropic: messages, facts, what they become

MENDS: list[tuple[list[Any], dict[str, Any], list[Any]]] = [
    ([user(text("a\ud800"))], {}, [user(text("a\ufffd"))]),
    (
        [GO, assistant(call("a", input={"n": float("nan")})), user(result("a"))],
        {},
        [GO, assistant(call("a", input={"n": "nan"})), user(result("a"))],
    ),
    ([user(text("a\0"))], {"request": {"profile": "strict"}}, [user(text("a\ufffd"))]),
    ([{"role": "human", "content": "x"}, {"role": "robot", "content": "y"}], {}, [{"role": "user", "content": "x"}]),
    ([{"role": "user", "content": text()}], {}, [GO | {"content": [text()]}]),
    ([user("bare", {"type": "odd"})], {}, [user(text("bare"))]),
    ([GO | {"id": 1}, assistant(text() | {"at": 1}), user(text() | {"at": 1})], {}, [GO, SAID, user(text())]),
    ([GO, ASK, user(result("a", [text() | {"at": 1}]))], {}, [GO, ASK, user(result("a", [text()]))]),
    (
        [GO, assistant(text() | {"citations": [{"cache_control": SHORT}, 7]})],
        {},
        [GO, assistant(text() | {"citations": [{}, 7]})],
    ),
    ([GO, assistant(thinking() | {"cache_control": SHORT}, text())], {}, [GO, assistant(thinking(), text())]),
    # the last response
    ([GO, assistant(call("a"), call("b"))], {"request": {"last_stop_reason": "max_tokens"}}, [GO]),
    (
        [GO, assistant(call("a"), call("b"))],
        {"request": {"last_stop_reason": None}, "results": {"a": "ran"}},
        [GO, ASK, user(result("a", "ran"))],
    ),
    ([GO, SAID], {"request": {"last_stop_reason": "refusal"}}, [GO]),
    ([GO, assistant()], {"request": {"last_stop_reason": "end_turn"}}, [GO]),
    (
        [GO, SAID],
        {"request": {"last_stop_reason": "pause_turn"}, "journal": sent([searching("s")])},
        [GO, assistant(searching("s"))],
    ),
    # roles, calls
    ([user(thinking(), compaction(), text())], {}, [user(text())]),
    ([user(text(), call("a"), result("a"))], {}, [user(text()), ASK, user(result("a"))]),
    ([user(thinking())], {}, []),
    (
        [GO, assistant(call("a", input='{"b": 1}')), user(result("a"))],
        {},
        [GO, assistant(call("a", input={"b": 1})), user(result("a"))],
    ),
    (
        [GO, assistant(call("a", input="{")), user(result("a"))],
        {"journal": sent([call("a", input={"b": 1})])},
        [GO, assistant(call("a", input={"b": 1})), user(result("a"))],
    ),
    (
        [GO, assistant(text(), call("a", input="{"))],
        {},
        [
            GO,
            assistant(text(), call("a", input={"INVALID_JSON": "{"})),
            user(result("a", "Not started: its arguments could not be read. It had no effect.", is_error=True)),
        ],
    ),
    (
        [GO, assistant(call("a", name="")), user(result("a"))],
        {},
        [GO, assistant(call("a", name="unknown_tool")), user(result("a"))],
    ),
    (
        [GO, assistant(call("a", name="n" * 300)), user(result("a"))],
        {},
        [GO, assistant(call("a", name="n" * 200)), user(result("a"))],
    ),
    # pairing
    ([GO, ASK, SAID, GO], {}, [GO, ASK, SAID, user(unknown("a"), text("Go."))]),
    (
        [GO, assistant(call("a", toolset_name="b"))],
        {},
        [GO, assistant(call("a", toolset_name="b")), user(unknown("a", toolset_name="b"))],
    ),
    (
        [GO, assistant(call("a.b"), call("a_b")), user(result("a.b"), result("a_b"))],
        {},
        [GO, assistant(call("a_b_2"), call("a_b")), user(result("a_b_2"), result("a_b"))],
    ),
    ([GO, assistant(call(None)), user(result(None))], {}, [GO, assistant(call("call")), user(result("call"))]),
    (
        [GO, ASK, user(result("a", "1")), ASK, user(result("a", "2"))],
        {},
        [GO, ASK, user(result("a", "1")), assistant(call("a_2")), user(result("a_2", "2"))],
    ),
    (
        [GO, ASK, user(result("a")), ASK, user(result("a"), text("on"))],
        {},
        [GO, ASK, user(result("a")), user(text("on"))],
    ),
    (
        [GO, ASK, user(result("a")), assistant(text(), call("a")), GO],
        {},
        [GO, ASK, user(result("a")), assistant(text(), call("a_2")), user(unknown("a_2"), text("Go."))],
    ),
    (
        [GO, ASK, user(result("a", "No result.", is_error=True)), SAID, user(result("a", "real"))],
        {},
        [GO, ASK, user(result("a", "real")), SAID],
    ),
    (
        [GO, ASK, user(result("a", "first")), SAID, user(result("a", "second"), text())],
        {},
        [GO, ASK, user(result("a", "first")), SAID, user(text())],
    ),
    (
        [GO, SAID, user(result("a"), text())],
        {"journal": sent([text(), call("a")])},
        [GO, assistant(text(), call("a")), user(result("a"), text())],
    ),
    ([GO, ASK, user(text(), result("a"))], {}, [GO, ASK, user(result("a"), text())]),
    (
        [GO, assistant(call("x.y")), GO, assistant(compaction()), user(result("z.z"), text())],
        {},
        [GO, assistant(call("x_y")), GO, assistant(compaction()), user(text())],
    ),
    ([GO, assistant(searching("srvtoolu_1")), user(result("srvtoolu_1"), text())], {}, [GO, user(text())]),
    # system
    ([system(text()), GO], {}, [GO]),
    (
        [GO, ASK, system(text()), user(result("a"))],
        {"request": {"model_class": "system-role-supported"}},
        [GO, ASK, user(result("a")), system(text())],
    ),
    (
        [GO, SAID, system(text()), SAID],
        {"request": {"model_class": "system-role-supported"}},
        [GO, SAID, SAID, user(text("Continue."))],
    ),
    # servers
    (
        [GO, assistant(searching("srvtoolu_1"), call("a")), user(result("a"), text()), SAID, GO],
        {},
        [GO, ASK, user(result("a"), text()), SAID, GO],
    ),
    (
        [GO, assistant(CODE, BY_CODE), user(result("p", [text(), image(PNG)]))],
        {},
        [
            GO,
            assistant(CODE, BY_CODE),
            user(result("p", [text(), text("[What is no text was left out here: code takes text only.]")])),
        ],
    ),
    ([GO, assistant(searching("srvtoolu_1")), user(result("x"))], {"request": {"tools": []}}, [GO]),
    (
        [GO, assistant(searched("srvtoolu_1"), text()), GO],
        {"journal": sent([searching("srvtoolu_1"), searched("srvtoolu_1"), text()])},
        [GO, assistant(searching("srvtoolu_1"), searched("srvtoolu_1"), text()), GO],
    ),
    (
        [GO, assistant(searching("srvtoolu_1"), searched("srvtoolu_1"), searched("srvtoolu_2"), text()), GO],
        {},
        [GO, assistant(searching("srvtoolu_1"), searched("srvtoolu_1"), text()), GO],
    ),
    (
        [
            GO,
            assistant(searching("srvtoolu_1"), {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1"}, text()),
            GO,
        ],
        {"request": {"betas": [7]}},
        [GO, SAID, GO],
    ),
    (
        [GO, ASK, user(result("a", [{"type": "tool_reference", "tool_name": "t"}, text()]))],
        {"request": {"tools": ["look"]}},
        [GO, ASK, user(result("a", [text("[The tool t is gone.]"), text()]))],
    ),
    (
        [GO, assistant(searching("srvtoolu_1"), LISTED, text()), GO],
        {"request": {"tools": ["web_search"]}},
        [GO, assistant(searching("srvtoolu_1"), LISTED | {"content": {"tool_references": [7]}}, text()), GO],
    ),
    (
        [GO, system({"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "t"}}, text()), SAID, GO],
        {"request": {"tools": ["x"]}},
        [GO, system(text()), SAID, GO],
    ),
    # emptiness, results
    ([GO, ASK, user(result("a", [text("")]))], {}, [GO, ASK, user({"type": "tool_result", "tool_use_id": "a"})]),
    ([GO, ASK, user(result("a", [text(" "), text()]))], {}, [GO, ASK, user(result("a", [text()]))]),
    (
        [GO, ASK, user(result("a", "", is_error=True))],
        {},
        [GO, ASK, user(result("a", "Failed: the call ended with an error and gave no reason.", is_error=True))],
    ),
    (
        [GO, ASK, user(result("a", [image(PNG)], is_error=True))],
        {},
        [GO, ASK, user(result("a", [text("Failed: the call ended with an error."), image(PNG)]))],
    ),
    ([GO, ASK, user(result("a", {"b": 1}))], {}, [GO, ASK, user(result("a", '{"b": 1}'))]),
    (
        [GO, ASK, user(result("a", ["bare", {"type": "odd"}]))],
        {},
        [GO, ASK, user(result("a", [text("bare"), text('{"type": "odd"}')]))],
    ),
    (
        [GO, assistant(call("a", toolset_name="b")), user(result("a"))],
        {},
        [GO, assistant(call("a", toolset_name="b")), user(result("a", toolset_name="b"))],
    ),
    (
        [GO, ASK, user(result("a", [text(), hit([text("h")])]))],
        {},
        [GO, ASK, user(result("a", [hit([text("h"), text()])]))],
    ),
    (
        [GO, ASK, user(result("a", [hit([]), image(PNG)]))],
        {},
        [GO, ASK, user(result("a", [text(json.dumps(hit([]))), image(PNG)]))],
    ),
    (
        [user(hit("w"), text()), ASK, user(result("a", [hit([7])]))],
        {},
        [user(hit([text('"w"')]), text()), ASK, user(result("a", [hit([text("7")])]))],
    ),
    ([user(document(True), document(), document(True))], {}, [user(document(True), document(True), document(True))]),
    # pictures, files
    ([user(image(PNG, "image/jpeg"))], {}, [user(image(PNG))]),
    ([user(image(""))], {}, [user(text("[A picture was left out here: it is empty.]"))]),
    (
        [user(image(png(8001, 1)))],
        {},
        [user(text("[A picture was left out here: it is 8001 x 1 pixels, and a side has 8000 at most.]"))],
    ),
    (
        [user(image(png(2001, 1)), *[image(PNG)] * 20)],
        {},
        [user(text("[A picture was left out here: it is too wide beside so many.]"), *[image(PNG)] * 20)],
    ),
    (
        [user(image(PNG)), SAID, user(*[image(PNG)] * 600)],
        {},
        [user(text("[A picture was left out here: it is one too many.]")), SAID, user(*[image(PNG)] * 600)],
    ),
    (
        [user(document(type="base64", media_type="application/pdf", data=encoded(b"/Encrypt")))],
        {},
        [user(text("[A document was left out here: it is encrypted.]"))],
    ),
    (
        [user(FILE, UPLOAD, text())],
        {"request": {"gone": ["file_1"]}},
        [
            user(
                text("[The file file_1 was left out here: it is gone.]"),
                text("[The file file_1 was left out here: it is gone.]"),
                text(),
            )
        ],
    ),
    # opaque
    (
        [GO, assistant(thinking("x"), call("a")), user(result("a"))],
        {"journal": sent([thinking("y"), call("b")])},
        [GO, ASK, user(result("a"))],
    ),
    (
        [GO, assistant(text(), call("a")), user(result("a"))],
        {"journal": sent([thinking("y"), text(), call("a")])},
        [GO, assistant(thinking("y"), text(), call("a")), user(result("a"))],
    ),
    (
        [GO, assistant(thinking(signature=None), text()), GO, SAID, GO],
        {"journal": sent([thinking(), text()])},
        [GO, assistant(thinking(), text()), GO, SAID, GO],
    ),
    (
        [GO, assistant(thinking("", "x"), call("a")), user(result("a")), SAID, GO],
        {"journal": sent([thinking(), text()])},
        [GO, ASK, user(result("a")), SAID, GO],
    ),
    (
        [GO, assistant(call("a")), user(result("a"))],
        {"journal": sent([thinking(), call("a")]), "request": {"thinking": {"type": "enabled"}}},
        [GO, assistant(thinking(), call("a")), user(result("a"))],
    ),
    (
        [GO, assistant(thinking(), text()), GO],
        {"journal": sent([thinking(), text()], model="m"), "request": {"model": "n"}},
        [GO, SAID, GO],
    ),
    (
        [GO, assistant(text(), thinking(), text()), GO],
        {"request": {"thinking": {"type": "enabled"}}},
        [GO, assistant(text(), text()), GO],
    ),
    ([GO, assistant({"type": "thinking", "signature": "s"}, text()), GO], {}, [GO, SAID, GO]),
    (
        [GO, assistant({"type": "thinking", "signature": "s"}, text()), GO],
        {"journal": sent([thinking(), text()])},
        [GO, assistant(thinking(), text()), GO],
    ),
    ([GO, assistant(text(), thinking(), thinking()), GO], {}, [GO, SAID, GO]),
    (
        [GO, assistant(CODE, CUT, text(), call("a")), user(result("a"))],
        {"journal": sent([CODE, RAN])},
        [GO, assistant(text(), call("a")), user(result("a"))],
    ),
    (
        [GO, assistant(CODE, CUT, text()), GO],
        {"journal": sent([CODE, RAN, text()])},
        [GO, assistant(CODE, RAN, text()), GO],
    ),
    (
        [GO, assistant(HID, call("a")), user(result("a")), SAID, GO],
        {"journal": sent([HID | {"data": "o"}])},
        [GO, ASK, user(result("a")), SAID, GO],
    ),
    (
        [GO, assistant(CITED, call("a")), user(result("a"))],
        {"journal": sent([searching("srvtoolu_1"), FOUND])},
        [GO, assistant(text(), call("a")), user(result("a"))],
    ),
    ([GO, assistant(compaction(""), text()), GO], {}, [GO, assistant(compaction(None), text()), GO]),
    ([GO, SAID, GO], {"journal": sent([compaction(), text()])}, [GO, assistant(compaction(), text()), GO]),
    (
        [GO, assistant(text(), call("a")), user(result("a"))],
        {"journal": sent([compaction()])},
        [GO, assistant(compaction(), text(), call("a")), user(result("a"))],
    ),
    (
        [GO, assistant(call("a"), call("b"), FALL, text()), user(result("a"))],
        {},
        [GO, assistant(FALL, call("a"), text()), user(result("a"))],
    ),
    ([GO, SAID, GO], {"journal": sent([FALL, text()])}, [GO, assistant(FALL, text()), GO]),
    # ends
    (
        [user(*[marked()] * 3), SAID, user(marked(), marked(), text())],
        {"request": {"system": [marked()]}},
        [user(text(), text(), marked()), SAID, user(marked(), marked(), text())],
    ),
    ([user(marked(SHORT), marked(LONG))], {}, [user(marked(SHORT), marked(SHORT))]),
    (
        [GO, assistant(call("a"), call("b")), user(result("a"), text()), user(result("b"))],
        {},
        [GO, assistant(call("a"), call("b")), user(result("a"), result("b"), text())],
    ),
    ([GO, SAID, SAID], {"request": {"profile": "bedrock"}}, [GO, assistant(text(), text())]),
    (
        [GO, {"role": "assistant", "content": "x "}],
        {"request": {"model_class": "prefill-capable"}},
        [GO, {"role": "assistant", "content": "x"}],
    ),
    ([GO, assistant(text("x "))], {"request": {"model_class": "prefill-capable"}}, [GO, assistant(text("x"))]),
    ([SAID, GO], {}, [user(text("(The beginning of this conversation was left out.)")), SAID, GO]),
    ([GO, SAID], {"request": {"model_class": "no-prefill"}}, [GO, SAID, user(text("Continue."))]),
    ([GO, SAID], {"request": {"model_class": "no-prefill", "last_stop_reason": "end_turn"}}, [GO, SAID]),
]


@pytest.mark.parametrize(("messages", "facts", "wanted"), MENDS)
def test_a_fault_is_mended(messages: list[Any], facts: dict[str, Any], wanted: list[Any]) -> None:
    assert mended(messages, **facts) == wanted


MORE: list[tuple[list[Any], dict[str, Any], list[Any]]] = [
    (
        [GO, assistant(CODE, BY_CODE), user(result("p")), user(text()), SAID, GO],
        {},
        [GO, assistant(BY_CODE), user(result("p")), user(text()), SAID, GO],
    ),
    (
        [assistant(compaction(), CODE, BY_CODE), user(result("p"), text()), SAID, GO],
        {},
        [assistant(compaction(), BY_CODE), user(result("p"), text()), SAID, GO],
    ),
    (
        [GO, assistant(call("a"), call("b")), user(result("a", [image(PNG)], is_error=True), result("b"))],
        {},
        [
            GO,
            assistant(call("a"), call("b")),
            user(result("a", [text("Failed: the call ended with an error."), image(PNG)]), result("b")),
        ],
    ),
    (
        [GO, assistant(text(), thinking(), call("a")), user(result("a"))],
        {"request": {"thinking": {"type": "enabled"}}, "journal": sent([thinking(), text(), call("a")])},
        [GO, assistant(thinking(), text(), call("a")), user(result("a"))],
    ),
    (
        [GO, assistant(text(), call("a"), text("z")), user(result("a"))],
        {"journal": sent([FALL, text(), FALL, text("z")])},
        [GO, assistant(FALL, text(), FALL, call("a"), text("z")), user(result("a"))],
    ),
    (
        [GO, assistant(call(""), call(None)), user(result(7, "odd"), result("", "empty"))],
        {},
        [GO, assistant(call("call"), call("call_2")), user(result("call_2", "odd"), result("call", "empty"))],
    ),
    (
        [GO, assistant(CODE, BY_CODE, call("q")), user(result("p"), result("q"), text()), SAID, GO],
        {},
        [GO, assistant(BY_CODE, call("q")), user(result("p"), result("q"), text()), SAID, GO],
    ),
    (
        [GO, assistant(CODE, BY_CODE), user(result("p", "ok"), text())],
        {},
        [GO, assistant(CODE, BY_CODE), user(result("p", "ok"))],
    ),
    (
        [GO, assistant(thinking("x"), text()), GO],
        {
            "journal": sent([thinking("y"), text()], model="m"),
            "request": {"model": "n", "last_stop_reason": "pause_turn"},
        },
        [GO, SAID, GO],
    ),
    (
        [GO, assistant(text(), thinking(), text()), GO, SAID, GO],
        {"request": {"thinking": {"type": "enabled"}}, "journal": sent([thinking(), text(), text()])},
        [GO, assistant(thinking(), text(), text()), GO, SAID, GO],
    ),
    ([user(), user()], {"request": {"profile": "bedrock"}}, []),
    ([user({"type": "text", "text": float("inf")})], {}, [user(text("inf"))]),
    (
        [GO, assistant(call("a", input={"n": 1, "s": "\ud800"})), user(result("a"))],
        {},
        [GO, assistant(call("a", input={"n": 1, "s": "\ufffd"})), user(result("a"))],
    ),
    ([], {"request": {"system": [marked(SHORT), marked(LONG)]}}, []),
    (
        [GO, assistant(CODE, CUT, text(), call("a")), user(result("a"))],
        {"journal": sent([CODE, RAN, CITED])},
        [GO, assistant(text(), call("a")), user(result("a"))],
    ),
]


@pytest.mark.parametrize(("messages", "facts", "wanted"), MORE)
def test_a_rarer_fault_is_mended(messages: list[Any], facts: dict[str, Any], wanted: list[Any]) -> None:
    assert mended(messages, **facts) == wanted


def test_an_answer_that_came_back_empty_is_restored_and_the_one_before_it_stays() -> None:
    ask = assistant(call("a"), text())
    received = [thinking(), text("Done.")]
    journal = {"assistant_1": {"content": [thinking(), *ask["content"]]}, "assistant_3": {"content": received}}
    messages = [user(), ask, user(result("a")), {"role": "assistant"}, user(text("Go on."))]
    made = mended(messages, journal=journal)
    assert made[1] is ask
    assert made[3] == assistant(*received)


def test_a_repair_ends_even_if_two_mends_undo_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from midstride.transcript import repair as _  # noqa: F401
    from midstride.transcript.repair import repair as mend

    monkeypatch.setitem(mend.__globals__, "PASSES_MAX", 1)
    made = mend([GO, assistant(text(""), call("a"))], provider="anthropic")
    assert [one.rule[:3] for one in made.findings] == ["A11"]


def test_what_the_user_said_too_early_is_held_back() -> None:
    messages = [GO, assistant(searching("srvtoolu_1"), call("a")), user(result("a"), text("Be quick."))]
    made = repair(messages, provider="anthropic")
    assert made.messages[2] == user(result("a"))
    assert made.held == (user(text("Be quick.")),)


def test_what_belongs_into_the_system_prompt_is_handed_over() -> None:
    made = repair([{"role": "system", "content": "Be brief."}, GO], provider="anthropic")
    assert (made.messages, made.system) == ([GO], ("Be brief.",))


def test_the_facts_move_with_the_messages() -> None:
    journal = {"assistant_2": {"content": [text()]}, "assistant_9": 1, "responses": []}
    made = repair([GO, user(), SAID, GO], provider="anthropic", journal=journal, request={"model": "m"})
    assert made.journal == {"assistant_1": {"content": [text()]}, "responses": []}
    assert made.request == {"model": "m"}


@pytest.mark.parametrize(("value", "wanted"), [(GO, [GO]), (None, []), ("x", []), ((GO,), (GO,))])
def test_what_is_no_list_is_a_message_or_nothing(value: Any, wanted: Any) -> None:
    assert mended(value) == wanted


# ---- for whoever shows a finding


def test_a_finding_leads_to_what_mends_it() -> None:
    [finding] = check([GO, ASK], provider="anthropic")
    assert remedy(finding, "anthropic").startswith("Each call without a result gets the recorded one")


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "openai-responses"])
def test_everything_is_said_about_a_rule(provider: str) -> None:
    found = entries(provider)
    assert len({entry.name for entry in found}) == len(found) > 20
    assert all(entry.says and entry.repair.endswith(".") and entry.source for entry in found)
    assert all(sentence.endswith(".") for entry in found for sentence in entry.says)


@pytest.mark.parametrize(
    ("messages", "provider"),
    [
        ([GO, ASK], "anthropic"),
        ([{"role": "tool"}], "openai-chat"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "openai-chat"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "openai-responses"),
        ([{"type": "function_call"}], "openai-responses"),
        ([GO], None),
        (7, None),
    ],
)
def test_a_provider_is_told_by_what_only_it_has(messages: Any, provider: str | None) -> None:
    assert guess_provider(messages) == provider
