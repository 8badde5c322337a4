"""A model that answers from a list: for tests, examples, and trying an agent without a key.

The answer is chosen by how many answers the request already holds, so a run that was killed and resumed is answered
as if it had not been.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from midstride.core.steps import Lost, Refused, UnderWay
from midstride.errors import DeclarationError
from midstride.models.contract import Draft, Outcome

Json = Any
Answer = str | Sequence[tuple[str, Json]] | Mapping[str, Json] | Lost | Refused
Script = Sequence[Answer] | Callable[[Mapping[str, Json], int], Answer]


class Scripted:
    """Answers from *script*: a text ends the run, a list of (tool name, arguments) calls tools.

    A mapping is a whole response, `Lost` and `Refused` are failures. A function instead of a list gets
    the request and how many requests came before it. `requests` keeps them all. *api* is the one whose form the
    answers have: "anthropic", "openai-chat" or "openai-responses". With *background* each answer is under way first,
    as if the API went on with it by itself, and is fetched then.
    """

    takes_prefill = False
    server_tools: Sequence[Json] = ()

    def __init__(self, script: Script, *, api: str = "anthropic", background: bool = False, **params: Json) -> None:
        if api not in _FORMS:
            raise DeclarationError(f"there is no api {api!r}; there are: {', '.join(_FORMS)}")
        self.script, self.api, self.background = script, api, background
        limit = {"max_tokens": 1_024} if api == "anthropic" else {}
        self.params: Mapping[str, Json] = {"model": "scripted", **limit, **params}
        self.facts: Mapping[str, Json] = {"model_class": "no-prefill"} if api == "anthropic" else {}
        self.requests: list[Mapping[str, Json]] = []

    def ask(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Return the script's answer to *request*."""
        turn = answers_in(request)
        if handle is None:
            self.requests.append(request)
            if self.background:
                return UnderWay({"response": f"resp_{turn + 1}"})
        if callable(self.script):
            return self._response(self.script(request, len(self.requests) - 1), turn)
        if turn >= len(self.script):
            raise DeclarationError(f"the script has {len(self.script)} answers; the run asks for number {turn + 1}")
        return self._response(self.script[turn], turn)

    async def ask_async(self, request: Mapping[str, Json], draft: Draft, handle: Json = None) -> Outcome:
        """Return the script's answer to *request*."""
        return self.ask(request, draft, handle)

    def _response(self, answer: Answer, turn: int) -> Outcome:
        return answer if isinstance(answer, (Lost, Refused, Mapping)) else _FORMS[self.api](answer, turn)


def answers_in(request: Mapping[str, Json]) -> int:
    """Return how many answers a request holds: messages of the assistant, or stretches of items that a model makes."""
    if "messages" in request:
        return sum(message["role"] == "assistant" for message in request["messages"])
    made = [_is_models(item) for item in request["input"]]
    return sum(here and not before for before, here in zip([False, *made], made, strict=False))


def _is_models(item: Mapping[str, Json]) -> bool:
    kind = item.get("type", "message")
    return item["role"] == "assistant" if kind == "message" else not kind.endswith(("_output", "_response"))


def _message(answer: Any, turn: int) -> Mapping[str, Json]:
    """Return a message of the Messages API."""
    content = [{"type": "text", "text": answer}] if isinstance(answer, str) else [
        {"type": "tool_use", "id": f"toolu_{turn + 1}_{index}", "name": name, "input": arguments}
        for index, (name, arguments) in enumerate(answer)
    ]  # fmt: skip
    usage = {"input_tokens": 100 * (turn + 1), "output_tokens": 10}
    message = {"id": f"msg_{turn + 1}", "type": "message", "role": "assistant", "model": "scripted", "content": content}
    reason = "end_turn" if isinstance(answer, str) else "tool_use"
    return {**message, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _completion(answer: Any, turn: int) -> Mapping[str, Json]:
    """Return a completion of Chat Completions."""
    message: dict[str, Json] = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
    if not isinstance(answer, str):
        message["tool_calls"] = [
            {"id": f"call_{turn + 1}_{index}", "type": "function", "function": _function(name, arguments)}
            for index, (name, arguments) in enumerate(answer)
        ]
    finish = "stop" if isinstance(answer, str) else "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 100 * (turn + 1), "completion_tokens": 10}
    completion = {"id": f"chatcmpl_{turn + 1}", "object": "chat.completion", "model": "scripted"}
    return {**completion, "choices": [choice], "usage": usage}


def _items(answer: Any, turn: int) -> Mapping[str, Json]:
    """Return a response of Responses."""
    if isinstance(answer, str):
        part = {"type": "output_text", "text": answer, "annotations": []}
        message = {"id": f"msg_{turn + 1}", "type": "message", "role": "assistant", "status": "completed"}
        output: list[Json] = [{**message, "content": [part]}]
    else:
        output = [
            {"id": f"fc_{turn + 1}_{index}", "type": "function_call", "call_id": f"call_{turn + 1}_{index}",
             **_function(name, arguments), "status": "completed"}
            for index, (name, arguments) in enumerate(answer)
        ]  # fmt: skip
    response = {"id": f"resp_{turn + 1}", "object": "response", "model": "scripted", "status": "completed"}
    return {**response, "output": output, "usage": {"input_tokens": 100 * (turn + 1), "output_tokens": 10}}


def _function(name: str, arguments: Json) -> dict[str, Json]:
    return {"name": name, "arguments": json.dumps(arguments)}


_FORMS: dict[str, Callable[[Any, int], Mapping[str, Json]]] = {
    "anthropic": _message,
    "openai-chat": _completion,
    "openai-responses": _items,
}
