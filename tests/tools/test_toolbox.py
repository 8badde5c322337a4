"""The tools of one agent: which names they have, and what is recorded of a call before it starts."""

from typing import Any

import pytest

from midstride.core.journal import Recorded
from midstride.errors import DeclarationError
from midstride.tools import Toolbox, tool


@tool.read_only
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool(key=lambda to: to)
def send_mail(to: str, text: str = "") -> None:
    """Send a mail."""


BOX = Toolbox([read_file, send_mail])


def refused(tools: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        Toolbox(tools)
    return str(caught.value)


def test_tools_are_defined_in_the_order_given_in_anthropics_form():
    assert BOX.names == ("read_file", "send_mail")
    assert BOX.definitions[0] == {
        "name": "read_file",
        "description": "Read a file.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    }


def test_tools_are_got_by_name():
    assert (BOX.get("read_file"), BOX.get("nope"), BOX.get(["read_file"])) == (read_file, None, None)
    assert BOX.terms == {"read_file": read_file.terms, "send_mail": send_mail.terms}


def test_a_good_call_is_recorded_with_its_tools_terms():
    assert BOX.record("read_file", {"path": "a"}) == Recorded(read_file.terms)


def test_a_call_of_a_keyed_tool_is_recorded_with_its_key():
    first, second = BOX.record("send_mail", {"to": "a", "text": "x"}), BOX.record("send_mail", {"to": "a"})
    assert first == second
    assert first.key is not None
    assert len(first.key) == 64


def test_an_unknown_tool_is_a_problem_that_names_what_there_is():
    assert BOX.record("read_fil", {}) == Recorded(
        problem="there is no tool read_fil; did you mean read_file? the tools are: read_file, send_mail"
    )
    assert BOX.record("zzz", {}).problem == "there is no tool zzz; the tools are: read_file, send_mail"
    assert Toolbox().record("zzz", {}).problem == "there is no tool zzz; there are no tools at all"


def test_an_unknown_name_of_any_kind_is_a_problem_in_safe_text():
    assert BOX.record("a\ud83d\x00", {}).problem == (
        "there is no tool a\ufffd\ufffd; the tools are: read_file, send_mail"
    )
    assert BOX.record(None, {}).problem == "there is no tool of that name; the tools are: read_file, send_mail"
    assert len(BOX.record("x" * 9999, {}).problem or "") < 300


def test_a_hundred_names_are_not_all_listed():
    box = Toolbox([tool(name=f"tool_{n}")(lambda: None) for n in range(100)])
    problem = box.record("zzz", {}).problem
    assert problem is not None
    assert problem.endswith("tool_38, tool_39 and 60 more")


def test_wrong_arguments_are_recorded_as_a_problem_beside_the_terms():
    assert BOX.record("read_file", {}) == Recorded(
        read_file.terms,
        problem="read_file was not called. Correct its arguments and call it again:\n- path: is missing",
    )


def test_a_failing_key_function_is_recorded_as_a_problem_beside_the_terms():
    @tool(key=lambda n: 1 // n)
    def pay(n: int) -> None: ...

    recorded = Toolbox([pay]).record("pay", {"n": 0})
    assert (recorded.terms, recorded.key) == (pay.terms, None)
    assert "its key function failed" in str(recorded.problem)


def test_two_tools_of_one_name_are_refused():
    assert refused([read_file, tool(name="read_file")(lambda: 1)]) == (
        "two tools are called 'read_file': give one of them another name="
    )


def test_a_plain_function_is_refused():
    def plain() -> None: ...

    assert refused([plain]) == "plain is no tool: decorate it with @tool or one of its sisters"
    assert refused([tool.read_only()]).endswith("is no tool: decorate it with @tool or one of its sisters")


def test_a_single_tool_is_refused():
    assert refused(read_file) == "tools are given as a list, not as <Tool read_file (read_only)>: write tools=[...]"
    assert refused(None) == "tools are given as a list, not as None: write tools=[...]"


def test_a_verifiable_tool_without_verify_is_refused():
    @tool.verifiable(timeout=3)
    def open_issue(title: str) -> None: ...

    assert refused([open_issue]) == (
        "verifiable tool 'open_issue' has no verify: add @open_issue.verify, or declare it with @tool"
    )
    open_issue.verify(lambda title: None)
    assert Toolbox([open_issue]).names == ("open_issue",)
