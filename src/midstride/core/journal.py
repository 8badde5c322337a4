"""What has happened to a run, as an append-only list of entries.

An entry is stored as one line of ASCII JSON and carries a digest of itself and of all before it: `digest =
sha256(previous digest + stored bytes)`, in hex, the first one chained on nothing. Format 1. Nothing here reads a
clock or a file: `seal` is told the time, `decode` is given the line.

The kinds, and who may append them: everything needs the run's lease, except the kinds in `OUTSIDE`, which anybody
may append at the expected seq.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from midstride.errors import Damaged, Newer

FORMAT = 1

Json = Any
"""A value that JSON can hold; the provider's own are kept verbatim."""


# ---- parts of entries


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a run may use over its whole life: requests (*turns*), *tokens* in all, active *seconds*, and *cost*.

    *cost* is in units of your currency, by the prices that the program gives. None is no limit.
    """

    turns: int | None = 40
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = field(default=None, metadata={"left out": None})


@dataclass(frozen=True, slots=True)
class Terms:
    """What counts about a tool for its calls: recorded with each call, so that a later change cannot soften it.

    *timeout*, *settle* and *key_life* in seconds; *doubt* is "report" or "ask"; *schema* is the digest of the tool's
    input schema.
    """

    effect: str
    schema: str
    doubt: str = "report"
    approval: bool = False
    timeout: float | None = None
    settle: float = 0.0
    key_life: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was known about one call when its response was recorded.

    *terms* is None when no tool has the call's name. *key* is the digest of its business key. *problem* says why the
    call cannot start at all (an unknown tool, wrong arguments): a definite error for the model to correct.
    """

    terms: Terms | None = None
    key: str | None = None
    problem: str | None = None


# ---- the kinds of entries


@dataclass(frozen=True, slots=True)
class Started:
    """The run begins: its task and all that is frozen for its life.

    *messages* is the transcript it begins with; *turns* and *tokens* are counters that an imported run brings along;
    *nonce* is random and makes the run's idempotency keys its own, even after its id is used again.
    """

    kind: ClassVar = "started"
    task: Json
    api: str
    messages: Sequence[Json]
    nonce: str
    system: Json = None
    tools: Sequence[Json] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    turns: int = 0
    tokens: int = 0
    imported: bool = False
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Taken:
    """A process takes the run up; *clean* tells that the last holder ended by itself.

    *code* is a digest of the program's part in the run; *program* says where its agent is, when the command line knows.
    *trace* names the span of its telemetry (a W3C traceparent), so that the next holder's can lead back to it.
    """

    kind: ClassVar = "taken"
    token: int
    host: str
    pid: int
    code: str = ""
    clean: bool = True
    program: str = ""
    trace: str | None = field(default=None, metadata={"left out": None})


@dataclass(frozen=True, slots=True)
class Requested:
    """A request is about to be sent; *params* is what it holds besides messages, system and tools."""

    kind: ClassVar = "requested"
    params: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Responded:
    """Save point A: the model's response, verbatim, and what is known about each call in it, in order.

    *cost* is what it cost by the prices of then, in billionths of their currency's unit; left out without prices.
    """

    kind: ClassVar = "responded"
    response: Mapping[str, Json]
    calls: Sequence[Recorded] = ()
    cost: int | None = field(default=None, metadata={"left out": None})


@dataclass(frozen=True, slots=True)
class Intended:
    """An attempt of a call is about to start; *imported*: it may have been started by the program the run came from.

    *effect* is the one that the attempt goes by, where it is not the one recorded with the call; else it is left out.
    """

    kind: ClassVar = "intended"
    turn: int
    index: int
    imported: bool = False
    effect: str | None = field(default=None, metadata={"left out": None})


@dataclass(frozen=True, slots=True)
class Accepted:
    """The other side took the work and goes on by itself; *handle* finds it again.

    *index* None is the request of *turn* itself: the model's API goes on with its answer. Then a *handle* of None says
    that nothing comes of the one before any more.

    Written again behind a poll that settled nothing: it is asked again at *again_at* (seconds since the epoch), else at
    once. *failed* says why that poll told nothing at all: it raised, it hung, it answered something else.
    """

    kind: ClassVar = "accepted"
    turn: int
    index: int | None
    handle: Json = None
    again_at: float | None = field(default=None, metadata={"left out": None})
    failed: str | None = field(default=None, metadata={"left out": None})


@dataclass(frozen=True, slots=True)
class Settled:
    """Save point B of one call: how it ended (`OUTCOMES`), and the content its result shows the model."""

    kind: ClassVar = "settled"
    turn: int
    index: int
    outcome: str
    content: Json


@dataclass(frozen=True, slots=True)
class Asked:
    """A person is asked about a call: *why* is "approval" or "doubt"."""

    kind: ClassVar = "asked"
    turn: int
    index: int
    why: str


@dataclass(frozen=True, slots=True)
class Decided:
    """A person's (or a late tool's) word on a call: *verdict* is "allow", "deny", "happened" or "unknown"."""

    kind: ClassVar = "decided"
    turn: int
    index: int
    verdict: str
    content: Json = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """Something is said to the model from outside: a message of the user's."""

    kind: ClassVar = "said"
    content: Json
    by: str = ""


@dataclass(frozen=True, slots=True)
class Compacted:
    """From here on the transcript's first *upto* messages are replaced by *messages*."""

    kind: ClassVar = "compacted"
    upto: int
    messages: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Extended:
    """The limits are set anew: *by* "program" when the program's own differ from what it had, else by a person."""

    kind: ClassVar = "extended"
    limits: Limits
    by: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run is called off."""

    kind: ClassVar = "cancelled"
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The model's API refuses the request for good; *reason* says what it said."""

    kind: ClassVar = "failed"
    reason: str


Body = (
    Started | Taken | Requested | Responded | Intended | Accepted | Settled | Asked | Decided | Said | Compacted
    | Extended | Cancelled | Failed
)  # fmt: skip

KINDS: dict[str, type[Body]] = {
    body.kind: body
    for body in (
        Started, Taken, Requested, Responded, Intended, Accepted, Settled, Asked, Decided, Said, Compacted,
        Extended, Cancelled, Failed,
    )
}  # fmt: skip

OUTSIDE = frozenset({"decided", "said", "cancelled", "extended"})
"""The kinds that anybody may append without the lease; `decided` itself settles."""

OUTCOMES = ("ok", "failed", "unknown", "not started", "denied", "in doubt elsewhere", "already done")


# ---- sealing and opening


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as stored: *text* is its line without the line end, *at* seconds since the epoch, *digest* in hex."""

    seq: int
    at: float
    body: Body
    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a journal ends: the number and the digest of its last entry; seq 0 is an empty journal."""

    seq: int = 0
    digest: str = ""


def head_of(entries: Sequence[Entry], before: Head = Head()) -> Head:
    """Return where *entries* end, or *before* when there are none."""
    return Head(entries[-1].seq, entries[-1].digest) if entries else before


def chain(previous: str, text: str) -> str:
    """Return the digest of an entry whose line is *text* behind the digest *previous*."""
    # A whole line is ASCII; a damaged one is whatever stands there, and must only not fit.
    return hashlib.sha256((previous + text).encode("utf-8", "surrogatepass")).hexdigest()


def seal(bodies: Iterable[Body], head: Head, at: float) -> tuple[Entry, ...]:
    """Number, date, encode and chain *bodies* behind *head*; *at* is rounded to milliseconds."""
    entries: list[Entry] = []
    at = round(at, 3)
    for body in bodies:
        seq = head.seq + 1
        text = encode(seq, at, body)
        entries.append(Entry(seq, at, body, text, chain(head.digest, text)))
        head = Head(seq, entries[-1].digest)
    return tuple(entries)


def encode(seq: int, at: float, body: Body) -> str:
    """Return the stored line: ASCII JSON, so that no store can change a character of it."""
    return _ENCODER.encode({"seq": seq, "at": at, "kind": body.kind, **_plain(body)})


def decode(text: str, digest: str, seq: int) -> Entry:
    """Open a stored line again; *seq* is where it was found, and must be what the line says.

    Raises Damaged for a line that is no entry and Newer for an entry of a later format. The digest is not
    checked here: `decode_all` does that.
    """
    try:
        line = json.loads(text)
        found, at, kind = line.pop("seq"), line.pop("at"), line.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Damaged(f"entry {seq} is no entry ({error!r}); the journal was left as it is") from None
    if found != seq:
        raise Damaged(f"entry {found} stands where entry {seq} belongs; the journal was left as it is")
    if line.get("format", FORMAT) != FORMAT and kind == "started":
        raise Newer(f"the journal is format {line['format']}, this code reads format {FORMAT}: use a newer midstride")
    if not isinstance(kind, str):
        raise Damaged(f"entry {seq} is no entry (its kind is {kind!r}); the journal was left as it is")
    if kind not in KINDS:
        raise Newer(f"entry {seq} is of kind {kind!r}, which format {FORMAT} does not know: use a newer midstride")
    try:
        return Entry(seq, at, _body(KINDS[kind], line), text, digest)
    except (TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"entry {seq}, {kind!r}, has other fields than format {FORMAT} ({error})") from None


def decode_all(rows: Iterable[tuple[int, str, str]], head: Head = Head()) -> list[Entry]:
    """Open stored rows of seq, line and digest, which follow *head*, and check their chain.

    Raises what `decode` and *rows* raise, and Damaged for a gap or a digest that differs; its `whole` are the entries
    before.
    """
    entries: list[Entry] = []
    try:
        for seq, text, digest in rows:
            if seq != head.seq + 1:
                raise Damaged(f"entry {head.seq + 1} is missing; the journal was left as it is")
            entry = decode(text, digest, seq)
            if broken_link((entry,), head) is not None:
                raise Damaged(f"entry {seq} is not as it was written (its digest differs); it was left as it is")
            entries.append(entry)
            head = Head(seq, digest)
    except Damaged as error:
        raise Damaged(str(error), whole=entries) from None
    return entries


def broken_link(entries: Iterable[Entry], head: Head = Head()) -> int | None:
    """Return the seq of the first entry whose digest or number does not follow from *head*; None when all are whole."""
    for entry in entries:
        if entry.seq != head.seq + 1 or entry.digest != chain(head.digest, entry.text):
            return head.seq + 1
        head = Head(entry.seq, entry.digest)
    return None


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))

_ALWAYS = object()

_FIELDS: dict[type, list[tuple[str, Any]]] = {
    kind: [(f.name, f.metadata.get("left out", _ALWAYS)) for f in dataclasses.fields(kind)]
    for kind in (*KINDS.values(), Recorded, Terms, Limits)
}
"""The fields of an entry and its parts, each with the value at which it is left out.

That is of a field that format 1 got later: where it says nothing, the line is the one that was always written.
"""


def _plain(value: Any) -> Any:
    fields = _FIELDS.get(type(value))
    if fields is not None:
        return {name: _plain(held) for name, left_out in fields if (held := getattr(value, name)) is not left_out}
    if isinstance(value, (list, tuple)) and value and type(value[0]) in _FIELDS:
        return [_plain(one) for one in value]
    return value


def _body(kind: type[Body], fields: dict[str, Any]) -> Body:
    if "limits" in fields:
        fields["limits"] = Limits(**fields["limits"])
    if kind is Responded:
        fields["calls"] = tuple(_recorded(call) for call in fields["calls"])
    return kind(**fields)


def _recorded(fields: dict[str, Any]) -> Recorded:
    terms = fields.pop("terms")
    return Recorded(terms=None if terms is None else Terms(**terms), **fields)
