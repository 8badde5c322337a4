"""The calls of a loop that is not ours, as the ledger keeps them: no model's API, in the form of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from midstride.core.apis.contract import Answered, LastAnswer, ModelCall, Usage
from midstride.errors import NotAResponse

Json = Any


class LedgerCalls:
    """No model's API: a loop that is not ours makes one call through the ledger, and is given its result.

    A response is `{"calls": [{"id": ..., "name": ..., "arguments": {...}}]}`, its results `{"results": [{"id": ...,
    "content": ..., "is_error": ...}]}`.
    """

    name = "ledger"
    loops = False

    def check(self, response: Json) -> None:
        """Raise NotAResponse unless it is an object with a list of calls."""
        calls = response.get("calls") if isinstance(response, Mapping) else None
        fields = {"id", "name", "arguments"}
        if not isinstance(calls, list) or not all(isinstance(one, Mapping) and fields <= one.keys() for one in calls):
            raise NotAResponse('this is no response of a ledger: wanted {"calls": [{"id", "name", "arguments"}]}')

    def stop(self, response: Mapping[str, Json]) -> str:
        """There is no other end than its calls."""
        return "calls"

    def reason(self, response: Mapping[str, Json]) -> str:
        """Return "calls"."""
        return "calls"

    def calls(self, response: Mapping[str, Json]) -> tuple[ModelCall, ...]:
        """Return the calls."""
        return tuple(ModelCall(one["id"], one["name"], one["arguments"]) for one in response["calls"])

    def joins(self, response: Mapping[str, Json]) -> list[Json]:
        """Return the calls as they came."""
        return [{"calls": response["calls"]}]

    def text(self, response: Mapping[str, Json]) -> str:
        """Return nothing: nobody says anything."""
        return ""

    def begun(self, messages: Sequence[Json]) -> str:
        """Return nothing: no answer goes on from another."""
        return ""

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """Return no tokens: whatever the loop's model took is not told here."""
        return Usage()

    def answers(self, messages: Sequence[Json], made: Collection[str] = ()) -> int:
        """Return 0: a loop that is not ours counts its answers itself."""
        return 0

    def last_answer(self, messages: Sequence[Json], made: Collection[str] = ()) -> LastAnswer | None:
        """Return None: a loop that is not ours keeps its transcript itself."""
        return None

    def results(self, answered: Sequence[Answered]) -> list[Json]:
        """Return the results, in call order."""
        return [{"results": [{"id": one.id, "content": one.content, "is_error": one.is_error} for one in answered]}]

    def say(self, content: Json) -> list[Json]:
        """Return what was said: a later truth about the call, which no request carries."""
        return [{"said": content}]

    def tools(self, definitions: Sequence[Mapping[str, Json]]) -> list[Json]:
        """Return none: there is no model that would be told of them."""
        return []

    def request(
        self, messages: list[Json], system: Json, tools: Sequence[Json], params: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return the messages: no request is ever sent."""
        return {"messages": messages}

    def roomier(self, params: Mapping[str, Json], cuts: int) -> Mapping[str, Json]:
        """Return *params*: no answer is cut."""
        return params
