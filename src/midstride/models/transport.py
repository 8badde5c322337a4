"""What the models of all APIs have in common below the API: which errors of an SDK are worth asking again, how long to
wait, and what the program's own errors are.

The SDKs retry nothing for us: their retries end at the response's headers, so one policy, the driver's, covers all.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from midstride.core.steps import Lost, Refused
from midstride.errors import AccessRefused, DeclarationError, ModelUnavailable
from midstride.models.contract import Draft

AGAIN = frozenset({408, 409, 429})
"""Statuses worth asking again, with every 5xx; found by running the SDKs against each status."""

TRANSIENT = frozenset({
    "overloaded_error", "api_error", "rate_limit_error", "timeout_error",
    "server_error", "rate_limit_exceeded", "server_is_overloaded", "InternalServerError", "internal_server_error",
})  # fmt: skip
"""Types and codes of an error inside an answer that are worth asking again: Anthropic's, then OpenAI's and what
compatible servers say.
"""

QUOTA = "insufficient_quota"
"""OpenAI's code, status 429, for an account that has to be paid for: no wait mends it."""

NOTHING = Lost("the stream ended before the answer began", paid=True)
TORN = Lost("the stream ended before the answer was whole", paid=True)


def sdk_named(name: str, wanted_by: str) -> Any:
    """Return the SDK *name*; DeclarationError names the extra when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DeclarationError(f"{wanted_by} needs the SDK: pip install 'midstride[{name}]'") from None


class Clients:
    """The program's own clients of an SDK, or such as the environment tells how to make.

    A client that was given says where requests go, so nothing is sent through one made here beside it: a run that is
    driven the other way, as the command line does, is refused. Raises DeclarationError for a client in the other's
    place.
    """

    def __init__(self, kind: str, client: Any, async_client: Any) -> None:
        self._kind = kind
        self._client, self._async_client = client, async_client
        self._made: Any = None
        if _can(client, "__aenter__", "__enter__"):
            raise DeclarationError(f"{kind} has an asynchronous client as client=: give it as async_client=")
        if _can(async_client, "__enter__", "__aenter__"):
            raise DeclarationError(f"{kind} has a blocking client as async_client=: give it as client=")

    def check(self, *, blocking: bool) -> None:
        """Raise DeclarationError where the program has a client for the other way alone."""
        if blocking and self._client is None and self._async_client is not None:
            raise DeclarationError(f"{self._kind} has async_client= alone, and `run` blocks: give client= too")
        if not blocking and self._async_client is None and self._client is not None:
            raise DeclarationError(
                f"{self._kind} has client= alone, and `run_async` and the command line need an asynchronous one: give "
                "async_client= too"
            )

    def blocking(self, make: Callable[..., Any]) -> Any:
        """Return the client for `run`."""
        self.check(blocking=True)
        if self._client is not None:
            return self._client.with_options(max_retries=0)
        if self._made is None:
            self._made = make(max_retries=0)
        return self._made

    @contextlib.asynccontextmanager
    async def connected(self, make: Callable[..., Any]) -> AsyncIterator[Any]:
        """Give the client for `run_async`; one that is made here lives for one answer: it belongs to one event loop."""
        self.check(blocking=False)
        if self._async_client is not None:
            yield self._async_client.with_options(max_retries=0)
            return
        async with make(max_retries=0) as client:
            yield client


def _can(client: Any, this: str, other: str) -> bool:
    """Tell whether a client certainly is of one way: a stand-in may have both methods, or none."""
    return client is not None and hasattr(client, this) and not hasattr(client, other)


CLIENTS = frozenset(
    {"api_key", "base_url", "organization", "project", "timeout", "max_retries", "http_client", "auth_token"}
)
"""What belongs to an SDK's client, and is often given to a model."""


def check_params(kind: str, sdk: str, params: Mapping[str, Any], given: Iterable[str], own: Iterable[str]) -> None:
    """Raise DeclarationError for parameters that are not the request's: the run's, the client's, or this package's."""
    for name in params:
        if name in CLIENTS:
            raise DeclarationError(f"{name} belongs to the client: {kind}(..., client={sdk}(..., {name}=...))")
        if name in given:
            raise DeclarationError(f"{name} is the run's own: give it to the Agent instead")
        if name in own:
            raise DeclarationError(f"{name} is set for each request by midstride: leave it out of {kind}")


def listed_tools(kind: str, tools: Any) -> list[Any]:
    """Return the provider's own tools; DeclarationError unless they are a list of objects."""
    if isinstance(tools, (list, tuple)) and all(isinstance(one, Mapping) for one in tools):
        return list(tools)
    raise DeclarationError(f"{kind} has server_tools={tools!r}: wanted a list of the provider's tools, each a dict")


def unknown_parameter(kind: str, error: Exception) -> DeclarationError | None:
    """Return what is said where an SDK knows no parameter that the model was given; None for any other error."""
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error)) if isinstance(error, TypeError) else None
    return DeclarationError(f"the API has no parameter {found[1]!r}: leave it out of {kind}") if found else None


class Shown(Exception):
    """Carries what *draft* raised past the errors of the SDK: it is the program's, and no reason to ask again."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def show(draft: Draft, event: Any) -> None:
    """Give *event* to *draft*; what it raises comes out as Shown."""
    try:
        draft(event)
    except Exception as error:
        raise Shown(error) from error


def classified(sdk: Any, error: Exception, *, begun: bool) -> Lost | Refused | None:
    """Return what an exception of the SDK means for the run; None when it means nothing that is known here.

    *begun* tells that an answer was under way. Raises AccessRefused and ModelUnavailable.
    """
    if isinstance(error, sdk.APIStatusError):
        # An error event inside Anthropic's stream has the stream's status.
        return broken_off(error, error.type) if error.status_code == 200 else of_status(error)
    if isinstance(error, sdk.APIConnectionError):
        return Lost(f"{_NO_LINE[begun]} ({sentence(error)})", paid=begun, type=type(error).__name__)
    if type(error).__module__.split(".")[0] in ("httpx2", "httpcore2"):
        # A connection that breaks in the middle of a stream comes as the transport's own error from some SDKs.
        return Lost(f"{_NO_LINE[True]} ({sentence(error)})", paid=True, type=type(error).__name__)
    if begun and isinstance(error, sdk.APIError):
        return broken_off(error, getattr(error, "code", None), getattr(error, "type", None))
    if begun and isinstance(error, ValueError):
        return Lost(f"the answer could not be read ({sentence(error)})", paid=True)
    return None


_NO_LINE = {False: "no connection to the API", True: "the connection broke in the middle of the answer"}


def broken_off(error: Any, *kinds: str | None) -> Lost | Refused:
    """Return what an error inside an answer means: *kinds* are its code and type, as far as they are told."""
    told = [kind for kind in kinds if kind]
    if not told or any(kind in TRANSIENT or _is_transient(kind) for kind in told):
        kind = told[0] if told else ""
        return Lost(f"the API broke its answer off: {kind or sentence(error)}", paid=True, type=kind or "lost")
    return Refused(f"{told[0]}: {sentence(error)}", type=told[0])


def _is_transient(kind: str) -> bool:
    # Compatible servers give the status of what is behind them as the code.
    return kind.isdigit() and (int(kind) in AGAIN or int(kind) >= 500)


def of_status(error: Any) -> Lost | Refused:
    """Return what a response with an error's status means."""
    status, said = error.status_code, f"HTTP {error.status_code}, {sentence(error)}"
    if status in (401, 402, 403) or (status == 429 and getattr(error, "code", None) == QUOTA):
        raise AccessRefused(f"the API refuses the key or the account ({said}); set it right and run again") from error
    if status not in AGAIN and status < 500:
        return Refused(said, invalid=status == 400, type=str(status))
    if error.response.headers.get("x-should-retry") == "false":
        raise ModelUnavailable(f"the API asks not to be asked again ({said}); run the same program later") from error
    return Lost(said, wait=retry_after(error.response.headers), type=str(status))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the API asks to wait; None when it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def sentence(error: Exception) -> str:
    """Return what the API said of an error, without the SDK's wrapping."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    message = inner.get("message") if isinstance(inner, Mapping) else None
    return str(message or error or type(error).__name__)
