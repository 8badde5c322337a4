"""A10, A11, A12, A15 and G01: what messages and blocks hold."""

from __future__ import annotations

import json

import pytest

from transcript.writing import GO, assistant, broken, call, findings, result, system, text, user

# ---- A10


@pytest.mark.parametrize("empty", [{"content": ""}, {"content": []}, {"content": None}, {}])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_message_without_content_is_refused(role: str, empty: dict[str, object]) -> None:
    assert broken(GO, {"role": role} | empty, GO) == ["A10@1"]


def test_the_last_message_may_be_empty_if_it_is_the_assistants() -> None:
    assert broken(GO, assistant()) == []
    assert broken(GO, assistant(), assistant()) == ["A10@1"]
    assert broken(GO, user()) == ["A10@1"]
    assert broken(GO, system()) == ["A10@1"]


@pytest.mark.parametrize("content", [0, True, {}, {"type": "text", "text": ""}])
def test_a_content_of_a_wrong_type_is_not_an_empty_one(content: object) -> None:
    assert broken(GO, {"role": "user", "content": content}) == []


# ---- A11, A12


def test_a_text_has_a_character() -> None:
    [finding] = findings(GO, assistant(text(), text(""), {"type": "text"}), GO)
    assert (finding.rule, finding.at, finding.ids) == ("A11-nonempty-text", 1, ())
    assert finding.message.startswith("message 1 holds an empty text (block 1, 2); the API answers: messages: text")


def test_a_text_in_a_result_has_a_character() -> None:
    [finding] = findings(GO, assistant(call("a")), user(result("a", [text("x"), text("")])))
    assert (finding.rule, finding.at) == ("A11-nonempty-text", 2)
    assert "(block 0.1)" in finding.message


def test_a_system_text_has_a_character() -> None:
    assert broken(GO, system(text("")), assistant(text()), GO) == ["A11@1"]


def test_a_text_is_more_than_white_space() -> None:
    [finding] = findings(GO, assistant(text(" \n\t"), text("x")), GO)
    assert (finding.rule, finding.at) == ("A12-nonblank-text", 1)
    assert broken({"role": "user", "content": "\n"}) == ["A12@0"]
    assert broken(GO, assistant(call("a")), user(result("a", [text(" ")]))) == ["A12@2"]


def test_a_result_that_is_an_empty_or_blank_string_is_no_fault() -> None:
    assert broken(GO, assistant(call("a"), call("b")), user(result("a", ""), result("b", "\n"))) == []


def test_a_text_of_a_wrong_type_is_neither_empty_nor_blank() -> None:
    assert broken(user(text(5), text([]), {"type": ["text"]}, "text", None)) == []


# ---- A15


@pytest.mark.parametrize("wrong", ["{}", [], None, 3])
def test_the_input_of_a_call_is_an_object(wrong: object) -> None:
    [finding] = findings(GO, assistant(call("a"), call("b", input=wrong)), user(result("a"), result("b")))
    assert (finding.rule, finding.at, finding.ids) == ("A15-input-object", 1, ("b",))


def test_the_input_of_a_call_is_present() -> None:
    assert broken(GO, assistant({"type": "tool_use", "id": "a"}), user(result("a"))) == ["A15@1"]


def test_a_wrong_input_is_found_without_an_id_too() -> None:
    assert findings(GO, assistant({"type": "tool_use"}), GO)[0].ids == ()


def test_only_client_calls_are_asked_for_their_input() -> None:
    assert broken(GO, assistant({"type": "server_tool_use", "id": "s", "input": "x"}), GO) == []


# ---- G01


@pytest.mark.parametrize(
    "message",
    [
        user(text("cut here: \ud83d")),
        user(text(), {"type": "image", "source": {"\udc00": 1}}),
        {"role": "user", "content": "x", "\ud800": None},
        user(result("a", [{"type": "text", "text": ["\udfff"]}])),
    ],
)
def test_half_of_a_surrogate_pair_is_found_anywhere(message: object) -> None:
    assert "G01@2" in broken(GO, assistant(call("a")), message)


def test_the_finding_shows_what_is_around_the_half_pair() -> None:
    [finding] = findings(user(text("a long line that was cut \ud83d")))
    assert finding.message == (
        r"message 0 holds half of a surrogate pair, in 't was cut \ud83d'; "
        "the API answers: The request body is not valid JSON: no low surrogate in string: "
        "line 1 column N (char N)."
    )


def test_a_whole_pair_is_no_fault() -> None:
    assert broken(user(text(json.loads(r'"\ud83d\ude00 e\u0301 \u2028 \u0000"')))) == []


def test_depth_is_no_obstacle() -> None:
    deep: object = "\ud800"
    for _ in range(100_000):
        deep = {"in": [deep]}
    assert broken(GO, assistant(call("a", input=deep)), user(result("a", deep))) == ["G01@1", "G01@2"]
