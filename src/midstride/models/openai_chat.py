"""OpenAI's Chat Completions, and every server that speaks them: vLLM, Ollama, llama.cpp, OpenRouter, DeepSeek, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstride.models.contract import Outcome
from midstride.models.openai import OpenAIModel
from midstride.models.transport import TORN

if TYPE_CHECKING:
    import openai

Json = Any


class OpenAIChat(OpenAIModel):
    """A model behind Chat Completions: `OpenAIChat("gpt-...", max_completion_tokens=..., ...)`.

    *params* go into every request; None leaves one out that would be there. Without a *client* the SDK's own is made at
    the first request, with key and base URL from its usual places; a compatible server is
    `client=openai.OpenAI(base_url=..., api_key=...)`. *server_tools* are the provider's own, as the API has them.
    """

    api = "openai-chat"
    own = frozenset({"messages", "tools", "stream", "n"})

    def __init__(
        self,
        model: str,
        *,
        client: openai.OpenAI | None = None,
        async_client: openai.AsyncOpenAI | None = None,
        server_tools: Sequence[Json] = (),
        **params: Json,
    ) -> None:
        # Without it a stream tells no usage, and a limit of tokens would never be reached.
        params = {"stream_options": {"include_usage": True}, **params}
        super().__init__(model, params, client, async_client, server_tools)

    def _heard(self, handle: Json) -> Completion:
        return Completion()

    def _opened(self, client: Any, request: Mapping[str, Json], handle: Json) -> Any:
        return client.chat.completions.create(stream=True, **request)


class Completion:
    """A chat completion, put together from its chunks: what the API would have sent in one piece."""

    def __init__(self) -> None:
        self.begun = False
        self._whole: dict[str, Json] = {}
        self._choice: dict[str, Json] = {}
        self._message: dict[str, Json] = {}

    def add(self, event: Mapping[str, Json]) -> Outcome | None:
        """Take in one chunk."""
        for name, value in event.items():
            if name == "choices":
                for choice in value or ():
                    self._take_in(choice)
            elif value is not None or name not in self._whole:
                self._whole[name] = value
        return None

    def _take_in(self, choice: Mapping[str, Json]) -> None:
        delta = choice.get("delta") or {}
        for name, value in choice.items():
            if name != "delta":
                self._choice[name] = grown(self._choice.get(name), value, name)
        for name, value in delta.items():
            self._message[name] = grown(self._message.get(name), value, name)

    def end(self) -> Outcome:
        """Return the completion; one without a finish reason is torn."""
        if not isinstance(self._choice.get("finish_reason"), str):
            return TORN
        message = {"role": "assistant", **self._message}
        if message.get("tool_calls"):
            # The place in a stream is no field of a call.
            message["tool_calls"] = [
                {name: value for name, value in call.items() if name != "index"} for call in message["tool_calls"]
            ]
        choice = {"index": 0, **self._choice, "message": message}
        return {**self._whole, "object": "chat.completion", "choices": [choice]}


ONCE = frozenset({"role", "type", "index", "finish_reason"})
"""Fields that some servers repeat in every chunk: the last word counts."""

WHOLE = frozenset({"id", "name"})
"""Fields that come in one piece, or are repeated, or, from some servers, come in several pieces."""


def grown(old: Json, new: Json, name: str) -> Json:
    """Return the field *name* with what a chunk adds to it: texts grow, lists grow by place, objects by field."""
    if old is None or new is None:
        return new if old is None else old
    if isinstance(old, str) and isinstance(new, str):
        repeated = name in WHOLE and new == old
        return new if name in ONCE else old if repeated else old + new
    if isinstance(old, list) and isinstance(new, list):
        return _list_grown(old, new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{field: grown(old.get(field), value, field) for field, value in new.items()}}
    return new


def _list_grown(old: list[Json], new: list[Json]) -> list[Json]:
    items = list(old)
    for one in new:
        at = _place(items, one)
        if at is None:
            items.append(one)
        else:
            items[at] = grown(items[at], one, "")
    return items


def _place(items: Sequence[Json], one: Json) -> int | None:
    """Return which item *one* goes on with, by the index that it bears; without one, the last if it names no other."""
    if not isinstance(one, Mapping):
        return None
    index = one.get("index")
    if isinstance(index, int):
        return next((at for at, item in enumerate(items) if _of(item, "index") == index), None)
    same = items and "function" in one and one.get("id") in (None, "", _of(items[-1], "id"))
    return len(items) - 1 if same else None


def _of(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, Mapping) else None
