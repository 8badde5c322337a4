"""OpenAI's Responses: stateless, the whole list of items sent each time, its reasoning encrypted in it; or in the
background, where an answer under way outlives the process that asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstride.core.steps import Lost, Refused, UnderWay
from midstride.errors import DeclarationError
from midstride.models.contract import Outcome
from midstride.models.openai import OpenAIModel
from midstride.models.transport import TORN, broken_off

if TYPE_CHECKING:
    import openai

Json = Any

ENCRYPTED = "reasoning.encrypted_content"
"""What has to be asked for so that a model's reasoning can be sent back without the server keeping it."""


class OpenAIResponses(OpenAIModel):
    """A model behind Responses: `OpenAIResponses("gpt-...", max_output_tokens=..., reasoning=..., ...)`.

    *params* go into every request; None leaves one out that would be there: `include=None` for a model that does not
    reason. The server keeps nothing (`store=False`), the run sends everything. With *background* the server goes on
    when the process dies (it has to keep the response for that, `store=True`), and its answer is fetched instead of
    asked and paid for twice. Client and *server_tools* are as for OpenAIChat.
    """

    api = "openai-responses"
    own = frozenset({"input", "instructions", "tools", "stream", "previous_response_id", "conversation"})

    def __init__(
        self,
        model: str,
        *,
        background: bool = False,
        client: openai.OpenAI | None = None,
        async_client: openai.AsyncOpenAI | None = None,
        server_tools: Sequence[Json] = (),
        **params: Json,
    ) -> None:
        if not isinstance(background, bool):
            raise DeclarationError(f"models.OpenAIResponses has background={background!r}: wanted True or False")
        if background and params.get("store") is False:
            raise DeclarationError("background=True needs the server to keep the answer: leave out store=False")
        usual = {"store": background, "include": [ENCRYPTED], **({"background": True} if background else {})}
        super().__init__(model, {**usual, **params}, client, async_client, server_tools)
        self.background = background
        self.facts = {"model": model, "store": self.params.get("store", True)}

    def _heard(self, handle: Json) -> Response:
        return Response(accepts=self.background, fetched=handle is not None)

    def _opened(self, client: Any, request: Mapping[str, Json], handle: Json) -> Any:
        if handle is not None:
            return client.responses.retrieve(handle["response"], stream=True, **self._included())
        return client.responses.create(stream=True, **request)

    def _retrieve(self, client: Any, handle: Json) -> Any:
        return client.responses.retrieve(handle["response"], **self._included())

    def _included(self) -> dict[str, Json]:
        # What is fetched holds the encrypted reasoning only where that is asked for again.
        return {"include": self.params["include"]} if self.params.get("include") else {}

    def _found(self, response: Any) -> Outcome | None:
        return come_to(response.to_dict(mode="json", warnings=False))


TORN_AWAY = Lost("the stream of an answer under way ended before it was whole")


class Response:
    """A response that is heard until it has come to its end; *accepts*: until the server has taken it on.

    One that is *fetched* goes on at the server whatever becomes of its stream: that costs nothing.
    """

    def __init__(self, *, accepts: bool = False, fetched: bool = False) -> None:
        self.begun = False
        self._accepts, self._fetched = accepts and not fetched, fetched

    def add(self, event: Mapping[str, Json]) -> Outcome | None:
        """Take in one event; those that bear the response tell how it stands."""
        if event.get("type") == "error":
            return TORN_AWAY if self._fetched else broken_off(_Said(event), event.get("code"))
        response = event.get("response")
        if not isinstance(response, Mapping):
            return None
        whole = come_to(response)
        if whole is None and self._accepts and response.get("id"):
            return UnderWay({"response": response["id"]})
        return whole

    def end(self) -> Outcome:
        """Return that the stream ended too early: an answer's last event has been heard by `add`."""
        return TORN_AWAY if self._fetched else TORN


def come_to(response: Mapping[str, Json]) -> Outcome | None:
    """Return what a response came to; None while it is queued or in progress."""
    status = response.get("status")
    if status in ("completed", "incomplete"):
        return response
    if status == "failed":
        error = response.get("error") or {}
        meant = broken_off(_Said(error), error.get("code"))
        return meant if isinstance(meant, Refused) else Lost(f"the response failed ({_Said(error)})", paid=True)
    return Lost("the response was cancelled at the API", paid=True) if status == "cancelled" else None


class _Said(Exception):
    """An error that the API tells inside an answer."""

    def __init__(self, told: Mapping[str, Json]) -> None:
        super().__init__(f"{told.get('code')}: {told.get('message')}")
