"""Claude, through the official Anthropic SDK; always streamed.

What is kept is the SDK's `to_dict(mode="json", warnings=False)`, which gives the wire's fields back, unknown ones too.
A stream that ends without a stop reason is no response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstride.core.steps import Lost, Refused
from midstride.errors import AccessRefused
from midstride.models.contract import DRAWN, Draft, Outcome
from midstride.models.transport import (
    NOTHING,
    TORN,
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
    import anthropic

Json = Any

MAX_TOKENS = 8_192
"""Room for an answer unless told otherwise; doubled twice after a cut, which every current model still takes."""

_PREFILL = re.compile(r"claude-(2|3|instant|(opus|sonnet|haiku)-(4-[015](-|$)|4-20))")
"""Models that continue a final assistant message: Claude 4.5 and earlier (PROTOCOL, section 5)."""


class Anthropic:
    """A Claude model: `Anthropic("claude-...", max_tokens=..., thinking=..., ...)`; *params* go into every request.

    Without a *client* the SDK's own is made at the first request, with the key from its usual places. *prefill* tells
    whether the model continues a final assistant message where its name does not tell. *server_tools* are the
    provider's own, as the API has them: `{"type": "web_search_20260209", "name": "web_search"}`.
    """

    api = "anthropic"

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = MAX_TOKENS,
        client: anthropic.Anthropic | None = None,
        async_client: anthropic.AsyncAnthropic | None = None,
        prefill: bool | None = None,
        server_tools: Sequence[Json] = (),
        **params: Json,
    ) -> None:
        kind = "models.Anthropic"
        check_params(kind, "anthropic.Anthropic", params, ("messages", "system", "tools"), ("stream",))
        self.params: Mapping[str, Json] = {"model": model, "max_tokens": max_tokens, **params}
        thinking = params.get("thinking")
        thinks = isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive")
        named = continues_prefill(model) if prefill is None else prefill
        self.takes_prefill = named and not thinks
        self.facts: Mapping[str, Json] = {
            "model": model,
            "model_class": "prefill-capable" if named else "no-prefill",
            "thinking": thinking,
        }
        self.server_tools: Sequence[Json] = listed_tools(kind, server_tools)
        self._clients = Clients(kind, client, async_client)

    def check_ready(self, *, blocking: bool) -> None:
        """Raise DeclarationError where nothing could be asked in this way."""
        sdk_named("anthropic", "models.Anthropic")
        self._clients.check(blocking=blocking)

    def ask(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Stream one answer."""
        sdk, begun = sdk_named("anthropic", "models.Anthropic"), False
        try:
            client = self._clients.blocking(sdk.Anthropic)
            with _messages(_ours(client), request).stream(**request) as stream:
                for event in stream:
                    begun = True
                    show(draft, event)
                return _whole(stream.get_final_message()) if begun else NOTHING
        except Shown as shown:
            raise shown.error from None
        except Exception as error:
            return _meant(sdk, error, begun)

    async def ask_async(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Stream one answer without blocking."""
        sdk, begun = sdk_named("anthropic", "models.Anthropic"), False
        try:
            async with (
                self._clients.connected(sdk.AsyncAnthropic) as client,
                _messages(_ours(client), request).stream(**request) as stream,
            ):
                async for event in stream:
                    begun = True
                    show(draft, event)
                return _whole(await stream.get_final_message()) if begun else NOTHING
        except Shown as shown:
            raise shown.error from None
        except Exception as error:
            return _meant(sdk, error, begun)


def continues_prefill(model: str) -> bool:
    """Tell by its name whether a model continues a final assistant message."""
    return _PREFILL.match(model) is not None


def _ours(client: Any) -> Any:
    """Return *client* as one request of ours needs it: without a second span around a request that has one.

    By itself the SDK draws a span wherever a tracer provider is set; one that its user has set up for that stays.
    """
    told = client.open_telemetry if DRAWN.get() else None
    if told is None or {"tracer_provider", "conversation_id"} & set(told):
        return client
    return client.with_options(open_telemetry={**told, "traces": False})


def _messages(client: Any, request: Mapping[str, Json]) -> Any:
    return client.beta.messages if "betas" in request else client.messages


def _whole(message: Any) -> Mapping[str, Json] | Lost:
    response: dict[str, Json] = message.to_dict(mode="json", warnings=False)
    for block in response["content"]:
        block.pop("parsed_output", None)  # the SDK's own, not the wire's
    if response.get("stop_reason") is None:
        return TORN
    return response


def _meant(sdk: Any, error: Exception, begun: bool) -> Lost | Refused:
    """Return what an exception of the SDK means for the run, or raise it."""
    known = classified(sdk, error, begun=begun)
    if known is not None:
        return known
    unknown = unknown_parameter("models.Anthropic", error)
    if unknown is not None:
        raise unknown from error
    if isinstance(error, TypeError) and "authentication" in str(error):
        raise AccessRefused("no API key was found: set ANTHROPIC_API_KEY and run the same program again") from error
    raise error
