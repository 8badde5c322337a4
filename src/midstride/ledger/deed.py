"""One call as its program makes it: the tool, its arguments, and the run that it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from midstride.core import words
from midstride.core.journal import Recorded
from midstride.errors import DeclarationError, WrongArguments
from midstride.tools import Tool, Toolbox

Json = Any

ID_MAX = 500
"""Characters of a scope or a call id: frameworks' are uuids and the like, and a database's index has to hold both."""


@dataclass(frozen=True)
class Deed:
    """A call whose arguments fit its tool; *arguments* are JSON, *recorded* is what counts about them."""

    run_id: str
    call_id: str
    tool: Tool[..., Any]
    arguments: Mapping[str, Json]
    recorded: Recorded

    @property
    def task(self) -> Json:
        """Return what the run is about: the same id is the same call, for ever."""
        return {"tool": self.tool.name, "arguments": self.arguments}


def deed_of(tool: Tool[..., Any], call_id: str, arguments: Mapping[str, Json], scope: str) -> Deed:
    """Return the deed; raises DeclarationError for what is no tool or no id, WrongArguments for what does not fit."""
    toolbox = Toolbox([tool])
    run_id, call_id = run_id_of(scope, call_id), _escaped(call_id, "call_id", "")
    try:
        plain = json.loads(json.dumps(arguments, allow_nan=False))  # as the journal will have them
    except (TypeError, ValueError, RecursionError) as error:
        why = f"the arguments of {tool.name} cannot be kept as JSON ({error}): give text, numbers, lists, objects."
        raise WrongArguments(words.failed(why), run_id, call_id) from None
    recorded = toolbox.record(tool.name, plain)
    if recorded.problem is not None:
        raise WrongArguments(words.failed(recorded.problem), run_id, call_id)
    return Deed(run_id, call_id, tool, plain, recorded)


def run_id_of(scope: str, call_id: str) -> str:
    """Return the id of the run that a call is: `scope/call_id`, the same for no other pair.

    What a command line could not name is escaped as in a URL: a slash in the scope, "%", what cannot be printed, and
    a hyphen in front.
    """
    return f"{_escaped(scope, 'scope', '/')}/{_escaped(call_id, 'call_id', '')}"


def _escaped(text: str, what: str, reserved: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise DeclarationError(f"{what}={text!r} names nothing: give the framework's own id, as text")
    if len(text) > ID_MAX:
        raise DeclarationError(f"{what} has {len(text)} characters, at most {ID_MAX} are wanted: give a shorter id")
    kept = "".join(_percent(one) if one == "%" or one in reserved or not one.isprintable() else one for one in text)
    return f"%2D{kept[1:]}" if kept.startswith("-") else kept


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
