"""The tools of an MCP server, each with the effect that its server is believed, or its user has said."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, overload

from mcp import types as protocol

from midstride.errors import DeclarationError, ToolsUnavailable
from midstride.tools.answers import AnsweredWithError, CannotTell, DidNotHappen, Standing
from midstride.tools.context import Context
from midstride.tools.declare import OPTIONS, Tool, tool_of_schema
from midstride.tools.mcp.connection import CONNECT_SECONDS, Connection, Lost, NoAnswer, Refused, Unsent
from midstride.tools.mcp.content import error_text, value_of
from midstride.tools.mcp.schema import GivenSchema
from midstride.tools.mcp.servers import Server
from midstride.tools.mcp.tasks import EXTENSION, get_task, standing_of, task_of
from midstride.tools.polling import Polling
from midstride.tools.schema import NAME
from midstride.tools.seconds import Seconds, seconds_of
from midstride.tools.text import safe_text

__all__ = ["KEY", "McpTools"]

KEY = "dev.midstride/idempotency-key"
"""Where in a call's `_meta` its idempotency key travels, for a server that wants to drop a repeat."""

BESIDE = CONNECT_SECONDS + 5.0
"""Seconds beyond a call's timeout before its attempt counts as alive; the connection itself ends it sooner."""

# No parameter of a tool can be called so.
CONTEXT, HANDLE = "the context", "the handle"

POLL_SECONDS = 30.0
"""How long the server has to say how a task stands; one that does not is asked again later."""

NAME_MAX = 64

ASKS = "the tool asks for an input, which cannot be given from here"


class McpTools(Sequence[Tool[..., Any]]):
    """The tools of one MCP server, in its order; `tools["name"]` is one by the name that the model knows.

    The connection is made when it is first needed and again after it broke, and ends with `close`, with a `with` block,
    or with the process.
    """

    def __init__(
        self,
        server: Server,
        *,
        trusted: bool,
        effects: Mapping[str, str | Mapping[str, Any]],
        only: tuple[str, ...] | None,
        prefix: str,
        timeout: Seconds,
    ) -> None:
        seconds = seconds_of("timeout", timeout, "mcp_tools")
        if seconds is None:
            raise DeclarationError("mcp_tools has timeout=None: wanted seconds, since a server may hang for ever")
        self._connection = Connection(server, (EXTENSION,))
        try:
            listed = {made.name: made for made in self._listed(seconds)}
            _check_known("effects", effects, listed, server.label)
            _check_known("only", only or (), listed, server.label)
            chosen = listed if only is None else {name: listed[name] for name in only}
            self._tools = [
                _make(self._connection, made, trusted, effects.get(name), prefix, seconds)
                for name, made in chosen.items()
            ]
        except BaseException:
            self._connection.close()
            raise

    def _listed(self, seconds: float) -> list[protocol.Tool]:
        try:
            return self._connection.list_tools(seconds)
        except (Unsent, Lost, NoAnswer) as error:
            raise ToolsUnavailable(f"{error}; nothing is lost, run the same program again") from error
        except Refused as error:
            raise DeclarationError(f"{error}: is it a server of tools?") from error

    def close(self) -> None:
        """End the connection, and a server that was started for it; a call after it certainly does not start."""
        self._connection.close()

    @overload
    def __getitem__(self, index: int | str) -> Tool[..., Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tool[..., Any]]: ...
    def __getitem__(self, index: int | str | slice) -> Tool[..., Any] | list[Tool[..., Any]]:
        """Return a tool by its name or its place."""
        if not isinstance(index, str):
            return self._tools[index]
        found = [made for made in self._tools if made.name == index]
        if not found:
            raise KeyError(f"{index!r}: the tools are {', '.join(made.name for made in self._tools)}")
        return found[0]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self._tools)

    def __enter__(self) -> McpTools:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<McpTools {self._connection.label}: {', '.join(map(repr, self._tools))}>"


def _check_known(option: str, names: Iterable[str], listed: Mapping[str, Any], label: str) -> None:
    for name in names:
        if name not in listed:
            near = difflib.get_close_matches(str(name), listed, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(listed)}"
            raise DeclarationError(f"{option}= names {name!r}, which is no tool of the MCP server {label}: {meant}")


# ---- one tool


def _make(
    connection: Connection, made: protocol.Tool, trusted: bool, told: Any, prefix: str, seconds: float
) -> Tool[..., Any]:
    what = f"tool {made.name!r} of the MCP server {connection.label}"
    effect, options = _told(made, trusted, told, what)
    timeout = seconds_of("timeout", options.get("timeout"), what) or seconds
    name = options.get("name") or _name(f"{prefix}{made.name}")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} is named {name!r}, which the APIs refuse: wanted 1 to 64 of a-z, A-Z, 0-9, _, -"
        )
    call = _Call(connection, made.name, timeout, again=effect == "read_only")

    def function(**arguments: Any) -> Any:
        return call(arguments.pop(CONTEXT, None), arguments)

    function.__name__ = function.__qualname__ = name
    tool = tool_of_schema(
        effect,
        function,
        GivenSchema.of(name, made.input_schema, what),
        {**options, "timeout": timeout + BESIDE},
        description=safe_text(made.description or made.title or made.name).strip() or name,
        context=CONTEXT,
        what=what,
    )
    tool.polling = Polling(lambda **asked: call.poll(asked[HANDLE]), HANDLE, (), None, False)
    return tool


def _told(made: protocol.Tool, trusted: bool, told: Any, what: str) -> tuple[str, Mapping[str, Any]]:
    """Return the effect of a tool and its options: the user's word, else a trusted server's, else the strictest."""
    if told is not None and not isinstance(told, (str, Mapping)):
        raise DeclarationError(f'{what} has effects={told!r}: wanted an effect, or a mapping with "effect" and options')
    said = {"effect": told} if isinstance(told, str) else dict(told or {})
    effect = said.pop("effect", _annotated(made) if trusted else "unsafe")
    if effect == "transactional":
        raise DeclarationError(f"{what} cannot be transactional: it does not write in the store's own database")
    if effect not in OPTIONS:
        raise DeclarationError(f"{what} has effect {effect!r}: wanted read_only, idempotent, verifiable or unsafe")
    return effect, said


def _annotated(made: protocol.Tool) -> str:
    hints = made.annotations
    if hints is None:
        return "unsafe"
    return "read_only" if hints.read_only_hint else "idempotent" if hints.idempotent_hint else "unsafe"


def _name(name: str) -> str:
    """Return *name* as the APIs take it; where it has to be changed a hash keeps it apart from all others."""
    if NAME.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[: NAME_MAX - 9]}_{mark}"


# ---- one call


class _Call:
    """Calls one tool, by the server's own name for it."""

    def __init__(self, connection: Connection, name: str, timeout: float, *, again: bool) -> None:
        self._connection, self._name, self._timeout, self._again = connection, name, timeout, again

    def __call__(self, context: Context[Any] | None, arguments: dict[str, Any]) -> Any:
        """Return what the server answered.

        What certainly did not happen is DidNotHappen in a run. Called directly, as a verify may do it, the same is a
        plain error: that a look could not be made says nothing about what it looks for.
        """
        try:
            result = self._connection.request(self._request(context, arguments), self._timeout, again=self._again)
        except (Unsent, Refused) as error:
            if context is None:
                raise
            raise DidNotHappen(f"T{str(error)[1:]}") from error  # a sentence of its own
        if result.get("resultType") == "input_required":
            result = {"isError": True, "content": [{"type": "text", "text": ASKS}]}
        task = task_of(result)
        if task is not None and context is not None:
            return context.accepted({"task": task})
        if task is not None:
            raise RuntimeError("the server answered with a task, which can be waited for in a run alone")
        if result.get("isError"):
            text = error_text(result)
            raise AnsweredWithError(text) if context is not None else RuntimeError(text)
        return value_of(result)

    def poll(self, handle: Any) -> Standing:
        """Ask how the task of an accepted call stands; what raises here is asked again later."""
        task = handle.get("task") if isinstance(handle, dict) else None
        if not isinstance(task, str):
            return CannotTell("Its handle is that of another program's tool.")
        try:
            return standing_of(self._connection.request(get_task(task), POLL_SECONDS, again=True))
        except Refused as error:
            return CannotTell(f"{error}: it may have forgotten the task.")

    def _request(self, context: Context[Any] | None, arguments: dict[str, Any]) -> protocol.CallToolRequest:
        meta: Any = {} if context is None else {"_meta": {KEY: context.key}}
        params = protocol.CallToolRequestParams(name=self._name, arguments=arguments, **meta)
        return protocol.CallToolRequest(params=params)
