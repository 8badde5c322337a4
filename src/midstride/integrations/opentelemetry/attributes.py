"""From a run, a call, a request and a response to attributes: those of the conventions, and our own `midstride.*`.

None of them holds what anybody said. The conventions' names are written out: the package that had them as constants
marks them as moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.util.types import AttributeValue

from midstride.core.apis import Api, Usage
from midstride.core.reconcile import effective
from midstride.core.run import Call
from midstride.drive.observing import Taking
from midstride.visible import one_line

Json = Any
Attributes = dict[str, AttributeValue]

NAME_WIDTH = 200
"""Characters of a name, an id or a model: they may be made up by a model, and stand in every list of spans."""

_SAMPLING = {"temperature": float, "top_p": float, "top_k": int}


def name(value: object) -> str:
    """Return a name so that any exporter takes it: on one line, with what cannot be encoded written out."""
    return one_line(value, NAME_WIDTH)


def of_run(taking: Taking) -> Attributes:
    """Return what is known of a run when it is taken up."""
    run = taking.run
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider(taking.api),
        "gen_ai.conversation.id": name(taking.run_id),
        "midstride.resumed": run.holder is not None,
        "midstride.take": run.token + 1,
    }


def provider(api: str) -> str:
    """Return the provider of an API: the first word of its name."""
    return name(api.partition("-")[0].partition("_")[0])


def of_request(run_id: str, api: str, request: Mapping[str, Json], turn: int) -> Attributes:
    """Return what is known of a request when it is sent."""
    known: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider(api),
        "gen_ai.conversation.id": name(run_id),
        "midstride.turn": turn,
    }
    if isinstance(request.get("model"), str):
        known["gen_ai.request.model"] = name(request["model"])
    for field in ("max_tokens", "max_completion_tokens", "max_output_tokens"):  # as the three APIs call it
        if isinstance(request.get(field), int):
            known["gen_ai.request.max_tokens"] = request[field]
    for field, kind in _SAMPLING.items():
        if isinstance(request.get(field), (int, float)):
            known[f"gen_ai.request.{field}"] = kind(request[field])
    return known


def of_response(api: Api, response: Mapping[str, Json]) -> Attributes:
    """Return what is told of a response."""
    usage = api.usage(response)
    known: Attributes = {
        "gen_ai.response.finish_reasons": [name(api.reason(response))],
        "gen_ai.usage.input_tokens": input_tokens(usage),
        "gen_ai.usage.output_tokens": usage.output,
    }
    for field in ("id", "model"):
        if isinstance(response.get(field), str):
            known[f"gen_ai.response.{field}"] = name(response[field])
    if usage.cache_read:
        known["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
    if usage.cache_write:
        known["gen_ai.usage.cache_write.input_tokens"] = usage.cache_write
    return known


def input_tokens(usage: Usage) -> int:
    """Return all tokens of the input: the conventions count cached ones in."""
    return usage.window - usage.output


def of_call(call: Call) -> Attributes:
    """Return which call it is."""
    return {
        "gen_ai.tool.name": name(call.name),
        "gen_ai.tool.call.id": name(call.id),
        "midstride.turn": call.turn,
        "midstride.index": call.index,
        "midstride.effect": effective(call, None).effect,
    }


def of_attempt(run_id: str, call: Call, attempt: int) -> Attributes:
    """Return what is known of an attempt when it starts."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": name(run_id),
        "gen_ai.tool.type": "function",
        **of_call(call),
        "midstride.attempt": attempt,
    }
