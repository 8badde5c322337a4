"""What the fake model says: it lists the notes, reads them, mails what was decided, and tells what came of it.

Every answer depends on the results in the request alone, so a program that was killed is answered as if it had not
been, and one that is told "outcome unknown" gets an honest report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstride.testing.fake_model import Answer, Reply, calls

Json = Any
TEAM = "team@example.com"


@dataclass(frozen=True)
class Result:
    """A call in a transcript, and the result that it was given."""

    name: str
    arguments: Mapping[str, Json]
    text: str
    is_error: bool


def results_in(messages: Sequence[Mapping[str, Json]]) -> list[Result]:
    """Return every call that has its result, in order."""
    asked = {block["id"]: block for block in _blocks(messages, "tool_use")}
    return [
        Result(
            asked[block["tool_use_id"]]["name"],
            asked[block["tool_use_id"]]["input"],
            _text(block.get("content", "")),
            block.get("is_error", False),
        )
        for block in _blocks(messages, "tool_result")
    ]


def reply(body: dict[str, Json], number: int) -> Reply:
    """Return the model's next answer."""
    results = {(result.name, result.arguments.get("name")): result for result in results_in(body["messages"])}
    if ("list_notes", None) not in results:
        return calls(("list_notes", {}), text="First I look which notes there are.")
    names = json.loads(results["list_notes", None].text)
    unread = [name for name in names if ("read_note", name) not in results]
    if unread:
        return calls(*(("read_note", {"name": name}) for name in (unread[:1] if _one_at_a_time(body) else unread)))
    if ("send_email", None) not in results:
        mail = {"to": TEAM, "subject": "Decisions of this week", "body": _mail(results["read_note", n] for n in names)}
        return calls(("send_email", mail), text="I have read them all, and mail the decisions.")
    return Answer(_report(len(names), results["send_email", None]))


def _one_at_a_time(body: Mapping[str, Json]) -> bool:
    return bool(body.get("tool_choice", {}).get("disable_parallel_tool_use"))


def _mail(notes: Iterator[Result]) -> str:
    return "\n\n".join(_decisions(note.text) for note in notes)


def _decisions(note: str) -> str:
    """Return a note's title and what stands under its heading "Decided"."""
    title = note.partition("\n")[0].removeprefix("# ")
    decided = note.partition("\n## Decided\n")[2].partition("\n## ")[0].strip()
    return f"{title}\n{decided}"


def _report(count: int, mail: Result) -> str:
    if not mail.is_error:
        return f"I read the {count} notes and mailed the decisions to {TEAM}."
    if mail.text.startswith("Outcome unknown"):
        return (
            f"I read the {count} notes and wrote the mail to {TEAM}, but I do not know whether it went out: the "
            "program was stopped while it was being sent. I did not send it again. Please look whether it arrived."
        )
    return f"I read the {count} notes, but the mail to {TEAM} was not sent: {mail.text}"


def _blocks(messages: Sequence[Mapping[str, Json]], kind: str) -> Iterator[Mapping[str, Json]]:
    for message in messages:
        if not isinstance(message["content"], str):
            yield from (block for block in message["content"] if block["type"] == kind)


def _text(content: Json) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
