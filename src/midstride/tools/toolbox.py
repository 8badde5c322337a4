"""The tools of one agent: which there are, and what is to be recorded of a call of one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from midstride.core.journal import Recorded, Terms
from midstride.errors import DeclarationError
from midstride.tools.declare import Tool
from midstride.tools.schema import Problem
from midstride.tools.text import safe_text

# More names than this help no model that has just missed them all.
NAMES_MAX = 40


class Toolbox:
    """The tools of one agent, by name, in the order given."""

    def __init__(self, tools: Iterable[Tool[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for made in _listed(tools):
            if made.name in self._tools:
                raise DeclarationError(f"two tools are called {made.name!r}: give one of them another name=")
            self._tools[made.name] = made

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names."""
        return tuple(self._tools)

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """What a model is told of the tools, in Anthropic's form."""
        return [made.definition for made in self._tools.values()]

    @property
    def terms(self) -> Mapping[str, Terms]:
        """What counts about each tool now, by name."""
        return MappingProxyType({name: made.terms for name, made in self._tools.items()})

    def get(self, name: Any) -> Tool[..., Any] | None:
        """Return the tool called *name*, if there is one."""
        return self._tools.get(name) if isinstance(name, str) else None

    def record(self, name: Any, arguments: Any) -> Recorded:
        """Return what is to be recorded of a call when its response is; never raises."""
        made = self.get(name)
        if made is None:
            return Recorded(problem=self._unknown(name))
        checked = made.validate(arguments)
        if isinstance(checked, Problem):
            return Recorded(made.terms, problem=checked.text)
        key = made.business_key(checked)
        if isinstance(key, Problem):
            return Recorded(made.terms, problem=key.text)
        return Recorded(made.terms, key=key)

    def _unknown(self, name: Any) -> str:
        asked = safe_text(name, 200) if isinstance(name, str) else "of that name"
        if not self._tools:
            return f"there is no tool {asked}; there are no tools at all"
        near = difflib.get_close_matches(asked, self._tools, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        names = ", ".join(self.names[:NAMES_MAX])
        more = f" and {len(self.names) - NAMES_MAX} more" if len(self.names) > NAMES_MAX else ""
        return f"there is no tool {asked}; {meant}the tools are: {names}{more}"


def _listed(tools: Any) -> Iterable[Tool[..., Any]]:
    if isinstance(tools, Tool) or not isinstance(tools, Iterable):
        raise DeclarationError(f"tools are given as a list, not as {tools!r}: write tools=[...]")
    for made in tools:
        if not isinstance(made, Tool):
            name = getattr(made, "__name__", repr(made))
            raise DeclarationError(f"{name} is no tool: decorate it with @tool or one of its sisters")
        if made.effect == "verifiable" and made.look is None:
            raise DeclarationError(
                f"verifiable tool {made.name!r} has no verify: add @{made.name}.verify, or declare it with @tool"
            )
        yield made
