"""From an SDK's response object to the JSON that came over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstride.errors import NotAResponse

Json = Any


def wire(response: Any) -> Mapping[str, Json]:
    """Return *response* as the API sent it: every field that was set, none that was not.

    Of the SDKs' ways only `to_dict(mode="json")` is lossless: `model_dump()` invents nulls and renames fields.
    """
    if isinstance(response, Mapping):
        return response
    to_dict = getattr(response, "to_dict", None)
    if to_dict is None:
        raise NotAResponse(f"{type(response).__name__} is no response: give the SDK's message, or its JSON as a dict")
    message: dict[str, Json] = to_dict(mode="json", warnings=False)
    _strip(message)
    return message


PARSED = ("parsed_output", "parsed", "parsed_arguments")
"""What the SDKs' `parse` puts into a message, and into its parts: theirs, not the wire's."""

HOLDERS = ("content", "choices", "message", "tool_calls", "function", "output")
"""Where such parts stand; a tool's own input is left as it is."""


def _strip(value: Json) -> None:
    if isinstance(value, list):
        for one in value:
            _strip(one)
    elif isinstance(value, dict):
        for name in PARSED:
            value.pop(name, None)
        for name in HOLDERS:
            _strip(value.get(name))
