"""The Anthropic Messages API (PROTOCOL sections 3 and 4; the SDK's own mapping of stop reasons)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from midstride.core.apis.contract import Answered, LastAnswer, ModelCall, Usage, count, doubled
from midstride.errors import NotAResponse

Json = Any


class AnthropicMessages:
    """Messages with a role and blocks; the results of a turn travel in one of the user's."""

    name = "anthropic"
    loops = True
    _STOPS = {
        "tool_use": "calls",
        "end_turn": "final",
        "stop_sequence": "final",
        "pause_turn": "paused",
        "compaction": "paused",
        "max_tokens": "cut",
        "model_context_window_exceeded": "cut",
    }

    def check(self, response: Json) -> None:
        """Raise NotAResponse unless it has a role, a list of blocks and a stop reason."""
        if not isinstance(response, Mapping):
            raise NotAResponse(f"{type(response).__name__} is no response: wanted a message of the Messages API")
        if response.get("role") != "assistant" or not isinstance(response.get("content"), list):
            found = f"role {response.get('role')!r}, content {type(response.get('content')).__name__}"
            raise NotAResponse(f"{found} is no response: wanted an assistant message with a list of content blocks")
        if not all(isinstance(block, Mapping) for block in response["content"]):
            raise NotAResponse("a content block of the response is no object: wanted the message as the API sent it")
        if not isinstance(response.get("stop_reason"), str):
            # A clean end of file before message_stop gives a message like this one, with a call that looks whole.
            raise NotAResponse("the response has no stop reason: its stream ended too early, so it is no response")

    def stop(self, response: Mapping[str, Json]) -> str:
        """Only `tool_use` runs tools, whatever else the content holds; a reason we do not know is refused."""
        return self._STOPS.get(response["stop_reason"], "refused")

    def reason(self, response: Mapping[str, Json]) -> str:
        """Return stop_reason, with the category of a refusal where one is given."""
        details = response.get("stop_details")
        category = details.get("category") if isinstance(details, Mapping) else None
        return f"{response['stop_reason']} ({category})" if category else str(response["stop_reason"])

    def calls(self, response: Mapping[str, Json]) -> tuple[ModelCall, ...]:
        """Return the client tool_use blocks; server tools are answered by the server."""
        return tuple(
            ModelCall(str(block.get("id", "")), str(block.get("name", "")), block.get("input"), self._echo(block))
            for block in _blocks(response)
            if block.get("type") == "tool_use"
        )

    def joins(self, response: Mapping[str, Json]) -> list[Json]:
        """Return the assistant message: role and content, nothing else of the response."""
        return [{"role": "assistant", "content": response["content"]}]

    def text(self, response: Mapping[str, Json]) -> str:
        """Return the text blocks, joined."""
        texts = (block.get("text") for block in _blocks(response) if block.get("type") == "text")
        return "".join(text for text in texts if isinstance(text, str))

    def begun(self, messages: Sequence[Json]) -> str:
        """Return the texts of a prefill and of paused answers: the final answer goes on from them."""
        return "".join(self.text(one) for one in messages if one.get("role") == "assistant")

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """Input in all is input + cache writes + cache reads: input_tokens alone leaves out what was cached."""
        told = response.get("usage")
        counts = told if isinstance(told, Mapping) else {}
        listed = counts.get("iterations")
        samples = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
        billed = [_billed(one) for one in samples or (counts,)]
        answers = [one for one in samples if one.get("type") in ("message", "fallback_message")]
        return Usage(sum(_billed(answers[-1] if answers else counts)), *map(sum, zip(*billed, strict=True)))

    def results(self, answered: Sequence[Answered]) -> list[Json]:
        """Return one user message of tool_result blocks; is_error stands only where it is true."""
        blocks = []
        for one in answered:
            block = {"type": "tool_result", "tool_use_id": one.id, "content": one.content, **one.echo}
            blocks.append({**block, "is_error": True} if one.is_error else block)
        return [{"role": "user", "content": blocks}]

    def _echo(self, block: Mapping[str, Json]) -> Mapping[str, Json]:
        # A40: a call of the browser or computer toolset wants its toolset's name back.
        return {"toolset_name": block["toolset_name"]} if "toolset_name" in block else {}

    def say(self, content: Json) -> list[Json]:
        """Return a user message."""
        return [{"role": "user", "content": content}]

    def tools(self, definitions: Sequence[Mapping[str, Json]]) -> list[Json]:
        """Return the definitions: they have this API's form."""
        return [dict(definition) for definition in definitions]

    def request(
        self, messages: list[Json], system: Json, tools: Sequence[Json], params: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return messages, and system and tools where the run has them."""
        request: dict[str, Json] = {**params, "messages": messages}
        if system is not None:
            request["system"] = system
        if tools:
            request["tools"] = list(tools)
        return request

    def answers(self, messages: Sequence[Json], made: Collection[str] = ()) -> int:
        """Return how many messages are the assistant's."""
        return sum(message.get("role") == "assistant" for message in messages)

    def last_answer(self, messages: Sequence[Json], made: Collection[str] = ()) -> LastAnswer | None:
        """Return the assistant's message that has nothing behind it but the user's."""
        end = len(messages)
        while end and messages[end - 1].get("role") == "user":
            end -= 1
        message = messages[end - 1] if end else {}
        if message.get("role") != "assistant" or not all(map(_is_written, messages[end - 1 :])):
            return None
        content = message["content"]
        calls = self.calls({"content": content})
        response = {"role": "assistant", "content": content, "stop_reason": "tool_use" if calls else "end_turn"}
        names = {call.id for call in calls}  # a result of no call stays with what the user said, to be refused there
        results: dict[str, tuple[Json, bool]] = {}
        said = []
        for message in messages[end:]:
            blocks = _blocks(message)
            here = {block["tool_use_id"]: block for block in blocks if _is_result(block, names)}
            results |= {name: (b.get("content", "(no result)"), bool(b.get("is_error"))) for name, b in here.items()}
            rest = [block for block in blocks if block not in here.values()]
            said += [rest if here else message["content"]] if rest else []
        given = {name: result for name, result in results.items() if name not in made}
        return LastAnswer(end - 1, end < len(messages), response, given, said)

    def roomier(self, params: Mapping[str, Json], cuts: int) -> Mapping[str, Json]:
        """Double max_tokens for each cut in a row."""
        return doubled(params, cuts, "max_tokens")


def _blocks(response: Mapping[str, Json]) -> Sequence[Json]:
    # The API answers in blocks; a transcript that was taken over may hold the short form, and keeps it.
    content = response["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_written(message: Mapping[str, Json]) -> bool:
    content = message.get("content")
    return isinstance(content, str) or (isinstance(content, list) and all(isinstance(b, Mapping) for b in content))


def _is_result(block: Json, names: Collection[str]) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result" and block.get("tool_use_id") in names


def _billed(counts: Mapping[str, Json]) -> tuple[int, ...]:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return tuple(count(counts, name) for name in names)
