"""OpenAI's Chat Completions API, and the many servers that speak it (PROTOCOL sections 4 and 8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from midstride.core.apis.contract import Answered, LastAnswer, ModelCall, Usage, count, doubled
from midstride.core.apis.neutral import (
    EMPTY,
    Block,
    address,
    arguments_in,
    blocks_of,
    file_name,
    is_inline,
    is_one_each,
    plain_text,
    result_in,
    shown,
    text_in,
    told,
    user_message,
)
from midstride.errors import NotAResponse

Json = Any

BEHIND = "(shown in the message behind the results: a tool message holds text only)"
"""Stands in a tool message for an image or a file (C11)."""


class OpenAIChat:
    """One message of the assistant a response, one message of role tool a result."""

    name = "openai-chat"
    loops = True
    _STOPS = {
        "stop": "final",
        "tool_calls": "calls",
        "function_call": "calls",
        "length": "cut",
        "content_filter": "refused",
    }

    def check(self, response: Json) -> None:
        """Raise NotAResponse unless it has one choice, with a message of the assistant's and a finish reason."""
        choices = response.get("choices") if isinstance(response, Mapping) else None
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
            found = f"{len(choices)} choices" if isinstance(choices, list) else type(response).__name__
            raise NotAResponse(f"{found} is no response: wanted a chat completion with one choice")
        message, calls = choices[0].get("message"), _field(choices[0].get("message"), "tool_calls")
        if _field(message, "role") != "assistant":
            raise NotAResponse(f"role {_field(message, 'role')!r} is no response: wanted a message of the assistant")
        if not isinstance(calls or [], list) or not all(isinstance(call, Mapping) for call in calls or []):
            raise NotAResponse("tool_calls of the response is no list of calls: wanted the message as the API sent it")
        if not isinstance(choices[0].get("finish_reason"), str):
            raise NotAResponse("the response has no finish reason: its stream ended too early, so it is no response")

    def stop(self, response: Mapping[str, Json]) -> str:
        """Return how the answer ended: `stop` with calls asks for them, and a refusal in words is one.

        The API itself says `stop` where `tool_choice` named the function, and many servers always do
        (vllm-project/vllm#25054). A `function_call` of the old kind has no answer in this form: it runs nothing.
        """
        message = _message(response)
        if message.get("refusal") or (message.get("function_call") and not message.get("tool_calls")):
            return "refused"
        stop = self._STOPS.get(response["choices"][0]["finish_reason"], "refused")
        return "calls" if stop == "final" and message.get("tool_calls") else stop

    def reason(self, response: Mapping[str, Json]) -> str:
        """Return finish_reason, and what the model said where it refused in words."""
        reason, message = str(response["choices"][0]["finish_reason"]), _message(response)
        if message.get("refusal"):
            return f"{reason} (refusal: {message['refusal']})"
        old = message.get("function_call") and not message.get("tool_calls")
        return f"{reason} (a function_call of the old kind)" if old else reason

    def calls(self, response: Mapping[str, Json]) -> tuple[ModelCall, ...]:
        """Return the tool calls; their arguments are read, and the text stays in the transcript as it came."""
        return tuple(map(_call, _message(response).get("tool_calls") or ()))

    def joins(self, response: Mapping[str, Json]) -> list[Json]:
        """Return the message as it came, fields that nobody here knows included."""
        return [_message(response)]

    def text(self, response: Mapping[str, Json]) -> str:
        """Return the content, or its text parts joined."""
        content = _message(response).get("content")
        parts = blocks_of(content) if content else ()
        return "".join(text for text in map(text_in, parts) if text is not None)

    def begun(self, messages: Sequence[Json]) -> str:
        """Return "": this API continues no message."""
        return ""

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """Prompt tokens hold the cached ones too."""
        usage = _mapping(response.get("usage"))
        details = _mapping(usage.get("prompt_tokens_details"))
        inside, out = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
        read, write = count(details, "cached_tokens"), count(details, "cache_write_tokens")
        return Usage(inside + out, max(0, inside - read - write), out, read, write)

    def results(self, answered: Sequence[Answered]) -> list[Json]:
        """Return a tool message for each call; images and files come behind all of them, in one of the user's."""
        messages: list[Json] = []
        media: list[Json] = []
        for one in answered:
            blocks = blocks_of(one.content)
            text = "\n".join(BEHIND if _is_media(block) else _words(block) for block in blocks)
            messages.append({"role": "tool", "tool_call_id": one.id, "content": told(text, is_error=one.is_error)})
            mine = [_part(block) for block in blocks if _is_media(block)]
            label = f"From the result of call {one.id}, not from the user:"
            media += [{"type": "text", "text": label}, *mine] if mine else []
        return [*messages, *([{"role": "user", "content": media}] if media else [])]

    def say(self, content: Json) -> list[Json]:
        """Return a user message."""
        return user_message(content, _part)

    def tools(self, definitions: Sequence[Mapping[str, Json]]) -> list[Json]:
        """Return the definitions as functions."""
        return [
            {
                "type": "function",
                "function": {"name": d["name"], "description": d["description"], "parameters": d["input_schema"]},
            }
            for d in definitions
        ]

    def request(
        self, messages: list[Json], system: Json, tools: Sequence[Json], params: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return messages, and tools where the run has them; the system prompt is the first message.

        Its role is system: every server knows it, and the API reads it as developer where a model wants that.
        """
        first = [] if system is None else [{"role": "system", "content": _system(system)}]
        request: dict[str, Json] = {**params, "messages": [*first, *messages]}
        return {**request, "tools": list(tools)} if tools else request

    def answers(self, messages: Sequence[Json], made: Collection[str] = ()) -> int:
        """Return how many messages are the assistant's."""
        return sum(message.get("role") == "assistant" for message in messages)

    def last_answer(self, messages: Sequence[Json], made: Collection[str] = ()) -> LastAnswer | None:
        """Return the assistant's message that has nothing behind it but tool messages and the user's.

        A call of the old kind has no id by which its result could be known.
        """
        end = len(messages)
        while end and messages[end - 1].get("role") in ("tool", "user"):
            end -= 1
        message = messages[end - 1] if end else {}
        if message.get("role") != "assistant" or message.get("function_call"):
            return None
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        response = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
        try:
            self.check(response)
        except NotAResponse:
            return None
        behind = [one for one in messages[end:] if one["role"] == "user" or str(one.get("tool_call_id")) not in made]
        given = [one for one in behind if one["role"] == "tool"]
        known = is_one_each([call.id for call in self.calls(response)], [one.get("tool_call_id") for one in given])
        if not known or not all(map(self._is_said_again, behind)):
            return None
        results = {one["tool_call_id"]: result_in(one["content"]) for one in given}
        said = [one["content"] for one in behind if one["role"] == "user"]
        return LastAnswer(end - 1, end < len(messages), response, results, said)

    def _is_said_again(self, message: Mapping[str, Json]) -> bool:
        """Tell whether a run sends the message of a user or a tool as it is; words stand for a result without any."""
        content = message.get("content")
        if message["role"] == "user":
            return self.say(content) == [message]
        again = self.results([Answered(message["tool_call_id"], content, is_error=False)])
        return again == [{**message, "content": content or EMPTY}]

    def roomier(self, params: Mapping[str, Json], cuts: int) -> Mapping[str, Json]:
        """Double whichever limit is set; without one the model's own holds."""
        return doubled(params, cuts, "max_tokens", "max_completion_tokens")


def _message(response: Mapping[str, Json]) -> Mapping[str, Json]:
    message: Mapping[str, Json] = response["choices"][0]["message"]
    return message


def _field(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, Mapping) else None


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _call(call: Mapping[str, Json]) -> ModelCall:
    name, custom = str(call.get("id") or ""), call.get("custom")
    if isinstance(custom, Mapping):
        problem = "this program runs function tools only, and this is a call of a custom tool"
        return ModelCall(name, str(custom.get("name", "")), custom.get("input"), problem=problem)
    function = _mapping(call.get("function"))
    arguments, unread = arguments_in(function.get("arguments"))
    return ModelCall(name, str(function.get("name", "")), arguments, problem=unread)


def _is_media(block: Json) -> bool:
    return _field(_part(block), "type") in ("image_url", "file")


def _part(block: Json) -> Json:
    """Return a block as a part of a user message; what is no block of ours is the API's own, and stays."""
    match block:
        case {"type": "image", "source": source} if address(source) is not None:
            return {"type": "image_url", "image_url": {"url": address(source)}}
        case {"type": "document", "source": source} if is_inline(source) and address(source) is not None:
            return {"type": "file", "file": {"filename": file_name(block), "file_data": address(source)}}
        case {"type": "document"}:
            return {"type": "text", "text": _words(block)}
    return block


def _words(block: Block) -> str:
    """Return what a block says, in words; a document that only its address tells is told by it."""
    text = text_in(block)
    if text is not None:
        return text
    url = address(_field(block, "source"))
    return shown(block) if url is None else f"(a document at {url})"


def _system(system: Json) -> Json:
    text = plain_text(system)
    return system if text is None else text
