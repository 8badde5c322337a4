"""The mend of calls and outputs of OpenAI Responses: each call has one output behind it, of its own kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from midstride.transcript.draft import Draft, Mends, Row, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.matching import End, Place, fresh, matched
from midstride.transcript.openai_responses import kinds
from midstride.transcript.openai_responses.content import ID_MAX
from midstride.transcript.openai_responses.item import Item
from midstride.transcript.openai_responses.kinds import call_id_of, kind
from midstride.transcript.openai_responses.mends import answered
from midstride.transcript.openai_responses.pairing import previous
from midstride.transcript.values import Json, field, is_list, same, written
from midstride.transcript.words import asked_for, for_state

mends = Mends(answered)
early = Mends(answered)
"""What comes before the form of outputs is looked at: their kind."""


@early.of("R16")
def kind_of_the_call(draft: Draft, findings: list[Finding]) -> None:
    """Give an output the kind of its call; drop an approval of nothing. A safety check is for a person."""
    for finding in backwards(findings):
        item = draft.messages[finding.at]
        call = next((one for one in draft.messages[: finding.at] if _calls(one, call_id_of(item))), None)
        wanted = kinds.ANSWERED_BY.get(kind(call), "")
        if kind(item) == "mcp_approval_response" or (call is None and kind(item) in kinds.OUTPUTS):
            draft.drop(finding.at, "The item was dropped: it answers no request of its kind.", finding)
        elif wanted and wanted != kind(item):
            what = f"The kind of the output became {wanted}, that of its call."
            draft.change(finding.at, _of_kind(wanted, item), what, finding)


def _calls(item: Json, one: str) -> bool:
    return kind(item) in kinds.ANSWERED_BY and call_id_of(item) == one


def _of_kind(wanted: str, item: Json) -> Json:
    output = field(item, "output")
    words = output if isinstance(output, str) else written(output)
    shaped = output if wanted == "computer_call_output" else shape(wanted, words, failed=False)["output"]
    made = {"type": wanted, "call_id": call_id_of(item), "output": shaped}
    return {**made, "status": "completed"} if wanted == "apply_patch_call_output" else made


def shape(output_kind: str, words: str, *, failed: bool) -> dict[str, Json]:
    """Return the fields of an output of that kind that says *words*."""
    if output_kind == "shell_call_output":
        # A command has no way to say that nobody knows; a timeout is the nearest.
        outcome = {"type": "timeout"} if failed else {"type": "exit", "exit_code": 0}
        return {"output": [{"stdout": "" if failed else words, "stderr": words if failed else "", "outcome": outcome}]}
    if output_kind == "apply_patch_call_output":
        return {"status": "failed" if failed else "completed", "output": words}
    return {"output": words}


@mends.of("R02")
def restore_calls(draft: Draft, findings: list[Finding]) -> None:
    """Put back the call of an orphaned output, as it was received."""
    for finding in backwards(findings):
        known = [item for _, output in draft.facts.responses() for item in output if _calls(item, finding.ids[0])]
        there = any(_calls(item, finding.ids[0]) for item in draft.messages)
        if known and not there and kinds.ANSWERED_BY[kind(known[-1])] == kind(draft.messages[finding.at]):
            draft.insert(finding.at, known[-1], "The call was put back, as it was received.", finding)


@mends.of("R01", "R02", "R08", "R13", "R14")
def pair(draft: Draft, findings: list[Finding]) -> None:
    """Bring every call together with its output."""
    read = [Item.read(at, item) for at, item in enumerate(draft.messages)]
    calls = [End((item.at, 0), item.call, 0) for item in read if item.calls]
    results = [End((item.at, 0), item.call, 0, _is_real(item)) for item in read if item.answers]
    here = {item.call for item in read if item.calls}  # a call that the list repeats is answered there
    answerable = [item for item in previous(draft.facts) or () if kind(item) in kinds.ANSWERED_BY]
    chained = [item for item in answerable if call_id_of(item) not in here]
    before = [End((-1, at), call_id_of(item), 0) for at, item in enumerate(chained)]
    pairs = matched([*before, *calls], results)
    again = _answered_again(read, calls, pairs)
    made = _chained_rows(draft, chained, pairs)
    rows = list(_Rows(draft, read, pairs, _fresh_ids(calls, results, pairs, again), findings).all())
    draft.rearrange([*made, *rows], {one.at: one for one in findings}, findings[0])


def _is_real(item: Item) -> bool:
    output = field(item.raw, "output")
    notices = ("Outcome unknown:", "Not started:", "Denied:", "Failed:", "Interrupted", "No result")
    return not (isinstance(output, str) and output.startswith(notices))


def _answered_again(read: list[Item], calls: list[End], pairs: dict[Place, End]) -> set[Place]:
    """Return the calls that use a call_id once more and have another output; an output that is the same goes."""
    first: dict[str, Place] = {}
    again = set()
    for call in calls:
        if call.place not in pairs or first.setdefault(call.id, call.place) == call.place:
            continue
        mine, its = (read[pairs[place].place[0]].raw for place in (call.place, first[call.id]))
        if same(mine, its):
            del pairs[call.place]
        else:
            again.add(call.place)
    return again


def _fresh_ids(calls: list[End], results: list[End], pairs: Mapping[Place, End], again: set[Place]) -> dict[Place, str]:
    taken = {end.id for end in (*calls, *results)}
    renamed: dict[str, str] = {}
    ids: dict[Place, str] = {}
    for call in calls:
        if 0 < len(call.id) <= ID_MAX and call.place not in again:
            continue
        if call.id not in renamed or not call.id or call.place in again:
            renamed[call.id] = fresh(call.id, taken, ID_MAX)
        ids[call.place] = renamed[call.id]
        if call.place in pairs:
            ids[pairs[call.place].place] = renamed[call.id]
    return ids


class _Rows:
    """The list anew: an output that stood in front of its call behind it, and one for each call that had none."""

    def __init__(
        self,
        draft: Draft,
        read: list[Item],
        pairs: Mapping[Place, End],
        ids: Mapping[Place, str],
        findings: list[Finding],
    ) -> None:
        self.draft, self.read, self.pairs, self.ids = draft, read, pairs, ids
        self.orphans = {one.at for one in findings if one.rule[:3] == "R02"}
        self.owned = {result.place[0]: place[0] for place, result in pairs.items()}
        self.used: set[str] = set()

    def all(self) -> Iterator[Row]:
        """Yield every item that stays with its place of now; None for one that is new."""
        answered = {item.call for item in self.read if item.answers and item.at in self.owned}
        for item in self.read:
            if item.answers and not self._stays(item):
                continue
            yield item.at, self._named(item)
            if item.calls:
                yield from self._answer(item, answered)

    def _stays(self, item: Item) -> bool:
        if item.at in self.owned:
            return self.owned[item.at] < item.at
        # An output without a call in the list may answer one that the server holds.
        return item.at not in self.orphans and not self._repeats(item) and 0 < len(item.call) <= ID_MAX

    def _repeats(self, item: Item) -> bool:
        return any(one.answers and one.call == item.call for one in self.read[: item.at]) or any(
            one.answers and one.call == item.call and one.at in self.owned for one in self.read
        )

    def _answer(self, call: Item, answered: set[str]) -> Iterator[Row]:
        result = self.pairs.get((call.at, 0))
        if result is None:
            # One output serves two calls with one call_id, as the API counts.
            if call.call not in answered or not call.call:
                answered.add(call.call)
                made = made_output(self.draft, call.raw, self.ids.get((call.at, 0), call.call), self.used)
                yield from ((None, one) for one in made)
        elif result.place[0] < call.at:
            yield result.place[0], self._named(self.read[result.place[0]])

    def _named(self, item: Item) -> Json:
        one = self.ids.get((item.at, 0))
        if one is not None:
            return {**item.raw, "call_id": one}
        return item.raw


def _chained_rows(draft: Draft, chained: list[Json], pairs: Mapping[Place, End]) -> list[Row]:
    rows: list[Row] = []
    used = {result.id for result in pairs.values()}
    for at, call in enumerate(chained):
        if (-1, at) not in pairs and call_id_of(call) not in used:
            rows += [(None, one) for one in made_output(draft, call, call_id_of(call), used)]
            used.add(call_id_of(call))
    return rows


def made_output(draft: Draft, call: Json, one: str, used: set[str]) -> list[Json]:
    """Return the recorded output of a call, or an honest one; none for a computer call, whose output is a picture."""
    name, arguments = field(call, "name") or kind(call), _arguments(call)
    told = call_id_of(call)
    found = draft.recorded(told, asked_for(name, arguments)) if told not in used else None
    used.add(told)
    output_kind = kinds.ANSWERED_BY[kind(call)]
    if output_kind == "computer_call_output":
        content = found[0] if found else None
        return [{"type": output_kind, "call_id": one, "output": content}] if isinstance(content, Mapping) else []
    if found is None:
        draft.made.add(one)
    content, failed = found or for_state("unknown", asked_for(name, arguments))
    made = {"type": output_kind, "call_id": one}
    if is_list(content) and output_kind in ("function_call_output", "custom_tool_call_output", "shell_call_output"):
        return [{**made, "output": list(content)}]
    words = content if isinstance(content, str) else written(content)
    return [{**made, **shape(output_kind, words, failed=failed)}]


def _arguments(call: Json) -> Json:
    for name in ("arguments", "input", "action", "operation"):
        if field(call, name) is not None:
            return field(call, name)
    return {}


@mends.of("R19")
def outputs_beside(draft: Draft, findings: list[Finding]) -> None:
    """Move outputs to their calls, for a strict target."""
    read = [Item.read(at, item) for at, item in enumerate(draft.messages)]
    calls = [End((item.at, 0), item.call, 0) for item in read if item.calls]
    results = [End((item.at, 0), item.call, 0) for item in read if item.answers]
    pairs = matched(calls, results)
    moved = {result.place[0]: place[0] for place, result in pairs.items() if _between(read, place, result)}
    rows: list[Row] = []
    for at, item in enumerate(draft.messages):
        if at not in moved:
            rows.append((at, item))
        rows += [(result, draft.messages[result]) for result, call in moved.items() if call == at]
    draft.rearrange(rows, {one.at: one for one in findings}, findings[0])


def _between(read: list[Item], call: Place, result: End) -> bool:
    return any(item.kind == "message" for item in read[call[0] : result.place[0]])
