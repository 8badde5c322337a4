"""What a model is told to give, and what it is told when it gives something else."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from midstride.errors import DeclarationError
from midstride.tools import tool
from midstride.tools.schema import Problem, Valid, read_docstring


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    title: str
    count: int = 1


@dataclass
class Point:
    x: int


@tool
def pay(cents: int, currency: str = "eur", notes: list[str] | None = None) -> None: ...


@tool
def draw(day: date, colour: Colour, lines: list[Line], at: Point, price: Decimal, to: Path, id: UUID) -> None: ...


def schema(function: Any) -> Any:
    return tool(function).definition["input_schema"]


def problem(arguments: Any, made: Any = pay) -> str:
    checked = made.validate(arguments)
    assert isinstance(checked, Problem)
    return checked.text


# ---- the schema


def test_a_schema_is_a_closed_object_with_defaults_and_without_titles():
    assert schema(pay.function) == {
        "type": "object",
        "properties": {
            "cents": {"type": "integer"},
            "currency": {"type": "string", "default": "eur"},
            "notes": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}], "default": None},
        },
        "required": ["cents"],
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_takes_an_empty_object():
    def ping() -> None: ...

    assert schema(ping) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool(ping).validate({}) == Valid({})


def test_models_keep_a_field_called_title():
    assert schema(draw.function)["$defs"]["Line"] == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        "required": ["title"],
    }


def test_a_field_says_more_about_a_parameter_than_the_docstring():
    def add(n: Annotated[int, Field(description="A number.", le=9)], m: int) -> None:
        """Add.

        Args:
            n: Something.
            m: Another.
        """

    assert schema(add)["properties"] == {
        "n": {"type": "integer", "maximum": 9, "description": "A number."},
        "m": {"type": "integer", "description": "Another."},
    }


def test_names_that_pydantic_uses_itself_are_free_for_parameters():
    def odd(json: int, model_config: int, copy: int, _private: int, p0: int) -> None: ...

    given = {"json": 1, "model_config": 2, "copy": 3, "_private": 4, "p0": 5}
    assert tool(odd).validate(given) == Valid(given)


def test_a_default_that_is_no_json_is_left_out_of_the_schema():
    marker = object()

    def odd(a: float = float("nan"), b: Any = marker) -> None: ...

    assert schema(odd)["properties"] == {"a": {"type": "number"}, "b": {}}
    assert tool(odd).validate({"a": 1.0}) == Valid({"a": 1.0, "b": marker})


def test_a_field_as_a_default_is_refused():
    def odd(n: int = Field(3)) -> None: ...

    with pytest.raises(DeclarationError, match=r"n has Field as its default: write `n: Annotated\[type, Field"):
        tool(odd)


def test_a_digest_is_that_of_the_canonical_schema():
    def ping() -> None: ...

    # sha256 of {"additionalProperties":false,"properties":{},"type":"object"}
    assert tool(ping).terms.schema == "99334726611ccf58a148b0814696bfa6fe08c1b2d027e946beccf5a74331c9aa"


def test_a_digest_changes_with_the_parameters_and_with_nothing_else():
    def first(n: int) -> int:
        return n

    def second(n: int) -> str:
        """Do it differently."""
        return "x"

    def third(m: int) -> None: ...

    assert tool(first).terms.schema == tool(second).terms.schema != tool(third).terms.schema


DIGEST_OF_SETS = """
from typing import Literal
from midstride.tools import tool
@tool
def f(a: set[str] = {"x", "y", "z"}, b: frozenset[str | int] = frozenset({"q", "r", 1}), c: Literal["b", "a"] = "a"):
    pass
print(f.terms.schema)
"""


def test_a_digest_is_the_same_in_every_process():
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST_OF_SETS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


# ---- the check


def test_values_come_as_python_objects():
    arguments = {
        "day": "2026-01-02",
        "colour": "red",
        "lines": [{"title": "a"}],
        "at": {"x": 3},
        "price": "1.50",
        "to": "/tmp/a",
        "id": "00000000-0000-0000-0000-000000000001",
    }
    assert draw.validate(arguments) == Valid(
        {
            "day": date(2026, 1, 2),
            "colour": Colour.RED,
            "lines": [Line(title="a")],
            "at": Point(3),
            "price": Decimal("1.50"),
            "to": Path("/tmp/a"),
            "id": UUID(int=1),
        }
    )


def test_each_bad_field_is_named_with_what_was_given():
    assert problem({"cents": "ten", "curency": "usd", "notes": ["a", 2]}) == (
        "pay was not called. Correct its arguments and call it again:\n"
        "- cents: Input should be a valid integer, unable to parse string as an integer, got 'ten'\n"
        "- notes[1]: Input should be a valid string, got 2\n"
        "- curency: is unknown; the parameters are: cents, currency, notes"
    )


def test_a_missing_field_is_named_by_its_path():
    assert "\n- cents: is missing" in problem({})
    assert "\n- lines[0].title: is missing" in problem({"lines": [{}]}, draw)


def test_an_argument_for_a_tool_without_parameters_is_named():
    assert problem({"x": 1}, tool(name="ping")(lambda: None)).endswith("\n- x: is unknown; it takes no parameters")


@pytest.mark.parametrize(("arguments", "shown"), [("{}", "'{}'"), (None, "None"), ([1], "[1]"), (float("nan"), "nan")])
def test_arguments_that_are_no_object_are_a_problem(arguments, shown):
    assert problem(arguments) == f"pay was not called: its arguments must be a JSON object, got {shown}."


def test_a_problem_is_capped_whatever_was_given():
    assert len(problem({"cents": "x" * 1_000_000})) < 300
    assert len(problem({f"{'n' * 500}{i}": i for i in range(100)})) <= 2_000
    assert "and 81 more" in problem({str(i): i for i in range(100)})


def test_a_problem_is_safe_text():
    text = problem({"cents": "\ud83d\x00"})
    assert "got '\ufffd\ufffd'" in text


def test_a_validator_that_fails_in_its_own_way_is_a_problem():
    def broken(value: int) -> int:
        raise KeyError(value)

    @tool
    def count(n: Annotated[int, AfterValidator(broken)]) -> None: ...

    assert problem({"n": 3}, count) == "count was not called: its arguments cannot be checked. KeyError: 3"


def test_a_tool_cannot_change_what_was_recorded():
    @tool
    def keep(things: Any) -> None: ...

    arguments = {"things": [[1]]}
    checked = keep.validate(arguments)
    assert isinstance(checked, Valid)
    checked.arguments["things"][0].append(2)
    assert arguments == {"things": [[1]]}


def test_a_default_is_not_shared_between_calls():
    @tool
    def keep(things: list[int] = []) -> None: ...  # noqa: B006

    for _ in range(2):
        checked = keep.validate({})
        assert isinstance(checked, Valid)
        assert checked.arguments["things"] == []
        checked.arguments["things"].append(1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None)
@given(JSON | st.dictionaries(st.sampled_from(["cents", "currency", "notes", "x"]), JSON))
def test_a_check_never_raises_and_always_speaks_safe_text(arguments):
    checked = pay.validate(arguments)
    if isinstance(checked, Problem):
        checked.text.encode()
        assert 0 < len(checked.text) <= 2_000


# ---- docstrings

GOOGLE = """
    Send a mail.

    It is sent at once.

    Args:
        to (str): Whom to
            send it to.
        subject: What it is about: a line.

    Returns:
        Its id.
"""
NUMPY = """
    Send a mail.

    It is sent at once.

    Parameters
    ----------
    to : str
        Whom to
        send it to.
    subject : str, optional
        What it is about: a line.

    Returns
    -------
    str
        Its id.
"""
SPHINX = """Send a mail.

    It is sent at once.

    :param str to: Whom to
        send it to.
    :type to: str
    :param subject: What it is about: a line.
    :returns: Its id.
"""
RETURNS = {GOOGLE: "Returns:\n    Its id.", NUMPY: "Returns\n-------\nstr\n    Its id.", SPHINX: ":returns: Its id."}


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_parameters_are_read_from_a_docstring_in_every_manner(docstring):
    description, docs = read_docstring(docstring)
    assert docs == {"to": "Whom to send it to.", "subject": "What it is about: a line."}
    assert description == f"Send a mail.\n\nIt is sent at once.\n\n{RETURNS[docstring]}"


def test_several_parameters_may_share_a_description():
    assert read_docstring("Parameters\n----------\na, b : int\n    Both.\n")[1] == {"a": "Both.", "b": "Both."}


@pytest.mark.parametrize(
    "docstring", ["Args:", "Do.\n\nArgs:\n    nothing to tell", "Args: see below\n\nx: y", "-----"]
)
def test_what_only_looks_like_a_section_stays_in_the_description(docstring):
    assert read_docstring(docstring) == (docstring, {})


def test_a_missing_docstring_says_nothing():
    assert read_docstring(None) == ("", {})


PIECES = st.sampled_from(
    ["\n", "\n    ", "Args:", "Parameters", "----", ":param a:", "a:", "a, b : c", " ", "x", "\ud800"]
)


@given(st.lists(PIECES))
def test_no_docstring_breaks_the_reader(pieces):
    description, docs = read_docstring("".join(pieces))
    json.dumps([description, docs]).encode()


def test_literals_are_told_as_an_enum():
    def pick(size: Literal["s", "m"]) -> None: ...

    assert schema(pick)["properties"] == {"size": {"enum": ["s", "m"], "type": "string"}}
