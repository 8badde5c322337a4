"""Which result belongs to which call, by place before id: ids repeat in broken lists."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from midstride.transcript.values import WORD

Place = tuple[int, int]
"""The index of a message, and of a block in it."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a pair: a call, or a result.

    *group* is the turn that calls, or that a result at this place would answer. *real* is whether a result is more
    than a notice that there is none.
    """

    place: Place
    id: str
    group: Hashable
    real: bool = True


def matched(calls: Sequence[End], results: Sequence[End]) -> dict[Place, End]:
    """Return the result of each call that has one, by the call's place."""
    pairs = _beside(calls, results)
    used = {result.place for result in pairs.values()}
    by_id: dict[str, list[End]] = {}
    for call in calls:
        by_id.setdefault(call.id, []).append(call)
    for result in results:
        if result.place not in used:
            _elsewhere(by_id.get(result.id, []), result, pairs)
    return pairs


def _beside(calls: Sequence[End], results: Sequence[End]) -> dict[Place, End]:
    """Pair what stands in the right turn: in order, and where there is one call, with the best of its results."""
    asked, answers = _grouped(calls), _grouped(results)
    pairs: dict[Place, End] = {}
    for key, mine in asked.items():
        found = answers.get(key, [])
        if len(mine) == 1:
            found = sorted(found, key=lambda result: not result.real)[:1]
        pairs.update({call.place: result for call, result in zip(mine, found, strict=False)})
    return pairs


def _grouped(ends: Iterable[End]) -> dict[tuple[Hashable, str], list[End]]:
    grouped: dict[tuple[Hashable, str], list[End]] = {}
    for end in ends:
        grouped.setdefault((end.group, end.id), []).append(end)
    return grouped


def _elsewhere(calls: list[End], result: End, pairs: dict[Place, End]) -> None:
    """Give a result out of place to the nearest call before it that lacks one, or to the next; a notice gives way."""
    lacking = [call for call in calls if call.place not in pairs]
    noticed = [call for call in calls if call.place in pairs and not pairs[call.place].real]
    for candidates in (lacking, noticed if result.real else []):
        before = [call for call in candidates if call.place < result.place]
        if candidates:
            pairs[(before[-1] if before else candidates[0]).place] = result
            return


def fresh(one: str, taken: set[str], longest: int) -> str:
    """Return an id like *one*, of letters, digits, _ and - and no longer than allowed, that is not taken; take it."""
    clean = "".join(letter if letter in WORD else "_" for letter in one).strip("_")[: longest - 8] or "call"
    name, number = clean, 1
    while name in taken:
        number += 1
        name = f"{clean}_{number}"
    taken.add(name)
    return name
