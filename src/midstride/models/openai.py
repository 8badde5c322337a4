"""OpenAI's two APIs, through the official OpenAI SDK; always streamed.

What is kept is what `to_dict(mode="json", warnings=False)` gives, the wire's fields, unknown ones too: `model_dump()`
renames some and invents nulls. This file is what both have in common: clients, one answer heard to its end, errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from midstride.core.steps import Lost
from midstride.errors import AccessRefused, NotAllowed
from midstride.models.contract import Draft, Outcome
from midstride.models.transport import (
    Clients,
    Shown,
    check_params,
    classified,
    listed_tools,
    sdk_named,
    show,
    unknown_parameter,
)

if TYPE_CHECKING:
    import openai

Json = Any

GIVEN = ("messages", "input", "instructions", "tools")
"""Parameters under which a request holds what the Agent is given: task, system and tools."""


class Heard(Protocol):
    """One answer, put together from the events of its stream."""

    begun: bool
    """Whether the stream was opened: what breaks behind that was paid for."""

    def add(self, event: Mapping[str, Json]) -> Outcome | None:
        """Take in one event; what is returned ends the hearing."""

    def end(self) -> Outcome:
        """Return what the stream came to, which ended."""


class OpenAIModel(ABC):
    """A model behind an API of OpenAI's, or behind a server that speaks it."""

    api: str
    takes_prefill = False
    own: frozenset[str]
    """Parameters that are the run's, or this class's."""

    def __init__(
        self,
        model: str,
        params: Mapping[str, Json],
        client: openai.OpenAI | None,
        async_client: openai.AsyncOpenAI | None,
        server_tools: Sequence[Json],
    ) -> None:
        kind = f"models.{type(self).__name__}"
        check_params(kind, "openai.OpenAI", params, GIVEN, self.own)
        named = {"model": model, **params}
        self.params: Mapping[str, Json] = {name: value for name, value in named.items() if value is not None}
        self.facts: Mapping[str, Json] = {"model": model}
        self.server_tools: Sequence[Json] = listed_tools(kind, server_tools)
        self._clients = Clients(kind, client, async_client)

    def check_ready(self, *, blocking: bool) -> None:
        """Raise DeclarationError where nothing could be asked in this way."""
        self._sdk()
        self._clients.check(blocking=blocking)

    def ask(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Stream one answer."""
        sdk, heard = self._sdk(), self._heard(handle)
        try:
            client = self._clients.blocking(sdk.OpenAI)
            if handle is not None:
                found = self._found(self._retrieve(client, handle))
                if found is not None:
                    return found
            with self._opened(client, request, handle) as stream:
                heard.begun = True
                for event in stream:
                    come_to = _take_in(heard, event, draft)
                    if come_to is not None:
                        return come_to
            return heard.end()
        except Shown as shown:
            raise shown.error from None
        except Exception as error:
            return self._meant(sdk, error, heard, handle)

    async def ask_async(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Stream one answer without blocking."""
        sdk, heard = self._sdk(), self._heard(handle)
        try:
            async with self._clients.connected(sdk.AsyncOpenAI) as client:
                if handle is not None:
                    found = self._found(await self._retrieve(client, handle))
                    if found is not None:
                        return found
                async with await self._opened(client, request, handle) as stream:
                    heard.begun = True
                    async for event in stream:
                        come_to = _take_in(heard, event, draft)
                        if come_to is not None:
                            return come_to
                return heard.end()
        except Shown as shown:
            raise shown.error from None
        except Exception as error:
            return self._meant(sdk, error, heard, handle)

    # ---- what differs

    @abstractmethod
    def _heard(self, handle: Json) -> Heard:
        """Return what puts an answer together; *handle* where it is fetched."""

    @abstractmethod
    def _opened(self, client: Any, request: Mapping[str, Json], handle: Json) -> Any:
        """Return the stream of an answer; of an asynchronous client, something to wait for."""

    def _retrieve(self, client: Any, handle: Json) -> Any:
        """Return the response under way as it stands; only an API that leaves answers under way has one."""
        raise NotAllowed(f"models.{type(self).__name__} leaves no answer under way, so there is none to be fetched")

    def _found(self, response: Any) -> Outcome | None:
        """Return what a response came to; None while it is under way."""
        return None

    # ---- what does not

    def _sdk(self) -> Any:
        return sdk_named("openai", f"models.{type(self).__name__}")

    def _meant(self, sdk: Any, error: Exception, heard: Heard, handle: Json) -> Outcome:
        """Return what an exception of the SDK means for the run, or raise it."""
        if handle is not None and isinstance(error, sdk.NotFoundError):
            return Lost("the API does not know the answer that was under way any more", paid=True)
        known = classified(sdk, error, begun=heard.begun)
        if known is not None:
            # The answer itself goes on at the API: whatever befell its stream costs nothing, and it is fetched again.
            return known if handle is None else Lost(known.reason, getattr(known, "wait", None))
        unknown = unknown_parameter(f"models.{type(self).__name__}", error)
        if unknown is not None:
            raise unknown from error
        if isinstance(error, sdk.OpenAIError) and "redentials" in str(error):
            raise AccessRefused("no API key was found: set OPENAI_API_KEY and run the same program again") from error
        raise error


def _take_in(heard: Heard, event: Any, draft: Draft) -> Outcome | None:
    show(draft, event)
    return heard.add(event.to_dict(mode="json", warnings=False))
