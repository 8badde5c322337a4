"""What the driver asks of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from midstride.core.steps import Lost, Refused, UnderWay

Json = Any
Outcome = Mapping[str, Json] | Lost | Refused | UnderWay
"""What came of asking: the whole response verbatim, no answer this time, a refusal for good, or an answer under way."""

Draft = Callable[[Any], None]
"""Hears the events of an answer while it streams, in the SDK's own types: a draft, nothing of it is saved yet."""


DRAWN: ContextVar[bool] = ContextVar("midstride_request_drawn", default=False)
"""Whether a span stands around this request already: an SDK that draws one itself would count it twice."""


def check_ready(model: Model, *, blocking: bool) -> None:
    """Raise DeclarationError where *model* knows that it could not ask."""
    check = getattr(model, "check_ready", None)
    if check is not None:
        check(blocking=blocking)


class Model(Protocol):
    """A model behind one API.

    `ask` and `ask_async` return the whole response verbatim, or `Lost` (ask again) or `Refused` (for good); they
    raise AccessRefused for a key or account that is refused, and ModelUnavailable when the API forbids to ask again.

    Where the API goes on with an answer by itself they may return `UnderWay(handle)`: once the handle is durable they
    are called again with it, in this process or a later one, and fetch that answer instead of sending anything. Then
    a `Lost` that is *paid* says that nothing will come of the handle any more.

    One that may have `check_ready(blocking=)` is asked by it before a run is taken up for more than to look: it raises
    DeclarationError where it could not ask in that way, and nothing is recorded.
    """

    api: str
    """The name of the API in `midstride.core.apis`."""

    params: Mapping[str, Json]
    """What each request holds besides messages, system and tools."""

    facts: Mapping[str, Json]
    """Request facts for the transcript check (PROTOCOL, section 1): model, model_class, thinking."""

    takes_prefill: bool
    """Whether a request may end with an assistant message, which the model then continues."""

    server_tools: Sequence[Json]
    """The provider's own tools, in the API's form; they stand behind the agent's, and are frozen with them."""

    def ask(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Send *request* and return what came of it; with a *handle* fetch the answer that it stands for."""

    async def ask_async(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Do the same without blocking the event loop."""
