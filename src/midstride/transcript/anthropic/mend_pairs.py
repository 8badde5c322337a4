"""The mend of calls and results: each call has one result, in the next turn, in front; each id is used once.

A call is known by its message and its index in it. In front of the last compaction block only ids are mended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from midstride.transcript.anthropic.content import failed
from midstride.transcript.anthropic.editing import Blocks, blocks_of, put, role_of
from midstride.transcript.anthropic.kinds import id_of, is_call, is_other, is_result, is_server_result
from midstride.transcript.anthropic.mend_shape import INVALID, answered, restore
from midstride.transcript.anthropic.message import Message
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.matching import End, Place, fresh, matched
from midstride.transcript.values import Json, is_list, is_word, same, written
from midstride.transcript.values import field as value_of
from midstride.transcript.words import asked_for, for_state, not_started

mends = Mends(answered)

ID_MAX = 64
"""Characters of the ids that we make; some back ends take no more."""


@mends.of("A21")
def system_in_place(draft: Draft, findings: list[Finding]) -> None:
    """Move a message of the system behind the next user turn where the model takes it, else out of the list."""
    for finding in backwards(findings):
        to = _place(draft, finding.at) if draft.facts.model_class == "system-role-supported" else None
        if to is None:
            draft.system.insert(0, value_of(draft.messages[finding.at], "content"))
            draft.drop(finding.at, "The message belongs into the top-level system prompt.", finding)
        else:
            draft.move(finding.at, to, "The message was moved behind the user's turn.", finding)


def _place(draft: Draft, at: int) -> int | None:
    """Return where a message of the system may stand, counted without it: behind a user turn and before the next."""
    roles = [role_of(draft, one) for one in range(len(draft.messages)) if one != at]
    for to in range(at or 1, len(roles) + 1):
        if to and roles[to - 1] == "user" and (to == len(roles) or roles[to] == "assistant"):
            return to
    return None


@mends.of("A02", "A33")
def restore_calls(draft: Draft, findings: list[Finding]) -> None:
    """Restore the assistant message in front of an orphaned result, if the journal has the call in it."""
    for finding in findings:
        at = finding.at if role_of(draft, finding.at) == "assistant" else _asking(draft, finding.at)
        received = value_of(draft.told_of(at), "content") if at is not None else None
        asked = {id_of(block) for block in (received if is_list(received) else ()) if not is_result(block)}
        there = (
            {id_of(block) for block in blocks_of(draft, at) if not is_server_result(block)} if at is not None else set()
        )
        if at is not None and (asked - there) & set(finding.ids):
            restore(draft, Finding(finding.rule, finding.level, at, finding.ids, finding.message), "orphan")


def _asking(draft: Draft, at: int) -> int | None:
    while at > 0 and role_of(draft, at) == "user":
        at -= 1
    return at if role_of(draft, at) == "assistant" else None


@mends.of("A34")
def drop_server_answers(draft: Draft, findings: list[Finding]) -> None:
    """Drop our results for calls that the server answers."""
    for finding in sorted(findings, key=lambda one: -one.at):
        kept = [b for b in blocks_of(draft, finding.at) if not (is_result(b) and id_of(b) in finding.ids)]
        put(draft, finding.at, kept, "A result for a server's call was dropped.", finding)


@mends.of("A01", "A02", "A03", "A04", "A05", "A14")
def pair(draft: Draft, findings: list[Finding]) -> None:
    """Bring every call together with its result."""
    plan = Plan.of(draft)
    _drop_copies(plan)
    _rename(plan)
    _place_results(plan, draft)
    _perform(plan, draft, findings)


@dataclass(slots=True)
class Plan:
    """What stands where, and what is to be done: blocks by place, turns by number."""

    blocks: list[Blocks]
    roles: list[str]
    turns: list[int]  # the number of each message's turn
    hidden: int  # messages in front of the last compaction block
    calls: list[End] = field(default_factory=list)
    results: list[End] = field(default_factory=list)
    pairs: dict[Place, End] = field(default_factory=dict)
    dropped: set[Place] = field(default_factory=set)
    ids: dict[Place, str] = field(default_factory=dict)
    front: dict[int, Blocks] = field(default_factory=dict)  # results to put in front of a turn

    @classmethod
    def of(cls, draft: Draft) -> Plan:
        """Read a draft, and pair its calls and results."""
        read = [Message.read(at, message) for at, message in enumerate(draft.messages)]
        hidden = max((message.at for message in read if message.compacts), default=0)
        plan = cls([list(message.blocks) for message in read], [message.role for message in read], [], hidden)
        for at, role in enumerate(plan.roles):
            joined = at > 0 and role == plan.roles[at - 1] and role in ("user", "assistant")
            plan.turns.append(plan.turns[-1] + (not joined) if at else 0)
        plan._find_ends()
        plan.pairs = matched(plan.calls, plan.results)
        return plan

    def _is_hidden(self, end: End) -> bool:
        return end.place[0] < self.hidden

    def _find_ends(self) -> None:
        for at, blocks in enumerate(self.blocks):
            for index, block in enumerate(blocks):
                if self.roles[at] == "assistant" and is_call(block):
                    self.calls.append(End((at, index), _key(value_of(block, "id")), self.turns[at]))
                elif self.roles[at] == "user" and is_result(block):
                    one = _key(value_of(block, "tool_use_id"))
                    self.results.append(End((at, index), one, self.turns[at] - 1, not failed(block)))

    def at(self, place: Place) -> Json:
        """Return the block at a place."""
        return self.blocks[place[0]][place[1]]

    def copies(self) -> Iterator[tuple[End, End]]:
        """Yield each call whose id is used before, with the first that uses it."""
        first: dict[str, End] = {}
        for call in self.calls:
            if first.setdefault(call.id, call) is not call:
                yield call, first[call.id]


def _key(one: Json) -> str:
    # What is no string is an id that no string is.
    return one if isinstance(one, str) else "\0"


def _drop_copies(plan: Plan) -> None:
    """Drop a call that is written twice in a turn, and a message that is there twice, with what repeats a result."""
    for call, first in list(plan.copies()):
        whole = _whole_copy(plan, call.place[0], first.place[0])
        twice = call.group == first.group and same(plan.at(call.place), plan.at(first.place))
        if (whole or twice) and _adds_nothing(plan, call, first):
            plan.dropped.add(call.place)
            if call.place in plan.pairs:
                plan.dropped.add(plan.pairs[call.place].place)
    for at in {place[0] for place in plan.dropped if plan.roles[place[0]] == "assistant"}:
        _drop_whole(plan, at)


def _whole_copy(plan: Plan, at: int, first: int) -> bool:
    return at != first and same(plan.blocks[at], plan.blocks[first])


def _adds_nothing(plan: Plan, call: End, first: End) -> bool:
    mine, its = plan.pairs.get(call.place), plan.pairs.get(first.place)
    return mine is None or (its is not None and same(plan.at(mine.place), plan.at(its.place)))


def _drop_whole(plan: Plan, at: int) -> None:
    # Of a message that is a copy, text and thinking go with its calls; half a copy keeps all.
    calls = {(at, index) for index, block in enumerate(plan.blocks[at]) if is_call(block)}
    copied = any(_whole_copy(plan, at, before) for before in range(at))
    if copied and calls <= plan.dropped:
        plan.dropped |= {(at, index) for index in range(len(plan.blocks[at]))}


def _rename(plan: Plan) -> None:
    """Give calls ids of their own where theirs is of a wrong form or used before; their results follow."""
    taken = {end.id for end in (*plan.calls, *plan.results)}
    seen: set[str] = set()
    for call in plan.calls:
        if call.place in plan.dropped:
            continue
        one = call.id
        if one in seen or not is_word(value_of(plan.at(call.place), "id")):
            one = plan.ids[call.place] = fresh(call.id, taken, ID_MAX)
        seen.add(one)
        result = plan.pairs.get(call.place)
        if result is not None and value_of(plan.at(result.place), "tool_use_id") != one:
            plan.ids[result.place] = one


def _place_results(plan: Plan, draft: Draft) -> None:
    """Drop results without a call; move what is out of place in front; make what is missing."""
    paired = {result.place: call for call, result in plan.pairs.items()}
    late = _late(plan, set(paired))
    hidden_ids = {result.place for result in plan.results if plan._is_hidden(result)}
    for result in plan.results:
        if result.place not in paired and (result.place not in hidden_ids or not is_word(result.id)):
            plan.dropped.add(result.place)
    used: set[str] = set()
    for call in plan.calls:
        found = plan.pairs.get(call.place)
        if call.place in plan.dropped or (plan._is_hidden(call) and (found is None or plan._is_hidden(found))):
            continue
        turn = plan.turns[call.place[0]]
        if found is None:
            plan.front.setdefault(turn, []).append(_made(plan, call, draft, used))
        elif plan.turns[found.place[0]] != turn + 1 or found.place in late:
            plan.front.setdefault(turn, []).append(_renamed(plan, found.place))
            plan.dropped.add(found.place)


def _late(plan: Plan, paired: set[Place]) -> set[Place]:
    late = set()
    other = -1  # the turn in which something else than a result was seen
    for at, blocks in enumerate(plan.blocks):
        for index, block in enumerate(blocks if plan.roles[at] == "user" else ()):
            if (at, index) in paired and other == plan.turns[at]:
                late.add((at, index))
            other = plan.turns[at] if is_other(block) else other
    return late


def _renamed(plan: Plan, place: Place) -> Json:
    block = plan.at(place)
    if place not in plan.ids:
        return block
    return {**block, "id" if is_call(block) else "tool_use_id": plan.ids[place]}


def _made(plan: Plan, call: End, draft: Draft, used: set[str]) -> Json:
    """Return the recorded result of a call, or an honest one; a record serves the first call of its id."""
    block = plan.at(call.place)
    what = asked_for(value_of(block, "name"), value_of(block, "input"))
    found = draft.recorded(call.id, what) if call.id not in used else None
    used.add(call.id)
    one = plan.ids.get(call.place, call.id)
    if found is None:
        draft.made.add(one)
        found = for_state("unknown", what)
        if INVALID in (value_of(block, "input") or {}):
            found = not_started("its arguments could not be read."), True
    content, is_error = found
    made = {"type": "tool_result", "tool_use_id": one, "content": _content(content)}
    echo = {"toolset_name": block["toolset_name"]} if isinstance(value_of(block, "toolset_name"), str) else {}
    return {**made, **echo, **({"is_error": True} if is_error else {})}


def _content(content: Json) -> Json:
    return content if content is None or isinstance(content, str) or is_list(content) else written(content)


def _perform(plan: Plan, draft: Draft, findings: list[Finding]) -> None:
    finding = min(findings, key=lambda one: one.at)
    reasons = {one.at: one for one in findings}
    last = {turn: at for at, turn in enumerate(plan.turns)}
    first = {turn: at for at, turn in reversed(list(enumerate(plan.turns)))}
    for at in range(len(plan.blocks) - 1, -1, -1):
        why = reasons.get(at, finding)
        turn = plan.turns[at]
        missing = plan.front.get(turn, []) if last[turn] == at else []
        answers = plan.roles[first[turn + 1]] == "user" if turn + 1 in first else False
        if missing and not answers:
            message = {"role": "user", "content": missing}
            draft.insert(at + 1, message, "A message was added that answers calls without a result.", why)
        front = plan.front.get(turn - 1, []) if first[turn] == at and plan.roles[at] == "user" else []
        _settle(plan, draft, at, front, reasons.get(at, reasons.get(last.get(turn - 1, at), finding)))


def _settle(plan: Plan, draft: Draft, at: int, front: Blocks, why: Finding) -> None:
    """Give one message its blocks: its own results first, then those that were missing, then the rest."""
    if not front and not any(place[0] == at for place in (*plan.dropped, *plan.ids)):
        return
    kept = [(at, index) for index in range(len(plan.blocks[at])) if (at, index) not in plan.dropped]
    blocks = [_renamed(plan, place) for place in kept]
    leading = 0
    while leading < len(blocks) and is_result(blocks[leading]) and front:
        leading += 1
    blocks[leading:leading] = front
    put(draft, at, blocks, "Calls and results were brought together.", why)
