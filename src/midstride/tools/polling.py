"""A tool's poll: the function that says how work stands which another side has accepted."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from midstride.errors import DeclarationError
from midstride.tools.answers import Standing
from midstride.tools.context import Context
from midstride.tools.schema import context_in, hints_of, parameters_of


@dataclass(frozen=True)
class Polling:
    """*function*, and what it takes: the *handle* by that name, some of the tool's parameters, perhaps a context."""

    function: Callable[..., Standing | Awaitable[Standing]]
    handle: str
    names: tuple[str, ...]
    context: str | None
    is_async: bool

    def arguments(self, handle: Any, given: Mapping[str, Any], context: Context[Any]) -> dict[str, Any]:
        """Return what *function* is to be called with, by name; *given* are the call's arguments."""
        named = {self.handle: handle, **{name: given[name] for name in self.names}}
        return named | ({self.context: context} if self.context else {})


def polling(function: Callable[..., Any], tool: str, known: tuple[str, ...]) -> Polling:
    """Return the poll of a tool whose parameters are *known*; raises DeclarationError."""
    what = f"the poll of tool {tool!r}"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(f"{what} yields, so nothing in it runs when it is asked: return its answer instead")
    parameters = tuple(parameters_of(function, what))
    context = context_in(hints_of(function, what), what)
    names = tuple(name for name in parameters if name != context)
    if not names or names[0] in known:
        found = f"its first is {names[0]!r}, a parameter of the tool" if names else "it takes none"
        raise DeclarationError(
            f"{what} takes the handle first, under a name that is no parameter of the tool: {found}; write "
            "def how_it_stands(handle, ...)"
        )
    for name in names[1:]:
        if name not in known:
            has = f"has {', '.join(known)}" if known else "has none"
            raise DeclarationError(
                f"{what} takes {name!r}, which is no parameter of the tool: it {has} (a context is annotated Context)"
            )
    return Polling(function, names[0], names[1:], context, inspect.iscoroutinefunction(function))
