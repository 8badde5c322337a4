"""How a tool is declared: what it does to the world, how long it may take, and what makes two calls the same deed.

    @tool                          unsafe, the default: never run twice unasked
    @tool.read_only                changes nothing: may be run again
    @tool.idempotent(key_life=)    the other side drops a repeated key, for so long
    @tool.transactional            writes in the store's own database: commits with its result, or not at all
    @tool.verifiable(timeout=)     one can look afterwards whether it happened: `@mine.verify`

Whatever is declared wrongly is a `DeclarationError` where it is declared, never when a model calls.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import functools
import hashlib
import inspect
import pathlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Literal, ParamSpec, Protocol, Required, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel

from midstride.core.journal import Terms
from midstride.errors import DeclarationError
from midstride.tools.answers import Answer, Standing
from midstride.tools.context import Context
from midstride.tools.polling import Polling, polling
from midstride.tools.schema import (
    NAME,
    InputSchema,
    Problem,
    Schema,
    Valid,
    canonical,
    context_in,
    hints_of,
    parameters_of,
    read_docstring,
)
from midstride.tools.seconds import Seconds, seconds_of
from midstride.tools.text import text_of_error

__all__ = ["OPTIONS", "Tool", "tool", "tool_of_schema"]

P = ParamSpec("P")
R = TypeVar("R")
Look = TypeVar("Look", bound=Callable[..., Answer | Awaitable[Answer]])
Poll = TypeVar("Poll", bound=Callable[..., Standing | Awaitable[Standing]])
Doubt = Literal["report", "ask"]


class ReadOptions(TypedDict, total=False):
    """What a read can be told."""

    name: str | None
    approval: bool
    timeout: Seconds | None


class EffectOptions(TypedDict, total=False):
    """What a tool with an effect can be told."""

    name: str | None
    approval: bool
    in_doubt: Doubt
    key: Callable[..., Any] | None


class UnsafeOptions(EffectOptions, total=False):
    """What an unsafe tool can be told."""

    timeout: Seconds | None


class IdempotentOptions(UnsafeOptions, total=False):
    """What an idempotent tool must and can be told."""

    key_life: Required[Seconds]


class VerifiableOptions(EffectOptions, total=False):
    """What a verifiable tool must and can be told."""

    timeout: Required[Seconds]
    settle: Seconds


OPTIONS: Mapping[str, Any] = {
    "unsafe": UnsafeOptions,
    "read_only": ReadOptions,
    "idempotent": IdempotentOptions,
    "transactional": UnsafeOptions,
    "verifiable": VerifiableOptions,
}
NEEDED = {
    "idempotent": ("key_life", "for how long the other side remembers a key"),
    "verifiable": ("timeout", "the time after which an attempt that is lost cannot act any more"),
}
USELESS = {
    ("read_only", "key"): "a read does nothing that could be done twice",
    ("read_only", "in_doubt"): "a read is run again, never in doubt",
}


# ---- a tool


class Tool(Generic[P, R]):
    """A function that a model may call, and what a call of it does to the world; calling it here runs it directly.

    *definition* is what a model is told, *terms* is what counts when a call of it is interrupted.
    """

    def __init__(
        self,
        function: Callable[P, R],
        schema: InputSchema,
        terms: Terms,
        *,
        description: str,
        context: str | None,
        key: Callable[..., Any] | None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = schema.tool
        self.description = description
        self.effect = terms.effect
        self.terms = terms
        self.schema = schema
        self.is_async = inspect.iscoroutinefunction(function)
        self.key = key
        self.look: Callable[..., Answer | Awaitable[Answer]] | None = None
        self.look_is_async = False
        self.polling: Polling | None = None
        self._context = context
        self._look_context: str | None = None
        self._look_names: tuple[str, ...] = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function itself: no model, no journal."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.effect})>"

    @property
    def definition(self) -> dict[str, Any]:
        """What a model is told of the tool: name, description and input_schema, in Anthropic's form."""
        schema = copy.deepcopy(dict(self.schema.input_schema))
        return {"name": self.name, "description": self.description, "input_schema": schema}

    def validate(self, arguments: Any) -> Valid | Problem:
        """Return a call's *arguments* as Python values, or what the model must correct; never raises."""
        return self.schema.validate(arguments)

    def call_arguments(self, valid: Valid, context: Context[Any]) -> dict[str, Any]:
        """Return what *function* is to be called with, by name."""
        return dict(valid.arguments) | ({self._context: context} if self._context else {})

    def look_arguments(self, valid: Valid, context: Context[Any]) -> dict[str, Any]:
        """Return what *look* is to be called with, by name."""
        given = {name: valid.arguments[name] for name in self._look_names if name in valid.arguments}
        return given | ({self._look_context: context} if self._look_context else {})

    def poll_arguments(self, asked: Polling, handle: Any, valid: Valid, context: Context[Any]) -> dict[str, Any]:
        """Return what the function of *asked*, the tool's poll, is to be called with, by name."""
        return asked.arguments(handle, valid.arguments, context)

    def business_key(self, valid: Valid) -> str | Problem | None:
        """Return the digest of what makes two calls the same deed; None for a tool that has no key."""
        if self.key is None:
            return None
        try:
            names = inspect.signature(self.key).parameters
            value = self.key(**{name: valid.arguments[name] for name in names if name in valid.arguments})
            text = canonical([self.name, value], default=_jsonable)
        except Exception as error:
            why = text_of_error(error, 500)
            return Problem(f"{self.name} was not called: its key function failed, a fault of the program. {why}")
        return hashlib.sha256(text.encode()).hexdigest()

    def verify(self, look: Look) -> Look:
        """Declare how to find out whether a call happened: a function of some of the tool's parameters.

        It returns Happened, DidNotHappen ("not there, and it can no longer come") or CannotTell.
        """
        what = f"the verify of tool {self.name!r}"
        if self.effect != "verifiable":
            raise DeclarationError(
                f"{what} has no use, since the tool is {self.effect}: declare it with @tool.verifiable"
            )
        if self.look is not None:
            raise DeclarationError(f"{what} is declared twice: keep one")
        parameters = parameters_of(look, what)
        context = context_in(hints_of(look, what), what)
        asked = {name: parameter for name, parameter in parameters.items() if name != context}
        _check_names(asked, self.schema, what, " (a context is annotated Context)")
        self.look, self._look_names, self._look_context = look, tuple(asked), context
        self.look_is_async = inspect.iscoroutinefunction(look)
        return look

    def poll(self, ask: Poll) -> Poll:
        """Declare how to find out how accepted work stands: a function of its handle, and of the tool's parameters.

        It is for a tool that may return `context.accepted(handle)`. Its first parameter takes the handle. It returns
        Happened, Pending, DidNotHappen ("it failed, or is gone, and nothing can come of it") or CannotTell. What
        raises, or does not end within 60 s, is asked again later: only CannotTell is a doubt.
        """
        what = f"the poll of tool {self.name!r}"
        if self.effect == "transactional":
            raise DeclarationError(f"{what} has no use, since the tool is transactional: it commits with its result")
        if self.polling is not None:
            raise DeclarationError(f"{what} is declared twice: keep one")
        self.polling = polling(ask, self.name, self.schema.names)
        return ask


def _check_names(asked: Mapping[str, inspect.Parameter], schema: InputSchema, what: str, hint: str = "") -> None:
    for name, parameter in asked.items():
        if name not in schema.names:
            has = f"has {', '.join(schema.names)}" if schema.names else "has none"
            raise DeclarationError(f"{what} takes {name!r}, which is no parameter of the tool: it {has}{hint}")
        if name in schema.optional and parameter.default is parameter.empty:
            raise DeclarationError(f"{what} takes {name!r}, which a call may leave out: give it a default, {name}=None")


def _jsonable(value: Any) -> Any:
    """Return a part of a business key as JSON; what differs by process has no place in a key."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (timedelta, decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Set):
        return sorted(value, key=functools.partial(canonical, default=_jsonable))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"a key is made of JSON values, not of {type(value).__name__}")


# ---- making one


def _make(effect: str, function: Any, options: Mapping[str, Any]) -> Tool[..., Any]:
    name = _name(function, options.get("name"))
    what = f"tool {name!r}"
    parameters = parameters_of(function, what)
    hints = _hints(function, parameters, what)
    context = context_in(hints, what)
    if effect == "transactional" and context is None:
        raise DeclarationError(
            f"transactional {what} takes no context, so it cannot write in the transaction: "
            "add a parameter annotated Context[Connection] and write through context.transaction"
        )
    description, docs = read_docstring(function.__doc__)
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    schema = Schema.of(name, {name: hint for name, hint in hints.items() if name != context}, defaults, docs)
    return Tool(
        function,
        schema,
        _terms(effect, schema, options, what),
        description=description or name.replace("_", " ").strip() or name,
        context=context,
        key=_key(options.get("key"), schema, what),
    )


def tool_of_schema(
    effect: str,
    function: Callable[..., Any],
    schema: InputSchema,
    options: Mapping[str, Any],
    *,
    description: str,
    context: str,
    what: str,
) -> Tool[..., Any]:
    """Return a tool whose schema is not read from its function, which takes any arguments by name and the *context*.

    *what* names it in errors. An idempotent one may have no key_life: then a repeat is dropped for ever.
    """
    _check_options(effect, options, what)
    terms = _terms(effect, schema, options, what)
    key = _key(options.get("key"), schema, what)
    return Tool(function, schema, terms, description=description, context=context, key=key)


def _name(function: Any, name: Any) -> str:
    if isinstance(function, Tool):
        raise DeclarationError(f"{function.name!r} is a tool already: decorate it once")
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise DeclarationError(f"a tool is made of a function, not of {function!r}: write a function around it")
    name = function.__name__ if name is None else name
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DeclarationError(
            f"the APIs refuse {name!r} as a tool's name: give name= with 1 to 64 of a-z, A-Z, 0-9, _ and -"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(f"tool {name!r} yields, so nothing in it runs when it is called: return a list instead")
    return name


def _hints(function: Callable[..., Any], parameters: Iterable[str], what: str) -> dict[str, Any]:
    hints = hints_of(function, what)
    for name in parameters:
        if name not in hints:
            method = " (for a method, decorate the bound one: tool(thing.method))" if name == "self" else ""
            raise DeclarationError(
                f"parameter {name!r} of {what} has no type hint: write one, since the model is told from it "
                f"what to give{method}"
            )
    return {name: hints[name] for name in parameters}


def _terms(effect: str, schema: InputSchema, options: Mapping[str, Any], what: str) -> Terms:
    doubt = options.get("in_doubt", "report")
    if doubt not in ("report", "ask"):
        raise DeclarationError(
            f'{what} has in_doubt={doubt!r}: wanted "report" (tell the model) or "ask" (ask a person)'
        )
    approval = options.get("approval", False)
    if not isinstance(approval, bool):
        raise DeclarationError(f"{what} has approval={approval!r}: wanted True (ask a person first) or False")
    seconds = {name: seconds_of(name, options.get(name), what) for name in ("timeout", "key_life", "settle")}
    return Terms(
        effect=effect,
        schema=schema.digest,
        doubt=doubt,
        approval=approval,
        timeout=seconds["timeout"],
        settle=seconds["settle"] or 0.0,
        key_life=seconds["key_life"],
    )


def _key(key: Any, schema: InputSchema, what: str) -> Callable[..., Any] | None:
    if key is None:
        return None
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise DeclarationError(f"{what} has key={key!r}: wanted a plain function of the tool's arguments")
    _check_names(parameters_of(key, f"the key of {what}"), schema, f"the key of {what}")
    made: Callable[..., Any] = key
    return made


def _decorate(effect: str, function: Any, options: Mapping[str, Any]) -> Any:
    """Return the tool, or the decorator that waits for its function."""
    told = "@tool" if effect == "unsafe" else f"@tool.{effect}"
    _check_options(effect, options, told)
    needed, meaning = NEEDED.get(effect, (None, ""))
    if needed and options.get(needed) is None:
        raise DeclarationError(f"{told} has no {needed}, {meaning}: write {told}({needed}=seconds)")
    if function is not None:
        return _make(effect, function, options)
    return functools.partial(_make, effect, options=options)


def _check_options(effect: str, options: Mapping[str, Any], told: str) -> None:
    for name in options:
        known = OPTIONS[effect].__annotations__
        if name not in known:
            why = USELESS.get((effect, name), f"it knows {', '.join(known)}")
            raise DeclarationError(f"{told} takes no {name}=: {why}; leave it out")


# ---- the decorators


class Decorator(Protocol):
    """Makes a tool of a function."""

    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]:
        """Return the tool."""


class Declare:
    """`tool`, which declares an unsafe tool, and its sisters for the other effects.

    Options: *name* for the model; *timeout* in seconds; *approval*, whether a person is asked before a call may run;
    *in_doubt*, "report" to tell the model that the outcome is unknown, "ask" to ask a person; *key*, a function of the
    tool's arguments by name, which says what makes two calls the same deed.
    """

    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[UnsafeOptions]) -> Decorator: ...
    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a tool that must never run twice unasked, since nobody could know."""
        return _decorate("unsafe", function, options)

    @overload
    def read_only(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def read_only(self, /, **options: Unpack[ReadOptions]) -> Decorator: ...
    def read_only(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a tool that changes nothing and may be run again."""
        return _decorate("read_only", function, options)

    def idempotent(self, function: None = None, /, **options: Unpack[IdempotentOptions]) -> Decorator:
        """Declare a tool that may be repeated with the same `context.key`, remembered elsewhere for *key_life*."""
        decorator: Decorator = _decorate("idempotent", function, options)
        return decorator

    @overload
    def transactional(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def transactional(self, /, **options: Unpack[UnsafeOptions]) -> Decorator: ...
    def transactional(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a tool that writes through `context.transaction` alone and does not commit.

        Its transaction keeps other writers out of the database, so it should take milliseconds; after its *timeout*
        it is cut off and rolled back.
        """
        return _decorate("transactional", function, options)

    def verifiable(self, function: None = None, /, **options: Unpack[VerifiableOptions]) -> Decorator:
        """Declare a tool whose effect can be looked for, at the earliest *settle* seconds after an attempt's end."""
        decorator: Decorator = _decorate("verifiable", function, options)
        return decorator


tool = Declare()
