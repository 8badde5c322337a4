"""A transcript that somebody else wrote, as the entries of a run: the lesson's file, an older generation of ours, or a
message list of any API.

Its messages go out byte for byte as they are. It proves nothing by silence: a call without a result may have been
started by the program that wrote it, so every one of them is imported as intended (DESIGN, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from midstride.core import words
from midstride.core.apis import LastAnswer, ModelCall, api_named
from midstride.core.journal import Body, Intended, Recorded, Requested, Responded, Said, Settled, Started
from midstride.core.run import Call, CallState, Run
from midstride.errors import Damaged

Json = Any
Record = Callable[[ModelCall], Recorded]
"""What the program's tools say of a call: its terms, key and problem."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A run as another program left it: its *messages* in the form of *api*, what it counted, and the call that it
    says is open. *made* names calls whose results no tool gave.
    """

    task: Json
    messages: list[Json]
    turns: int
    tokens: int = 0
    pending: Json = None
    api: str = "anthropic"
    made: frozenset[str] = frozenset()

    @classmethod
    def of(cls, checkpoint: Mapping[str, Json]) -> Foreign:
        """Return what the six fields of a lesson's *checkpoint* say."""
        names = ("task", "messages", "turns", "tokensUsed", "pendingToolUse")
        return cls(*(checkpoint[name] for name in names))


def imported(foreign: Foreign, *, frozen: Callable[..., Started], record: Record, prefill: bool) -> tuple[Body, ...]:
    """Return the entries of a run that goes on from *foreign*.

    *frozen* makes the `started` entry from its messages, turns and tokens (the program's system and tools). A tail
    that is plain assistant text is continued where the model takes a *prefill*; else it is the final answer. Raises
    Damaged when *pending* names a call that the messages do not leave open.
    """
    api, messages = api_named(foreign.api), foreign.messages
    last = api.last_answer(messages, foreign.made)
    calls = () if last is None else api.calls(last.response)
    open_calls = [call.id for call in calls if last is not None and call.id not in last.results]
    _agrees(foreign.pending, open_calls)
    whole = (frozen(messages=messages, turns=foreign.turns, tokens=foreign.tokens),)
    if last is None or (calls and api.stop(last.response) != "calls"):
        return whole
    if not open_calls and (prefill or last.behind):
        return whole
    start = frozen(messages=messages[: last.start], turns=max(0, foreign.turns - 1), tokens=foreign.tokens)
    answer = Responded(last.response, tuple(map(record, calls)))
    return (start, Requested(), answer, *_known(calls, last, start.turns + 1), *map(Said, last.said))


def doubted(run: Run) -> tuple[Body, ...]:
    """Return the entries for a journal that may lack its newest ones: every call free to begin may have begun."""
    free = (CallState.NEW, CallState.ALLOWED)
    return tuple(Intended(c.turn, c.index, imported=True) for c in run.calls if c.state in free)


def restored(run: Run) -> tuple[Body, ...]:
    """Return the entries for a run whose store came back from a backup: all that it does not tell of may have begun.

    A transactional call's rows came back with its journal, and a key that counts for ever is the same key: these are
    no more in doubt than behind a crash. A call that waited for an approval may have had it, and is not asked about
    again.
    """
    bodies: list[Body] = []
    for call in run.calls:
        if call.state in (CallState.NEW, CallState.ALLOWED):
            bodies.append(Intended(call.turn, call.index, imported=not _tells(call)))
        elif call.state is CallState.ASKING_APPROVAL:
            why = "It waited for an approval when the backup was made that the run was restored from."
            bodies.append(Settled(call.turn, call.index, "unknown", words.unknown(call, why)))
    return tuple(bodies)


def _tells(call: Call) -> bool:
    """Tell whether a repeat of an attempt that nobody recorded is safe all the same."""
    terms = call.terms
    return terms is not None and (
        terms.effect == "transactional" or (terms.effect == "idempotent" and terms.key_life is None)
    )


def _known(calls: Iterable[ModelCall], last: LastAnswer, turn: int) -> Iterator[Body]:
    """Yield what is known about each call of the last answer."""
    for index, call in enumerate(calls):
        if call.id in last.results:
            content, is_error = last.results[call.id]
            outcome = "unknown" if words.says_unknown(content) else "failed" if is_error else "ok"
            yield Settled(turn, index, outcome, content)
        elif call.id not in last.unstarted:
            yield Intended(turn, index, imported=True)


def _agrees(pending: Json, names: list[str]) -> None:
    """The messages are what counts; a stored field that says otherwise is reported, and nothing is run."""
    if pending is None or pending.get("id") in names:
        return
    found = f"leave open {', '.join(names)}" if names else "leave no call open"
    raise Damaged(
        f"pendingToolUse names call {pending.get('id')}, but the messages {found}: the checkpoint was edited or torn; "
        "set pendingToolUse to null if the messages are right"
    )
