"""The honest words: what the model is told of a call that has no result of its own.

They tell four states apart: *not started*, *failed*, *outcome unknown*, *denied* (decision 11). An unknown one says
what was asked, when it started, what was looked at, and what may be done next. They are made once, when the entry is
written, and stored: a better wording never changes what a model was once told.
"""

from __future__ import annotations

import json
from typing import Any

from midstride.core.run import Call

Json = Any

ARGUMENTS_SHOWN = 300
"""Characters of a call's arguments that are repeated to the model; it has the whole call in its transcript."""


HANDLE_SHOWN = 100
"""Characters of a handle that are shown: enough for any id, with which the work can be looked for elsewhere."""


def utc(at: float | None) -> str:
    """Return *at* (seconds since the epoch) as "2026-11-29 18:20:01 UTC"; None is "an unknown time"."""
    if at is None:
        return "an unknown time"
    days, seconds = divmod(int(at), 86_400)
    era, day = divmod(days + 719_468, 146_097)  # the Gregorian calendar in eras of 400 years that begin in March
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    date = day - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year + 400 * era + (month <= 2)
    return f"{year:04}-{month:02}-{date:02} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def says_unknown(content: Json) -> bool:
    """Tell whether a result says that nobody knows what became of its call, in the words of any version of ours."""
    return isinstance(content, str) and content.startswith("Outcome unknown: ")


def asked_for(call: Call) -> str:
    """Return the call in one line: its tool and its arguments, shortened."""
    text = json.dumps(call.arguments, ensure_ascii=True, separators=(", ", ": "))
    shown = text if len(text) <= ARGUMENTS_SHOWN else text[:ARGUMENTS_SHOWN] + "..."
    return f"{call.name}({shown})"


def unknown(call: Call, why: str) -> str:
    """Return the text for a call that may or may not have happened; *why* says what was seen and looked at."""
    what, when = asked_for(call), utc(call.last_at)
    if call.last_at is None:
        started = "whether it started is not recorded"
    else:
        started = (
            f"it came from a file or a backup that was taken over {when}" if call.imported else f"it started {when}"
        )
    return (
        f"Outcome unknown: {what} may or may not have taken effect ({started}). {why} It was not run again. "
        "Do not assume either outcome and do not simply repeat it: check in another way whether it took effect, "
        "or ask a person."
    )


def accepted(call: Call) -> str:
    """Return the beginning of a sentence about work that the other side accepted, with its handle, shortened."""
    text = json.dumps(call.handle, ensure_ascii=True)
    shown = text if len(text) <= HANDLE_SHOWN else text[:HANDLE_SHOWN] + "..."
    return f"The other side accepted it (its handle is {shown})"


def standing(call: Call) -> str:
    """Return where a call without a result stands, for people."""
    if call.again_at is None:
        return str(call.state)
    times = "" if call.failures == 1 else f", as {call.failures} in a row"
    failed = f"; its last poll told nothing{times}: {call.failure}" if call.failures else ""
    return f"{call.state}, to be asked again at {utc(call.again_at)}{failed}"


def not_started(why: str) -> str:
    """Return the text for a call that certainly never began."""
    return f"Not started: {why} It had no effect."


def failed(why: str) -> str:
    """Return the text for a call that ended without its effect, for certain."""
    return f"Failed: {why}"


def denied(note: str, *, started: bool) -> str:
    """Return the text for a call that a person said no to; *started* when an attempt may have happened before."""
    said = f" The person said: {note}" if note else ""
    if started:
        return f"Outcome unknown: a person decided that this call is not to be run again; it may have happened.{said}"
    return f"Denied: a person decided that this call is not to be run. It had no effect.{said}"


def told(note: str) -> str:
    """Return the text for a call that a person says has happened."""
    return f"Done: a person confirmed that this call took effect. {note}".strip()


def cannot_tell(note: str) -> str:
    """Return the text for a call of which a person cannot tell either."""
    said = f" The person said: {note}" if note else ""
    return f"Outcome unknown: a person looked and cannot tell whether this call took effect.{said}"


def late_truth(call: Call, verdict: str, note: str, by: str) -> str:
    """Return the message about an earlier call whose outcome had been told as unknown."""
    what = f"About the earlier call {asked_for(call)} with id {call.id}, whose outcome was unknown: "
    if verdict == "unknown":
        return f"{what}{by} looked and cannot tell whether it took effect. {note}".strip()
    return f"{what}{by} reports that it took effect. {note}".strip()


def elsewhere(first: Call, state: str) -> str:
    """Return the text for a new call that asks for a deed another call is in doubt about; *state* says how."""
    return (
        f"Not started: the same deed was asked for before, by call {first.id} of turn {first.turn} "
        f"({utc(first.last_at)}), and {state}. It was not begun a second time."
    )


def undecided(call: Call, way: str) -> str:
    """Return the text for a ledger's call that a person has to decide about; *way* says how."""
    return (
        f"Outcome unknown: {asked_for(call)} may or may not have taken effect (it started {utc(call.last_at)}). It was "
        f"not run again: a person has to say whether it happened. {way}"
    )


def unapproved(call: Call, way: str) -> str:
    """Return the text for a ledger's call that needs a person's approval; *way* says how it is given."""
    return f"Not started: {asked_for(call)} needs a person's approval first. It had no effect. {way}"


def going_on(call: Call) -> str:
    """Return the text for a ledger's call whose work another side has accepted, and has not done yet."""
    when = "" if call.again_at is None else f" from {utc(call.again_at)} on"
    failed = f" The last time it was asked, that told nothing: {call.failure}" if call.failures else ""
    return (
        f"Not done yet: the work of {asked_for(call)} was accepted and goes on elsewhere.{failed} Do not begin it "
        f"again: make this very call again{when} to be told how it stands."
    )


def stuck(call: Call, why: str, way: str) -> str:
    """Return the text for a ledger's call whose process ended too often; *way* says how it can be let go on."""
    known = "It may or may not have taken effect." if call.attempts else "It had no effect that lasts."
    return f"Not carried on: {asked_for(call)} has no result, since {why}. {known} {way}"


def refused_again(call: Call) -> str:
    """Return the text for a ledger's call that had been told as unknown, and is not to be done again."""
    said = f" The person said: {call.truth}" if call.truth else ""
    return f"{call.content} Since then a person decided that it is not to be run again.{said}"


def already_done(first: Call) -> Json:
    """Return the content for a call whose deed is done: the recorded result of the call that did it."""
    text = (
        f"Already done: the same deed was done by call {first.id} of turn {first.turn} at {utc(first.settled_at)}. "
        "It was not done a second time. Its recorded result was:"
    )
    content = first.truth if first.verdict == "happened" else first.content
    rest = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{"type": "text", "text": text}, *rest]
