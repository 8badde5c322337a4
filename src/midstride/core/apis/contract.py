"""How a model API writes what the journal needs to know: how an answer ended, its calls, its use of tokens, and how
results and words are sent back.

One value for each API; the fold asks it and knows nothing about the API otherwise. The shapes made here (`results`,
`say`, `tools`, `request`) are part of format 1: a run that was once sent one must be sent the same bytes for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = Any


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call as the model wrote it; *arguments* are whatever stands there, checked by nobody yet.

    *echo* holds fields that the API wants back in the result. *problem* says why the call cannot start, whatever tools
    there are: its arguments cannot be read, or no program here runs a call of its kind.
    """

    id: str
    name: str
    arguments: Json
    echo: Mapping[str, Json] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's id, the content that its result shows the model (text or blocks in Anthropic's form), and whether that
    is an error.
    """

    id: str
    content: Json
    is_error: bool
    echo: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response: *window* is all that stood in the model's window at its end, cached or not.

    The others are what is billed, none of them another's: *input* without what a cache had a part in, *output*,
    *cache_read*, *cache_write*. They are more than the window where the server asked its model several times.
    """

    window: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """Return all tokens that are billed."""
        return self.input + self.output + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The last answer in a transcript that another program wrote, and what stands behind it: results, and words of the
    user's.

    It begins at message *start*; nothing stands *behind* it where it is the end. *response* is the answer as the API
    would have given it, as far as the messages tell. *results* maps a call's id to the content of its result and
    whether it is an error; *said* has what was said, one content for each message. *unstarted* are calls that nobody
    can have begun.
    """

    start: int
    behind: bool
    response: Mapping[str, Json]
    results: Mapping[str, tuple[Json, bool]]
    said: Sequence[Json]
    unstarted: frozenset[str] = frozenset()


class Api(Protocol):
    """One model API's way of writing. A message is whatever its transcript is a list of."""

    name: str

    loops: bool
    """Whether results are sent back for another answer; else a run is done when its calls have their results."""

    def check(self, response: Json) -> None:
        """Raise NotAResponse, saying what was found, unless *response* is a whole response of this API."""

    def stop(self, response: Mapping[str, Json]) -> str:
        """Return how the answer ended: "calls", "final", "paused", "cut" or "refused" (unknown reasons are refused)."""

    def reason(self, response: Mapping[str, Json]) -> str:
        """Return the stop reason in the API's own words."""

    def calls(self, response: Mapping[str, Json]) -> tuple[ModelCall, ...]:
        """Return the calls that we must answer, in order."""

    def joins(self, response: Mapping[str, Json]) -> list[Json]:
        """Return the messages that the response is in the transcript, verbatim."""

    def text(self, response: Mapping[str, Json]) -> str:
        """Return what a person reads of the answer."""

    def begun(self, messages: Sequence[Json]) -> str:
        """Return the text that the model goes on from where the transcript ends with *messages*; "" when it does not.

        *messages* are the last one of the transcript and the paused answers behind it.
        """

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """Return the tokens of the response; what is not told is 0."""

    def results(self, answered: Sequence[Answered]) -> list[Json]:
        """Return the messages that hold the results, in call order."""

    def say(self, content: Json) -> list[Json]:
        """Return what the user says, as messages; *content* is a text, or blocks in Anthropic's form or the API's."""

    def tools(self, definitions: Sequence[Mapping[str, Json]]) -> list[Json]:
        """Return tool definitions (name, description, input_schema) in the API's own form."""

    def request(
        self, messages: list[Json], system: Json, tools: Sequence[Json], params: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return the whole request: *params*, and what is the run's own under the API's names.

        *messages* may be made a part of it, so they are the request's from here on.
        """

    def answers(self, messages: Sequence[Json], made: Collection[str] = ()) -> int:
        """Return how many answers a transcript holds, as far as it shows; results of calls in *made* part none."""

    def last_answer(self, messages: Sequence[Json], made: Collection[str] = ()) -> LastAnswer | None:
        """Return the last answer of a valid transcript; None where there is none, or where a run could not send again,
        as it is, what stands behind it. A result of a call in *made* counts as none: no tool gave it.
        """

    def roomier(self, params: Mapping[str, Json], cuts: int) -> Mapping[str, Json]:
        """Return *params* with room for an answer that was cut *cuts* times: doubled each time."""


def doubled(params: Mapping[str, Json], cuts: int, *names: str) -> Mapping[str, Json]:
    """Return *params* with those of *names* that stand there doubled for each cut in a row."""
    return {**params, **{name: params[name] * 2**cuts for name in names if cuts and params.get(name) is not None}}


def count(counts: Mapping[str, Json], name: str) -> int:
    """Return the number called *name*; 0 when there is none."""
    found = counts.get(name)
    return found if isinstance(found, int) else 0
