"""The input schema of a tool that is not ours: taken as it comes, and checked with the jsonschema package."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry

from midstride.errors import DeclarationError
from midstride.tools.schema import FAULTS_MAX, PROBLEM_MAX, Problem, Valid, canonical, given_text, path_text
from midstride.tools.text import safe_text

__all__ = ["GivenSchema"]

# What Anthropic takes as a property's name; any other would have every request with this tool refused.
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

# A text about a parameter is no other parameter: a server that words it better has not changed its tool.
WORDS = ("title", "description", "examples", "$comment", "$schema", "$id", "deprecated")
NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
VALUES = ("default", "const", "enum")


@dataclass(frozen=True, slots=True)
class GivenSchema:
    """A JSON schema that a server gave, its check, and the digest of what it asks for, without its words."""

    tool: str
    names: tuple[str, ...]
    optional: frozenset[str]
    input_schema: Mapping[str, Any]
    digest: str
    _validator: Any = field(repr=False)

    @classmethod
    def of(cls, tool: str, schema: Mapping[str, Any], what: str) -> GivenSchema:
        """Make it of the *schema* of a tool that is called *tool*; *what* names it in errors."""
        schema = _safe({"type": "object", "properties": {}, **schema})
        names = tuple(schema["properties"])
        for name in names:
            if not PROPERTY.fullmatch(name):
                raise DeclarationError(
                    f"parameter {name!r} of {what} has a name that the APIs refuse (wanted at most 64 of a-z, A-Z, "
                    "0-9, _, . and -): leave the tool out, with only="
                )
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise DeclarationError(
                f"the input schema of {what} is no JSON schema ({error.message}): leave the tool out, with only="
            ) from None
        digest = hashlib.sha256(canonical(_wordless(schema)).encode()).hexdigest()
        # An empty registry: nothing that a schema refers to is ever fetched.
        validator = kind(schema, registry=Registry())
        return cls(tool, names, frozenset(names) - set(schema.get("required", ())), schema, digest, validator)

    def validate(self, arguments: Any) -> Valid | Problem:
        """Return a copy of *arguments* as they are, or what to correct; never raises."""
        if not isinstance(arguments, dict):
            given = given_text(arguments)
            return Problem(f"{self.tool} was not called: its arguments must be a JSON object, got {given}.")
        try:
            faults = sorted(self._validator.iter_errors(arguments), key=lambda fault: list(map(str, fault.path)))
        except Exception as error:
            why = safe_text(f"{type(error).__name__}: {error}", 500)
            return Problem(f"{self.tool} was not called: its arguments cannot be checked. {why}")
        if faults:
            return Problem(safe_text(self._told(faults), PROBLEM_MAX))
        return Valid(copy.deepcopy(arguments))

    def _told(self, faults: list[ValidationError]) -> str:
        lines = [line for fault in faults for line in self._fault(fault)]
        shown = lines[:FAULTS_MAX] + ([f"and {len(lines) - FAULTS_MAX} more"] if len(lines) > FAULTS_MAX else [])
        return "\n- ".join([f"{self.tool} was not called. Correct its arguments and call it again:", *shown])

    def _fault(self, fault: ValidationError) -> list[str]:
        place, given = tuple(fault.absolute_path), fault.instance
        if fault.validator == "required" and isinstance(given, dict):
            missing = [name for name in fault.validator_value if name not in given]
            return [f"{path_text((*place, name))}: is missing" for name in missing if f"{name!r} is" in fault.message]
        if fault.validator == "additionalProperties" and not place:
            known = f"the parameters are: {', '.join(self.names)}" if self.names else "it takes no parameters"
            return [f"{path_text((name,))}: is unknown; {known}" for name in given if name not in self.names]
        message = fault.message.removeprefix(f"{given!r} ")
        return [f"{path_text(place)}: {safe_text(message, 300)}, got {given_text(given)}"]


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, list):
        return [_safe(part) for part in value]
    return {safe_text(k): _safe(v) for k, v in value.items()} if isinstance(value, dict) else value


def _wordless(schema: Any) -> Any:
    """Return *schema* without the words in it, and with "required", whose order means nothing, in order."""
    if isinstance(schema, list):
        return [_wordless(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            bare[key] = {name: _wordless(part) for name, part in value.items()}
        elif key == "required" and isinstance(value, list):
            bare[key] = sorted(value, key=str)
        elif key not in WORDS:
            bare[key] = value if key in VALUES else _wordless(value)
    return bare
