"""What must be true of a run that was carried through deaths: its journal, its requests, its results, its counters.

All is seen from outside: entries as JSON, requests as text. An AssertionError says what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from midstride.testing.crash_readings import READINGS
from midstride.testing.fake_validator import Refusal

Json = Any
Key = tuple[int, int]

HONEST = ("Outcome unknown: ", "Not started: ")
"""How results begin that only a death explains; a person's "Done: " is no error."""

ATTEMPTS_MAX = 3
"""After so many attempts that ended their processes a call is given up; a read's first one has no intent."""


def that(holds: object, wanted: str) -> None:
    """Raise AssertionError unless it *holds*; here and not `assert`, so that `python -O` changes nothing."""
    if not holds:
        raise AssertionError(wanted)


# ---- the journal


def check_grew(journals: Sequence[Sequence[str]]) -> None:
    """Check that each journal begins with the one before it, line by line."""
    for before, after in pairwise(journals):
        that(list(after[: len(before)]) == list(before), "a process found a journal that another one had changed")


def in_doubt_at_a_death(journal: Sequence[Json]) -> set[Key]:
    """Return the calls that had an intent, and neither a result nor a handle, when a process took the run up."""
    begun: set[Key] = set()
    doubtful: set[Key] = set()
    for entry in journal:
        if entry["kind"] == "intended":
            begun.add((entry["turn"], entry["index"]))
        elif entry["kind"] in ("settled", "accepted"):
            begun.discard((entry["turn"], entry["index"]))
        elif entry["kind"] == "taken":
            doubtful |= begun
    return doubtful


def attempts_of(key: Key, journal: Sequence[Json]) -> int:
    """Return how many intents a call has."""
    return [(entry["turn"], entry["index"]) for entry in journal if entry["kind"] == "intended"].count(key)


def turns_of_answers(journal: Sequence[Json]) -> list[int]:
    """Return for each recorded answer the number of its request: those lost or imported before it count too."""
    kinds, before = [entry["kind"] for entry in journal], journal[0].get("turns", 0)
    return [before + kinds[:at].count("requested") for at, kind in enumerate(kinds) if kind == "responded"]


def answers_imported(journal: Sequence[Json]) -> int:
    """Return how many answers of the model the run began with."""
    return sum(1 for _ in READINGS[journal[0]["api"]].answers(journal[0]["messages"]))


def check_counters(turns: int, tokens_used: int, tokens_total: int, journal: Sequence[Json]) -> None:
    """Check that turns are the requests recorded, lost ones too, and that tokens are what the answers told."""
    usages = [entry["response"].get("usage", {}) for entry in journal if entry["kind"] == "responded"]
    tokens = [sum(usage.get(name, 0) for name in READINGS[journal[0]["api"]].counts) for usage in usages]
    turns_before, tokens_before = journal[0].get("turns", 0), journal[0].get("tokens", 0)
    requests = turns_before + [entry["kind"] for entry in journal].count("requested")
    that(turns == requests, f"{turns} turns were counted, {requests} requests are recorded")
    wanted = ((tokens or [tokens_before])[-1], tokens_before + sum(tokens))
    that((tokens_used, tokens_total) == wanted, f"{tokens_used} and {tokens_total} tokens were counted, not {wanted}")


# ---- the requests


def check_requests_grew(bodies: Sequence[str], api: str = "anthropic") -> None:
    """Check that each request begins with the messages of the one before, byte for byte, and all else is the same."""
    parts = [messages_in(body, api) for body in bodies]
    for (before, messages, after), (next_before, next_messages, next_after) in pairwise(parts):
        that((next_before, next_after) == (before, after), "a request differs from an earlier one beside its messages")
        that(next_messages.startswith(messages), "a request does not begin with the messages of the one before")


@lru_cache(maxsize=1_024)
def messages_in(text: str, api: str = "anthropic") -> tuple[str, str, str]:
    """Return a request's text before its messages, its messages without the closing bracket, and what is behind."""
    name = f'"{READINGS[api].messages}":'
    start = text.index(name) + len(name)
    start += len(text[start:]) - len(text[start:].lstrip())
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[:start], text[start : end - 1], text[end - 1 :]


def check_accepted(bodies: Sequence[str], api: str = "anthropic") -> None:
    """Check that the API would take every request: by a validator that shares no code with the transcript's check."""
    for body in dict.fromkeys(bodies):
        refused = _refusal(body, api)
        that(refused is None, f"the API would refuse a request: {refused}")


@lru_cache(maxsize=1_024)  # the same requests come in nearly every plan
def _refusal(body: str, api: str) -> Refusal | None:
    reading = READINGS[api]
    return reading.refusal(json.dumps({**reading.needs, **json.loads(body)}).encode())


# ---- the results


@dataclass(frozen=True)
class Told:
    """One call, and the result that the model was told: *turn* counts answers from 1."""

    turn: int
    index: int
    name: str
    input: Json
    content: Json
    is_error: bool

    @property
    def asked(self) -> Json:
        """Return what was asked, and where."""
        return (self.turn, self.index, self.name, json.dumps(self.input))

    @property
    def text(self) -> str:
        """Return the result's text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.get("text", "") for block in self.content)


def results_told(body: str, imported: int = 0, api: str = "anthropic") -> list[Told]:
    """Return every call in a request with its one result, which must stand where it belongs, in call order.

    The calls of answers that were *imported* are not returned.
    """
    told: list[Told] = []
    reading = READINGS[api]
    # What an answer is told is in the request behind it: the last one may be its own end.
    for number, (calls, results) in enumerate(reading.answers(json.loads(body)[reading.messages])):
        turn = number + 1 - imported
        ids = ([result.id for result in results], [call.id for call in calls])
        that(ids[0] == ids[1], f"the calls {ids[1]} of answer {turn} are answered by {ids[0]}")
        for index, (call, result) in enumerate(zip(calls, results, strict=True) if turn > 0 else ()):
            told.append(Told(turn, index, call.name, call.input, result.content, result.is_error))
    return told


def check_words(told: Sequence[Told], unkilled: Sequence[Told], journal: Sequence[Json]) -> list[Told]:
    """Check that each call has its own result, but for the deaths that explain another one; return those others."""
    wanted = {call.asked: call for call in unkilled}
    turns, doubtful = turns_of_answers(journal), in_doubt_at_a_death(journal)
    others, sunk = [], set()
    for call in told:
        key = (turns[call.turn - 1], call.index)
        own = wanted.get(call.asked)
        if own is None:
            continue
        nobody_knows = key in doubtful and recorded(key, journal)["effect"] == "unsafe" and not decided(key, journal)
        if is_the_same(call, own) and not (nobody_knows and not own.is_error):
            continue
        others.append(call)
        words = words_allowed(key, journal, doubtful=key in doubtful, sunk=call.turn in sunk, own=own)
        fits = any(call.text.startswith(word) for word in words)
        that(fits, f"call {call.name} {key[0]}.{key[1]} was told {call.text!r} where {words} was due")
        that(call.is_error == call.text.startswith(HONEST), f"{call.text!r} is told with is_error={call.is_error}")
        if recorded(key, journal)["effect"] != "read_only" and call.is_error:
            sunk.add(call.turn)
    return others


def is_the_same(call: Told, own: Told) -> bool:
    """Tell whether the model was told the same, but for times: a run that rests behind a crash is later."""
    return (timeless(call.content), call.is_error) == (timeless(own.content), own.is_error)


def timeless(content: Json) -> str:
    """Return *content* as JSON with the times in its words left out."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "(a time)", json.dumps(content))


def words_allowed(key: Key, journal: Sequence[Json], *, doubtful: bool, sunk: bool, own: Told) -> tuple[str, ...]:
    """Return how the result of a call may begin that is not its own: what the deaths explain, and nothing else."""
    effect, attempts = recorded(key, journal)["effect"], attempts_of(key, journal)
    tries = attempts + (effect == "read_only")
    may_be_unknown = doubtful and (effect in ("unsafe", "verifiable") or own.is_error)
    words: tuple[str, ...] = ()
    if may_be_unknown or (tries >= ATTEMPTS_MAX and effect != "transactional"):
        words += ("Outcome unknown: ",)
    if same_deed(key, journal):
        words += ("Already done: ", *looked_up(key, journal))
    if same_deed(key, journal) & in_doubt_at_a_death(journal):
        words += ("Not started: the same deed",)
    if doubtful and effect == "verifiable":
        words += tuple(looked_up(key, journal))
    if doubtful or own.is_error:
        words += tuple(decided(key, journal))
    return (*words, "Not started: ") if sunk else words


def recorded(key: Key, journal: Sequence[Json]) -> dict[str, Json]:
    """Return what was recorded with a call: its effect, and the digest of its business key, None if it has none."""
    answers = [entry for entry in journal if entry["kind"] == "responded"]
    call = answers[turns_of_answers(journal).index(key[0])]["calls"][key[1]]
    return {"effect": (call["terms"] or {"effect": "unsafe"})["effect"], "key": call["key"]}


def same_deed(key: Key, journal: Sequence[Json]) -> set[Key]:
    """Return the calls before this one that ask for the same deed, by its business key."""
    wanted = recorded(key, journal)["key"]
    answers = [entry for entry in journal if entry["kind"] == "responded"]
    places = zip(turns_of_answers(journal), answers, strict=True)
    calls = [((turn, index), call["key"]) for turn, entry in places for index, call in enumerate(entry["calls"])]
    return {other for other, known in calls if known is not None and known == wanted and other < key}


def looked_up(key: Key, journal: Sequence[Json]) -> list[str]:
    """Return the text that a verify gave, which may differ from the tool's own."""
    settled = [e for e in journal if e["kind"] == "settled" and (e["turn"], e["index"]) == key and e["outcome"] == "ok"]
    return [Told(0, 0, "", None, entry["content"], False).text for entry in settled]


def decided(key: Key, journal: Sequence[Json]) -> list[str]:
    """Return the words for what a person said of a call."""
    words = {"happened": "Done: ", "deny": "Outcome unknown: ", "unknown": "Outcome unknown: "}
    found = [e["verdict"] for e in journal if e["kind"] == "decided" and (e["turn"], e["index"]) == key]
    return [words.get(verdict, "Outcome unknown: ") for verdict in found]


def check_deed(call: Told, effect: str, begun: int, happened: int, *, once: bool) -> None:
    """Check that what the model was told of a call is what happened outside; *once* when it may not even begin twice.

    *begun* counts its attempts, *happened* how often it took effect.
    """
    what = f"call {call.name} {call.turn}.{call.index}, of which the model was told {call.text!r},"
    if call.text.startswith(("Not started", "Denied")):
        that((begun, happened) == (0, 0), f"{what} began {begun} times and happened {happened} times")
    elif effect == "read_only":
        that(call.is_error or happened >= 1, f"{what} was never made")
    elif call.is_error:
        that(happened <= 1, f"{what} happened {happened} times")
    else:
        that(happened == 1, f"{what} happened {happened} times")
    that(begun <= 1 or not once, f"{what} began {begun} times")
