"""The mends of OpenAI Chat Completions, in the order of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from midstride.transcript import sanity
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.matching import End, Place, fresh, matched
from midstride.transcript.openai_chat.message import Message
from midstride.transcript.openai_chat.rules import ID_MAX, NAME_MAX, PARTS
from midstride.transcript.values import LONG, Json, all_in, field, is_list, is_word, parsed, rebuilt, same, written
from midstride.transcript.words import asked_for, for_state

INVALID = "INVALID_JSON"
"""The key under which arguments stand that could not be read."""
UNKNOWN_TOOL = "unknown_tool"


def answered(messages: Sequence[Json]) -> int:
    """Return how many messages the model has answered: those before its last message."""
    places = [at for at, message in enumerate(messages) if field(message, "role") == "assistant"]
    return places[-1] if places else 0


mends = Mends(answered)
mends.of(*sanity.RULES)(sanity.clean)


def _put(draft: Draft, finding: Finding, what: str, **fields: Json) -> None:
    draft.change(finding.at, {**draft.messages[finding.at], **fields}, what, finding)


@mends.of("C12")
def known_roles(draft: Draft, findings: list[Finding]) -> None:
    """Rename a role that is known by another name; leave out a message of an unknown one."""
    for finding in backwards(findings):
        role = field(draft.messages[finding.at], "role")
        named = sanity.NAMES.get(role) if isinstance(role, str) else None
        if named:
            _put(draft, finding, f"The role became {named}.", role=named)
        else:
            draft.drop(finding.at, "The message is left out: its role is not known.", finding)


@mends.of("C13")
def drop_response(draft: Draft, findings: list[Finding]) -> None:
    """Drop a response that was cut, unless one of its calls is recorded as run: then keep those calls."""
    for finding in findings:
        kept = [call for call in draft.messages[finding.at]["tool_calls"] if field(call, "id") in list(draft.results)]
        if kept:
            _put(draft, finding, "Only the calls are kept that are recorded as run.", tool_calls=kept)
        else:
            draft.drop(finding.at, "The response was dropped: it must not be used.", finding)
        draft.forget_stop()


@mends.of("C06")
def no_empty_calls(draft: Draft, findings: list[Finding]) -> None:
    """Leave out an empty list of calls."""
    for finding in findings:
        bare = {name: value for name, value in draft.messages[finding.at].items() if name != "tool_calls"}
        draft.change(finding.at, bare, "The empty list of calls is left out.", finding)


@mends.of("C07")
def silent_assistants(draft: Draft, findings: list[Finding]) -> None:
    """Restore the content, show it as text, or drop the message that says nothing."""
    for finding in backwards(findings):
        content = field(draft.messages[finding.at], "content")
        received = field(draft.told_of(finding.at), "content")
        if content is not None:
            _put(draft, finding, "The content became text.", content=written(content))
        elif (isinstance(received, str) or is_list(received)) and received:
            _put(draft, finding, "The content was restored from the journal.", content=received)
        elif field(draft.messages[finding.at], "tool_calls"):
            _put(draft, finding, "The content, which cannot be null here, is empty.", content="")
        else:
            draft.drop(finding.at, "The message was dropped: it says nothing.", finding)


def _calls(draft: Draft, finding: Finding, change: Callable[[Json], Json], what: str) -> None:
    """Change what stands under `function` in every call of a message."""
    calls = [
        call if field(call, "type") == "custom" else _with(call, change(field(call, "function")))
        for call in draft.messages[finding.at]["tool_calls"]
    ]
    _put(draft, finding, what, tool_calls=calls)


def _with(call: Json, function: Json) -> Json:
    return {**(call if isinstance(call, Mapping) else {}), "function": function}


@mends.of("C08")
def string_arguments(draft: Draft, findings: list[Finding]) -> None:
    """Write arguments as JSON text."""
    for finding in findings:
        _calls(draft, finding, _written, "The arguments were written as JSON text.")


def _written(function: Json) -> Json:
    given = field(function, "arguments")
    text = given if isinstance(given, str) else "{}" if given is None else written(given)
    return {**(function if isinstance(function, Mapping) else {}), "arguments": text}


@mends.of("C09")
def json_arguments(draft: Draft, findings: list[Finding]) -> None:
    """Wrap arguments that cannot be read, for a strict target."""
    for finding in findings:
        _calls(draft, finding, _wrapped, "Arguments that cannot be read were wrapped.")


def _wrapped(function: Json) -> Json:
    text = field(function, "arguments")
    readable = not isinstance(text, str) or isinstance(parsed(text), Mapping)
    return function if readable else {**dict(function), "arguments": written({INVALID: text})}


@mends.of("C10")
def named_functions(draft: Draft, findings: list[Finding]) -> None:
    """Give functions names that they may bear."""
    for finding in findings:
        _calls(draft, finding, _named, "A function got a name that it may bear.")


def _named(function: Json) -> Json:
    name = field(function, "name")
    if is_word(name, NAME_MAX):
        return function
    words = fresh(name, set(), NAME_MAX) if isinstance(name, str) and name else UNKNOWN_TOOL
    return {**(function if isinstance(function, Mapping) else {}), "name": words}


@mends.of("G05")
def restored_signatures(draft: Draft, findings: list[Finding]) -> None:
    """Restore a thought signature that was changed."""
    what = "The thought signature was restored from the journal."
    for finding in findings:
        extra = field(draft.told_of(finding.at), "extra_content")
        bare = _without_extra(draft.messages[finding.at])
        calls = field(bare, "tool_calls")
        if is_list(calls) and calls and isinstance(calls[0], Mapping):
            first, *rest = map(_without_extra, calls)
            draft.change(finding.at, {**bare, "tool_calls": [{**first, "extra_content": extra}, *rest]}, what, finding)
        else:
            draft.change(finding.at, {**bare, "extra_content": extra}, what, finding)


def _without_extra(value: Json) -> Json:
    return {k: v for k, v in value.items() if k != "extra_content"} if isinstance(value, Mapping) else value


# ---- calls and their tool messages


@mends.of("C01", "C02", "C03", "C04", "C05")
def pair(draft: Draft, findings: list[Finding]) -> None:
    """Bring every call together with its tool message, behind its message and before all others."""
    read = [Message.read(at, message) for at, message in enumerate(draft.messages)]
    calls, results = _ends(read)
    pairs = matched(calls, results)
    dropped = _copies(read, calls, pairs)
    ids = _fresh_ids(read, calls, results, pairs, dropped)
    reason = {finding.at: finding for finding in findings}
    rows = list(_Order(draft, read, pairs, dropped, ids).rows())
    draft.rearrange(rows, reason, findings[0])


def _ends(read: list[Message]) -> tuple[list[End], list[End]]:
    calls, results = [], []
    group = -1
    for message in read:
        if message.role == "assistant":
            group = message.at
            for index, call in enumerate(message.calls):
                one = field(call, "id")
                calls.append(End((message.at, index), one if isinstance(one, str) else "", group))
        elif message.role == "tool":
            results.append(End((message.at, 0), message.answers, group, _is_real(message)))
    return calls, results


NOTICES = ("Outcome unknown:", "Not started:", "Denied:", "Failed:", "Interrupted", "No result")
"""How a notice begins that says there is no result: a tool message has no other mark of one."""


def _is_real(message: Message) -> bool:
    return not (isinstance(message.content, str) and message.content.startswith(NOTICES))


def _copies(read: list[Message], calls: list[End], pairs: dict[Place, End]) -> set[Place]:
    """Return calls that are copies, of a call beside them or with their whole message, and the results of these."""
    dropped: set[Place] = set()
    first: dict[str, End] = {}
    for call in calls:
        before = first.setdefault(call.id, call)
        if before is call:
            continue
        one, other = read[call.place[0]], read[before.place[0]]
        whole = one is not other and same(one.raw, other.raw)
        beside = one is other and same(one.calls[call.place[1]], other.calls[before.place[1]])
        mine, its = pairs.get(call.place), pairs.get(before.place)
        repeats = mine is None or (its is not None and same(read[mine.place[0]].raw, read[its.place[0]].raw))
        if (whole or beside) and repeats:
            dropped.add(call.place)
            if mine is not None:
                dropped.add(mine.place)
    return dropped


def _agree(read: list[Message], call: End, result: End) -> bool:
    # An empty id that a tool message bears too was taken as it is; one that is not there answers nothing.
    at, index = call.place
    ids = (field(read[at].calls[index], "id"), field(read[result.place[0]].raw, "tool_call_id"))
    return ids == ("", "")


def _fresh_ids(
    read: list[Message], calls: list[End], results: list[End], pairs: dict[Place, End], dropped: set[Place]
) -> dict[Place, str]:
    taken = {end.id for end in (*calls, *results)}
    seen: set[str] = set()
    ids: dict[Place, str] = {}
    for call in calls:
        if call.place in dropped:
            continue
        nameless = not call.id and not (call.place in pairs and _agree(read, call, pairs[call.place]))
        if call.id in seen or len(call.id) > ID_MAX or nameless:
            ids[call.place] = fresh(call.id, taken, ID_MAX)
            if call.place in pairs:
                ids[pairs[call.place].place] = ids[call.place]
        seen.add(ids.get(call.place, call.id))
    return ids


class _Order:
    """The list anew: each group's tool messages directly behind its calls, in the order in which they stood."""

    def __init__(
        self,
        draft: Draft,
        read: list[Message],
        pairs: dict[Place, End],
        dropped: set[Place],
        ids: dict[Place, str],
    ) -> None:
        self.draft, self.read, self.pairs, self.dropped, self.ids = draft, read, pairs, dropped, ids
        self.used: set[str] = set()

    def rows(self) -> Iterator[tuple[int | None, Json]]:
        """Yield every message that stays with its place as it was; None for one that is new."""
        for message in self.read:
            if message.role == "assistant" and message.calls:
                yield from self._group(message)
            elif message.role != "tool":
                yield message.at, message.raw

    def _group(self, message: Message) -> Iterator[tuple[int | None, Json]]:
        places = [(message.at, index) for index in range(len(message.calls))]
        kept = [place for place in places if place not in self.dropped]
        if not kept:
            return  # the whole message is a copy
        yield message.at, self._asking(message, kept)
        found = sorted(self.pairs[place].place for place in kept if place in self.pairs)
        for at, _ in found:
            yield at, self._answering(self.read[at])
        for place in kept:
            if place not in self.pairs:
                yield None, self._made(message.calls[place[1]], place)

    def _asking(self, message: Message, kept: list[Place]) -> Json:
        if len(kept) == len(message.calls) and not any(place in self.ids for place in kept):
            return message.raw
        named = [self._called(message.calls[place[1]], place) for place in kept]
        return {**message.raw, "tool_calls": named}

    def _called(self, call: Json, place: Place) -> Json:
        return {**call, "id": self.ids[place]} if place in self.ids else call

    def _answering(self, message: Message) -> Json:
        one = self.ids.get((message.at, 0))
        return message.raw if one is None else {**message.raw, "tool_call_id": one}

    def _made(self, call: Json, place: Place) -> Json:
        one = field(call, "id")
        one = one if isinstance(one, str) else ""
        what = asked_for(_tool(call), _arguments(call))
        found = self.draft.recorded(one, what) if one not in self.used else None
        self.used.add(one)
        name = self.ids.get(place, one)
        if found is None:
            self.draft.made.add(name)
        content, _ = for_state("unknown", what) if found is None else found
        words = content if isinstance(content, str) or is_list(content) else written(content)
        return {"role": "tool", "tool_call_id": name, "content": words}


def _tool(call: Json) -> Json:
    return field(field(call, "custom" if field(call, "type") == "custom" else "function"), "name")


def _arguments(call: Json) -> Json:
    custom = field(call, "type") == "custom"
    return field(field(call, "custom" if custom else "function"), "input" if custom else "arguments")


# ---- content


@mends.of("C11")
def text_results(draft: Draft, findings: list[Finding]) -> None:
    """Show results as text; send pictures and files behind the whole group."""
    for finding in backwards(findings):
        content = field(draft.messages[finding.at], "content")
        if content is None:
            _put(draft, finding, "The result says that there was no output.", content="(no output)")
        elif not is_list(content):
            _put(draft, finding, "The result became text.", content=written(content))
        else:
            _split(draft, finding, content)


def _split(draft: Draft, finding: Finding, content: Sequence[Json]) -> None:
    media = [part for part in content if field(part, "type") in ("image_url", "input_audio", "file")]
    parts = [_as_text(part) for part in content if not any(part is one for one in media)]
    note = [{"type": "text", "text": "[What is no text follows behind the results.]"}] if media else []
    _put(draft, finding, "What is no text was taken out of the result.", content=[*parts, *note])
    if not media:
        return
    end = finding.at + 1
    while end < len(draft.messages) and field(draft.messages[end], "role") == "tool":
        end += 1
    message = {"role": "user", "content": media}
    draft.insert(end, message, "What was no text in a result stands behind its group.", finding)


def _as_text(part: Json) -> Json:
    if field(part, "type") == "text":
        return part
    return {"type": "text", "text": part if isinstance(part, str) else written(part)}


@mends.of("G06")
def known_parts(draft: Draft, findings: list[Finding]) -> None:
    """Leave out parts of an unknown kind; bare strings are text."""
    for finding in findings:
        message = draft.messages[finding.at]
        parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in message["content"]]
        kept = [part for part in parts if field(part, "type") in PARTS[message["role"]]]
        _put(draft, finding, "Parts of an unknown kind are left out.", content=kept)


@mends.of("C14")
def shorter_strings(draft: Draft, findings: list[Finding]) -> None:
    """Cut strings that are too long, and say so at their end."""
    for finding in findings:
        made = rebuilt(draft.messages[finding.at], cut)
        draft.change(finding.at, made, "A string was cut to what is taken.", finding)


CUT = "... [cut here: it was longer than is taken]"


def cut(leaf: Json) -> Json:
    """Return a string that is not too long."""
    return leaf[: LONG - len(CUT)] + CUT if isinstance(leaf, str) and len(leaf) > LONG else leaf


@mends.of("C17")
def no_empty_contents(draft: Draft, findings: list[Finding]) -> None:
    """Drop messages that say nothing; an empty result says that there was no output."""
    for finding in backwards(findings):
        message = draft.messages[finding.at]
        if message["role"] == "tool":
            _put(draft, finding, "The result says that there was no output.", content="(no output)")
        elif field(message, "tool_calls"):
            _put(draft, finding, "The empty content is null.", content=None)
        else:
            draft.drop(finding.at, "The message was dropped: it says nothing.", finding)


# ---- what a target asks for


@mends.of("C15")
def reasoning(draft: Draft, findings: list[Finding]) -> None:
    """Restore reasoning_content, or leave it empty."""
    for finding in findings:
        received = field(draft.told_of(finding.at), "reasoning_content")
        words = received if isinstance(received, str) else ""
        _put(draft, finding, "reasoning_content was put back.", reasoning_content=words)


@mends.of("C16")
def signatures(draft: Draft, findings: list[Finding]) -> None:
    """Restore the thought signature of a message with calls."""
    for finding in findings:
        extra = field(draft.told_of(finding.at), "extra_content")
        first, *rest = draft.messages[finding.at]["tool_calls"]
        if all_in(extra, "thought_signature") and isinstance(first, Mapping):
            calls = [{**first, "extra_content": extra}, *rest]
            _put(draft, finding, "The thought signature was restored from the journal.", tool_calls=calls)
