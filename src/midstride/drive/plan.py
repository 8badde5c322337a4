"""What a program brings along to drive a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from midstride.core.apis import Api, ModelCall, api_named
from midstride.core.cost import PriceList
from midstride.core.journal import Limits, Recorded
from midstride.core.settle import RUNNING_MAX
from midstride.drive.observing import Observer
from midstride.errors import DeclarationError, TaskDiffers
from midstride.hidden import redacted
from midstride.tools import Toolbox

Json = Any


@dataclass(frozen=True)
class Plan:
    """What a program brings along to drive a run: all that a `Run` is given but its store and id."""

    task: Json
    api: str = "anthropic"
    toolbox: Toolbox = field(default_factory=Toolbox)
    system: Json = None
    limits: Limits | None = None
    params: Mapping[str, Json] | None = None
    facts: Mapping[str, Json] | None = None
    server_tools: Sequence[Json] = ()
    takes_prefill: bool = False
    take_over: bool = False
    force: bool = False
    restored: bool = False
    program: str = ""
    prices: PriceList | None = None
    parallel: int = RUNNING_MAX
    observer: Observer | None = None

    @property
    def speaks(self) -> Api:
        """The API that the program speaks; DeclarationError when there is none of that name."""
        return api_named(self.api)

    @property
    def tools(self) -> list[Json]:
        """What a model is told of the tools, in its API's form; those of its provider stand behind the program's."""
        return [*self.speaks.tools(self.toolbox.definitions), *self.server_tools]

    def record(self, call: ModelCall) -> Recorded:
        """Return what is to be recorded of a call when its response is; never raises."""
        if call.problem is not None:
            return Recorded(self.toolbox.terms.get(call.name), problem=call.problem)
        return self.toolbox.record(call.name, call.arguments)

    @property
    def code(self) -> str:
        """Return a digest of the program's part in the run: tools, system and request parameters."""
        text = repr((sorted(self.toolbox.terms.items()), self.system, sorted((self.params or {}).items(), key=str)))
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def check_api(what: str, began: str, speaks: str) -> None:
    """Raise TaskDiffers unless *what*, which began with one API, is carried on by a program that speaks it."""
    if began != speaks:
        raise TaskDiffers(
            f"{what} speaks {began!r}, this program {speaks!r}: a run stays with the API that it began with"
        )


def check_parallel(parallel: int) -> None:
    """Raise DeclarationError unless *parallel* is a number of calls."""
    if not isinstance(parallel, int) or isinstance(parallel, bool) or parallel < 1:
        raise DeclarationError(f"parallel={parallel!r} is no number of calls at once: wanted 1 or more")


def check_observer(observer: object) -> None:
    """Raise DeclarationError unless *observer* can be there while a run goes on."""
    if observer is not None and (isinstance(observer, type) or not callable(getattr(observer, "begin", None))):
        raise DeclarationError(f"telemetry={observer!r} draws nothing: give telemetry=Telemetry()")


def apart(one: Json, other: Json) -> tuple[str, str]:
    """Return both tasks, of long ones the part around the first difference; secrets go before they could be cut."""
    first, second = (task if isinstance(task, str) else repr(task) for task in (redacted(one), redacted(other)))
    start = max(0, _first_difference(first, second) - 60)
    return _part(first, start), _part(second, start)


def _first_difference(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _part(text: str, start: int) -> str:
    end = start + 120
    return repr(f"{'...' if start else ''}{text[start:end]}{'...' if text[end:] else ''}")
