"""OpenAI's Responses API, its whole list of items sent each time (PROTOCOL sections 4 and 9)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from midstride.core.apis.contract import Answered, LastAnswer, ModelCall, Usage, count, doubled
from midstride.core.apis.neutral import (
    EMPTY,
    address,
    arguments_in,
    blocks_of,
    file_name,
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
Item = Mapping[str, Json]


class OpenAIResponses:
    """A response is a list of items; each call is one of them, and so is each result."""

    name = "openai-responses"
    loops = True

    def check(self, response: Json) -> None:
        """Raise NotAResponse unless it has a list of items and has come to its end."""
        output = response.get("output") if isinstance(response, Mapping) else None
        if not isinstance(output, list) or not all(isinstance(item, Mapping) for item in output):
            raise NotAResponse(f"{type(response).__name__} is no response: wanted a response with a list of items")
        status, error = response.get("status"), _mapping(response.get("error"))
        if status == "failed":
            said = f"{error.get('code')}: {error.get('message')}"
            raise NotAResponse(f"the response failed ({said}), so it is none: send the request again")
        if status not in ("completed", "incomplete"):
            raise NotAResponse(f"the response is {status!r}, so it is none yet: wait until it is completed")

    def stop(self, response: Mapping[str, Json]) -> str:
        """Only a completed response runs tools, and only where every call in it can be answered."""
        if response["status"] == "incomplete":
            return "cut" if _why_incomplete(response) == "max_output_tokens" else "refused"
        if any(call.get("status") == "incomplete" for call in _ours(response)):
            return "cut"  # R12: its arguments may lack their end
        if _refusal(response) is not None or _beyond_us(response):
            return "refused"
        return "calls" if _ours(response) else "final"

    def reason(self, response: Mapping[str, Json]) -> str:
        """Return the status, with what made it incomplete, what the model refused, or what nobody here can do."""
        status = str(response["status"])
        if status == "incomplete":
            return f"{status} ({_why_incomplete(response)})"
        refusal, beyond = _refusal(response), _beyond_us(response)
        if refusal is not None:
            return f"{status} (refusal: {refusal})"
        return f"{status} ({', '.join(beyond)}: nothing here can answer it)" if beyond else status

    def calls(self, response: Mapping[str, Json]) -> tuple[ModelCall, ...]:
        """Return the calls that are ours to answer; those of kinds that nothing here runs say so."""
        return tuple(_CALLS[item["type"]](item) for item in _ours(response))

    def joins(self, response: Mapping[str, Json]) -> list[Json]:
        """Return the items as they came: reasoning, text and calls in their order."""
        return list(response["output"])

    def text(self, response: Mapping[str, Json]) -> str:
        """Return the texts of its messages, joined; where there is more than commentary, without the commentary."""
        messages = [item for item in response["output"] if item.get("type", "message") == "message"]
        final = [item for item in messages if item.get("phase") != "commentary"] or messages
        return "".join(map(_text_in, final))

    def begun(self, messages: Sequence[Json]) -> str:
        """Return "": this API continues no message."""
        return ""

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """Input tokens hold the cached ones too."""
        usage = _mapping(response.get("usage"))
        details = _mapping(usage.get("input_tokens_details"))
        inside, out = count(usage, "input_tokens"), count(usage, "output_tokens")
        read, write = count(details, "cached_tokens"), count(details, "cache_write_tokens")
        return Usage(inside + out, max(0, inside - read - write), out, read, write)

    def results(self, answered: Sequence[Answered]) -> list[Json]:
        """Return an output item for each call, of the kind that goes with it."""
        return [_OUTPUTS[one.echo.get("type", "function_call")](one) for one in answered]

    def say(self, content: Json) -> list[Json]:
        """Return a message of the user's."""
        return user_message(content, _part)

    def tools(self, definitions: Sequence[Mapping[str, Json]]) -> list[Json]:
        """Return the definitions as functions; this API takes them for strict where that is not denied."""
        return [
            {
                "type": "function",
                "name": d["name"],
                "description": d["description"],
                "parameters": d["input_schema"],
                "strict": False,
            }
            for d in definitions
        ]

    def request(
        self, messages: list[Json], system: Json, tools: Sequence[Json], params: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return input, and instructions and tools where the run has them."""
        request: dict[str, Json] = {**params, "input": messages}
        if system is not None:
            text = plain_text(system)
            request["instructions"] = system if text is None else text
        return {**request, "tools": list(tools)} if tools else request

    def answers(self, messages: Sequence[Json], made: Collection[str] = ()) -> int:
        """Return how often the model's items begin: behind the start, or behind what is not the model's."""
        items = [item for item in messages if not _is_made(item, made)]
        models = [at for at, item in enumerate(items) if _is_models(item)]
        return sum(at == 0 or not _is_models(items[at - 1]) for at in models)

    def last_answer(self, messages: Sequence[Json], made: Collection[str] = ()) -> LastAnswer | None:
        """Return the model's items that have nothing behind them but results of functions and the user's messages.

        What another program gave a shell or a patch is no result that a run could give again.
        """
        gaps = [_is_made(item, made) for item in messages]
        end = len(messages)
        while end and (gaps[end - 1] or _stands_behind(messages[end - 1])):
            end -= 1
        start = end
        while start and (gaps[start - 1] or _is_models(messages[start - 1])):
            start -= 1
        while start < end and gaps[start]:  # it answers a call in front of the answer
            start += 1
        output = [item for item, gap in zip(messages[start:end], gaps[start:], strict=False) if not gap]
        behind = [item for item, gap in zip(messages[end:], gaps[end:], strict=True) if not gap]
        response = {"status": "completed", "output": output}
        calls = self.calls(response)
        given = [item for item in behind if item.get("role") != "user"]
        names = [call.id for call in calls]
        known = is_one_each(names, [item.get("call_id") for item in given])
        known = known and not any(item.get("call_id") in names for item in messages[:start])
        echoes = {call.id: call.echo for call in calls}
        if not output or not known or not all(self._is_said_again(item, echoes) for item in behind):
            return None
        results = {item["call_id"]: result_in(item["output"]) for item in given}
        said = [item["content"] for item in behind if item.get("role") == "user"]
        asks = frozenset(call.id for call in calls if call.echo.get("type") == "mcp_approval_request")
        return LastAnswer(start, end < len(messages), response, results, said, unstarted=asks)

    def _is_said_again(self, item: Item, echoes: Mapping[str, Mapping[str, Json]]) -> bool:
        """Tell whether a run sends the item of a user or a function as it is, but for names that the server gave it."""
        kept = {name: value for name, value in item.items() if name not in ("id", "status")}
        if item.get("role") == "user":
            return [{"type": "message", **one} for one in self.say(item.get("content"))] == [
                {"type": "message", **kept}
            ]
        if item.get("type") not in _GIVEN:
            return False
        one = Answered(item["call_id"], item.get("output"), False, echoes[item["call_id"]])
        return self.results([one]) == [{**kept, "output": item.get("output") or EMPTY}]

    def roomier(self, params: Mapping[str, Json], cuts: int) -> Mapping[str, Json]:
        """Double the limit where one is set; without one the model's own holds."""
        return doubled(params, cuts, "max_output_tokens")


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _parts(item: Item) -> list[Item]:
    content = item.get("content")
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def _text_in(message: Item) -> str:
    if isinstance(message.get("content"), str):
        return str(message["content"])  # the short form, which a transcript that was taken over may hold
    texts = (part.get("text") for part in _parts(message) if part.get("type") == "output_text")
    return "".join(text for text in texts if isinstance(text, str))


def _why_incomplete(response: Mapping[str, Json]) -> str:
    return str(_mapping(response.get("incomplete_details")).get("reason"))


def _refusal(response: Mapping[str, Json]) -> str | None:
    parts = [part for item in response["output"] for part in _parts(item)]
    said = [str(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    return " ".join(said) if said else None


# ---- calls, and what answers them


def _ours(response: Mapping[str, Json]) -> list[Item]:
    """Return the calls that wait for us: of a kind that we can answer, and not answered by the server itself."""
    return [item for item in _waiting(response) if item.get("type") in _CALLS]


def _beyond_us(response: Mapping[str, Json]) -> list[str]:
    """Return the kinds of calls that wait for us and that no words can answer: a screenshot, or tools."""
    kinds = [str(item.get("type")) for item in _waiting(response)]
    return [kind for kind in dict.fromkeys(kinds) if kind in ("computer_call", "local_shell_call", "tool_search_call")]


def _waiting(response: Mapping[str, Json]) -> list[Item]:
    output: list[Item] = response["output"]
    answered = [item.get("call_id") for item in output if str(item.get("type")).endswith("_output")]
    here = [item for item in output if item.get("execution") != "server"]
    return [item for item in here if item.get("call_id") is None or item.get("call_id") not in answered]


_GIVEN = ("function_call_output", "custom_tool_call_output")


def _is_given(item: Item) -> bool:
    """Tell whether a program, and not the server, gave the item for a call."""
    kind = str(item.get("type"))
    return (kind == "mcp_approval_response" or kind.endswith("_call_output")) and item.get("execution") != "server"


def _is_made(item: Item, made: Collection[str]) -> bool:
    return _is_given(item) and str(item.get("call_id")) in made


def _stands_behind(item: Item) -> bool:
    return item.get("role") == "user" or _is_given(item)


def _is_models(item: Item) -> bool:
    nobodys = ("compaction", "compaction_trigger", "item_reference")
    theirs = item.get("role") in ("system", "developer") or item.get("type") in nobodys
    return not _stands_behind(item) and not theirs


def _function_call(item: Item) -> ModelCall:
    arguments, problem = arguments_in(item.get("arguments"))
    echo = {"caller": item["caller"]} if item.get("caller") is not None else {}  # whose program waits for the result
    return ModelCall(str(item.get("call_id") or ""), str(item.get("name", "")), arguments, echo, problem)


def _foreign_call(item: Item) -> ModelCall:
    kind = str(item["type"])
    name = item.get("name", kind.removesuffix("_call"))
    asked = next((item[field] for field in ("input", "action", "operation") if field in item), None)
    problem = f"this program runs function tools only, and this is a {kind}"
    return ModelCall(str(item.get("call_id") or ""), str(name), asked, {"type": kind}, problem)


def _approval(item: Item) -> ModelCall:
    asked, _ = arguments_in(item.get("arguments"))
    server = item.get("server_label")
    problem = f"nobody here can approve a call of the server {server!r}, so it was not run"
    return ModelCall(str(item.get("id") or ""), str(item.get("name", "")), asked, {"type": item["type"]}, problem)


_CALLS: dict[str, Callable[[Item], ModelCall]] = {
    "function_call": _function_call,
    "custom_tool_call": _foreign_call,
    "shell_call": _foreign_call,
    "apply_patch_call": _foreign_call,
    "mcp_approval_request": _approval,
}

NOT_RUN = 127
"""The exit code of a shell that found nothing to run."""


def _function_output(one: Answered) -> Json:
    text = plain_text(one.content)
    output = told(text, is_error=one.is_error) if text is not None else _shown_parts(one)
    return {"type": "function_call_output", "call_id": one.id, "output": output, **one.echo}


def _shown_parts(one: Answered) -> list[Json]:
    first, *rest = blocks_of(one.content)
    text = text_in(first)
    if text is None:
        lead = [{"type": "input_text", "text": "Error:"}] if one.is_error else []
        return [*lead, *map(_result_part, blocks_of(one.content))]
    return [{"type": "input_text", "text": told(text, is_error=one.is_error)}, *map(_result_part, rest)]


def _text_of(one: Answered) -> str:
    return told("\n".join(text_in(block) or shown(block) for block in blocks_of(one.content)), is_error=one.is_error)


_OUTPUTS: dict[str, Callable[[Answered], Json]] = {
    "function_call": _function_output,
    "custom_tool_call": lambda one: {
        "type": "custom_tool_call_output",
        "call_id": one.id,
        "output": _text_of(one),
    },
    "shell_call": lambda one: {
        "type": "shell_call_output",
        "call_id": one.id,
        "output": [{"stdout": "", "stderr": _text_of(one), "outcome": {"type": "exit", "exit_code": NOT_RUN}}],
    },
    "apply_patch_call": lambda one: {
        "type": "apply_patch_call_output",
        "call_id": one.id,
        "status": "failed",
        "output": _text_of(one),
    },
    "mcp_approval_request": lambda one: {
        "type": "mcp_approval_response",
        "approval_request_id": one.id,
        "approve": False,
        "reason": _text_of(one),
    },
}


# ---- content


def _part(block: Json) -> Json:
    """Return a block as a part of an input message; what is no block of ours is the API's own, and stays."""
    text = text_in(block)
    if text is not None:
        return {"type": "input_text", "text": text}
    match block:
        case {"type": "image", "source": source} if address(source) is not None:
            return {"type": "input_image", "image_url": address(source), "detail": "auto"}
        case {"type": "document", "source": {"type": "url", "url": str(url)}}:
            return {"type": "input_file", "file_url": url}
        case {"type": "document", "source": source} if address(source) is not None:
            return {"type": "input_file", "filename": file_name(block), "file_data": address(source)}
    return block


def _result_part(block: Json) -> Json:
    """Return a block of a result; what the API has no form for is shown as JSON."""
    part = _part(block)
    known = isinstance(part, Mapping) and part.get("type") in ("input_text", "input_image", "input_file")
    return part if known else {"type": "input_text", "text": shown(block)}
