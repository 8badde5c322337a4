"""What a model must give a tool: a JSON schema read from the function, and the check of given arguments against it."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from midstride.errors import DeclarationError
from midstride.tools.context import is_context, mentions_context
from midstride.tools.text import safe_text, text_of_error

__all__ = [
    "FAULTS_MAX",
    "PROBLEM_MAX",
    "InputSchema",
    "Problem",
    "Schema",
    "Valid",
    "canonical",
    "context_in",
    "given_text",
    "hints_of",
    "parameters_of",
    "path_text",
    "read_docstring",
]

# A model corrects a few faults at a time; more only fill its window.
PROBLEM_MAX = 2_000
FAULTS_MAX = 20
GIVEN_MAX = 80

# Anthropic refuses a property whose name is none of these; a tool's name has no dot.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Valid:
    """Arguments as Python values, by the names of the tool's parameters; ours come with their defaults."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a call cannot start, in words for the model."""

    text: str


def canonical(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return the one JSON text of *value*: ASCII, sorted keys, no spaces; *default* makes JSON of what is none."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=default)


# ---- reading a function


def parameters_of(function: Callable[..., Any], what: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of *function*, all of which can be given by name; *what* names it in errors."""
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"{what} is {function!r}, whose parameters are unknown: write a function around it"
        ) from None
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DeclarationError(f"{what} takes {parameter}: write out each parameter, since all are given by name")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(
                f"{what} takes {parameter.name!r} by position only: remove the '/', since all are given by name"
            )
    return parameters


def hints_of(function: Callable[..., Any], what: str) -> dict[str, Any]:
    """Return the type hints of the parameters that have one, resolved; the return's own is left alone."""
    written = {name: hint for name, hint in getattr(function, "__annotations__", {}).items() if name != "return"}
    shell = types.SimpleNamespace(__annotations__=written)
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(shell, globalns=scope, include_extras=True)
    except Exception as error:
        raise DeclarationError(
            f"a type hint of {what} cannot be resolved ({error}): define or import it at the top of its module"
        ) from error


def context_in(hints: Mapping[str, Any], what: str) -> str | None:
    """Return the name of the parameter that is given the context, if there is one."""
    found = [name for name, hint in hints.items() if is_context(hint)]
    if len(found) > 1:
        raise DeclarationError(f"{what} takes two contexts, {found[0]!r} and {found[1]!r}: keep one, they are the same")
    for name, hint in hints.items():
        if name not in found and mentions_context(hint):
            raise DeclarationError(
                f"parameter {name!r} of {what} hides Context in {hint}: annotate it Context or Context[...] itself, "
                "since the model must not fill it"
            )
    return found[0] if found else None


# ---- the schema


class InputSchema(Protocol):
    """What a tool takes, wherever that is written down."""

    @property
    def tool(self) -> str:
        """The tool's name for the model."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tool's parameters, in order."""

    @property
    def optional(self) -> frozenset[str]:
        """Those that valid arguments may lack."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """What a model is told, as JSON schema."""

    @property
    def digest(self) -> str:
        """What is recorded with a call, so that another schema is noticed."""

    def validate(self, arguments: Any) -> Valid | Problem:
        """Return *arguments* as Python values, or what to correct; never raises."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The input schema of one tool and its check; *names* are the tool's parameters in order, without the context."""

    tool: str
    names: tuple[str, ...]
    input_schema: Mapping[str, Any]
    digest: str
    _model: type[BaseModel] = field(repr=False)

    @property
    def optional(self) -> frozenset[str]:
        """No name: what a call leaves out has its default."""
        return frozenset()

    @classmethod
    def of(cls, tool: str, hints: Mapping[str, Any], defaults: Mapping[str, Any], docs: Mapping[str, str]) -> Schema:
        """Make the schema of parameters with these *hints*, *defaults* and *docs*."""
        for name in hints:
            if not NAME.fullmatch(name):
                raise DeclarationError(
                    f"parameter {name!r} of tool {tool!r} has a name that the APIs refuse: "
                    "use at most 64 of a-z, A-Z, 0-9 and _"
                )
        try:
            model = _model(hints, defaults)
            schema = _tidy(model.model_json_schema(schema_generator=_Generator), docs)
            digest = hashlib.sha256(canonical(schema).encode()).hexdigest()
        except Exception as error:
            raise DeclarationError(_culprit(tool, hints, error)) from error
        return cls(tool, tuple(hints), schema, digest, model)

    def validate(self, arguments: Any) -> Valid | Problem:
        """Return *arguments* as Python values, or what to correct; never raises, and never changes what it is given."""
        if not isinstance(arguments, dict):
            given = given_text(arguments)
            return Problem(f"{self.tool} was not called: its arguments must be a JSON object, got {given}.")
        try:
            # A tool may change what it is given; the recorded response must stay as it came.
            model = self._model.model_validate(copy.deepcopy(arguments))
            return Valid({name: getattr(model, _slot(at)) for at, name in enumerate(self.names)})
        except ValidationError as error:
            return Problem(safe_text(self._faults(error), PROBLEM_MAX))
        except Exception as error:
            return Problem(f"{self.tool} was not called: its arguments cannot be checked. {text_of_error(error, 500)}")

    def _faults(self, error: ValidationError) -> str:
        faults = error.errors(include_url=False, include_context=False)
        lines = [
            self._fault(fault["loc"], fault["type"], fault["msg"], fault["input"]) for fault in faults[:FAULTS_MAX]
        ]
        if len(faults) > FAULTS_MAX:
            lines.append(f"and {len(faults) - FAULTS_MAX} more")
        return "\n- ".join([f"{self.tool} was not called. Correct its arguments and call it again:", *lines])

    def _fault(self, place: tuple[int | str, ...], kind: str, message: str, given: Any) -> str:
        where = path_text(place)
        if kind == "missing":
            return f"{where}: is missing"
        if kind == "extra_forbidden" and len(place) == 1:
            known = f"the parameters are: {', '.join(self.names)}" if self.names else "it takes no parameters"
            return f"{where}: is unknown; {known}"
        return f"{where}: {message}, got {given_text(given)}"


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, but the same schema in every process, and without a word where a default is no JSON."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def encode_default(self, dft: Any) -> Any:
        """Return the default as JSON; sets in order, since theirs differs by process."""
        value = super().encode_default(dft)
        try:
            text = canonical(value)
        except (TypeError, ValueError):  # NaN, for one: PROTOCOL G03
            raise PydanticSerializationError("no JSON") from None
        return sorted(json.loads(text), key=canonical) if isinstance(dft, Set) else value


def _slot(at: int) -> str:
    # Fields have names of their own: pydantic has uses for names like `json` and `model_config`, and refuses `_x`.
    return f"p{at}"


def _model(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for at, (name, hint) in enumerate(hints.items()):
        default = defaults.get(name, ...)
        if isinstance(default, FieldInfo):
            raise TypeError(f"{name} has Field as its default: write `{name}: Annotated[type, Field(...)] = default`")
        fields[_slot(at)] = (hint, Field(default, alias=name, validation_alias=name))
    return create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)


def _culprit(tool: str, hints: Mapping[str, Any], error: Exception) -> str:
    """Say which parameter has no schema."""
    why = str(error).partition("\n")[0]
    for name, hint in hints.items():
        try:
            TypeAdapter(hint).json_schema(schema_generator=_Generator)
        except Exception as found:
            why = str(found).partition("\n")[0].rstrip(".")
            return (
                f"parameter {name!r} of tool {tool!r} is {hint!r}, for which pydantic has no JSON schema ({why}): "
                "use a type that JSON can hold"
            )
    return f"the parameters of tool {tool!r} give no JSON schema: {why}"


_NAMED = ("properties", "$defs", "patternProperties")
_VALUES = ("default", "const", "enum", "examples", "required", "discriminator")


def _tidy(schema: Mapping[str, Any], docs: Mapping[str, str]) -> dict[str, Any]:
    """Return pydantic's schema without its titles, the parameters described, the keys in a reader's order."""
    bare = _untitled(schema)
    for name, text in docs.items():
        if name in bare["properties"]:
            bare["properties"][name].setdefault("description", text)
    order = ("type", "properties", "required", "additionalProperties", "$defs")
    return {key: bare[key] for key in order if key in bare}


def _untitled(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_untitled(part) for part in schema]
    if not isinstance(schema, Mapping):
        return safe_text(schema) if isinstance(schema, str) else schema
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            bare[key] = {name: _untitled(part) for name, part in value.items()}
        elif key != "title":
            bare[key] = value if key in _VALUES else _untitled(value)
    return bare


def path_text(place: tuple[int | str, ...]) -> str:
    """Return where in the arguments something is: `items[0].name`."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return path.removeprefix(".") or "the arguments"


def given_text(value: Any) -> str:
    """Return a given value in short, for an error text."""
    try:
        return safe_text(repr(value), GIVEN_MAX) if not isinstance(value, str) else repr(safe_text(value, GIVEN_MAX))
    except Exception:
        return "something that cannot be shown"


# ---- docstrings


_SPHINX = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_TYPE = re.compile(r":type\s+\w+\s*:")
_HEADING = re.compile(r"(Args|Arguments|Parameters|Params|Other Parameters)\s*:?\s*$")
_RULE = re.compile(r"-{3,}\s*$")
_GOOGLE = re.compile(r"\*{0,2}(?P<names>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
_NUMPY = re.compile(r"\*{0,2}(?P<names>\w+(?:\s*,\s*\w+)*)\s*(?::.*)?(?P<text>)$")


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the description, and what is said of each parameter, in Google's, NumPy's or Sphinx' manner.

    What the schema says of the parameters is taken out of the description; all else stays in it.
    """
    lines = inspect.cleandoc(safe_text(docstring or "")).splitlines()
    kept: list[str] = []
    docs: dict[str, str] = {}
    at = 0
    while at < len(lines):
        end, found = _read_field(lines, at) or _read_section(lines, at) or (at + 1, {})
        kept += [] if found or _SPHINX_TYPE.match(lines[at]) else lines[at:end]
        docs.update(found)
        at = end
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, {name: text for name, text in docs.items() if text}


def _read_field(lines: list[str], at: int) -> tuple[int, dict[str, str]] | None:
    match = _SPHINX.match(lines[at])
    if not match:
        return None
    end = _first(lines, at + 1, lambda line: not line.strip() or line.startswith(":"))
    return end, {match[1]: _joined([match[2], *lines[at + 1 : end]])}


def _read_section(lines: list[str], at: int) -> tuple[int, dict[str, str]] | None:
    if not _HEADING.match(lines[at]):
        return None
    if at + 1 < len(lines) and _RULE.match(lines[at + 1]):
        end = _first(lines, at + 2, _RULE.match)
        end -= end < len(lines)  # the rule's own heading stands above it
        return end, _entries(lines[at + 2 : end], _NUMPY)
    end = _first(lines, at + 1, lambda line: bool(line.strip()) and not line[0].isspace())
    return end, _entries(textwrap.dedent("\n".join(lines[at + 1 : end])).splitlines(), _GOOGLE)


def _entries(lines: list[str], form: re.Pattern[str]) -> dict[str, str]:
    entries: list[tuple[str, list[str]]] = []
    for line in lines:
        if match := form.match(line):
            entries.append((match["names"], [match["text"]]))
        elif entries:
            entries[-1][1].append(line)
    return {name.strip(): _joined(words) for names, words in entries for name in names.split(",")}


def _first(lines: list[str], at: int, wanted: Callable[[str], object]) -> int:
    return next((i for i in range(at, len(lines)) if wanted(lines[i])), len(lines))


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
