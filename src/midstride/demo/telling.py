"""An incident told as text, step by step, and as JSON."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from midstride.demo.incident import Incident
from midstride.demo.programs import RUN_ID
from midstride.visible import visible

WIDTH = 100

OPENING = (
    "An agent reads six notes and mails what was decided. The mail server takes the mail, and before it says "
    '"250 OK" the agent is killed (SIGKILL), so it never learns. Then the same program is run again. Three programs, '
    "and what counts is the server's mailbox."
)

TITLES = {
    "naive": "naive: the lesson's loop, whose reconcile runs every pending call again",
    "unsafe": "unsafe: midstride, and nobody can ask the mail server afterwards",
    "verifiable": "verifiable: midstride, and the mail can be looked for by its Message-ID",
}


def opening(*, real: bool) -> str:
    """Return what the reader is told first; *real* tells that a real model answers."""
    model = "the one that ANTHROPIC_API_KEY pays for (a fake one for naive)" if real else "a fake one on loopback"
    return f"{OPENING} The model is {model}."


def kept_in(incident: Incident) -> str:
    """Name what a program keeps its state in."""
    return "checkpoint.json" if incident.store is None else "journal"


def decision(incident: Incident) -> str:
    """Return what became of the mail's call when the program was run again."""
    if incident.mailed_again:
        return "run again, whatever it does"
    if incident.told.is_error:
        return "not run again: nobody can know"
    return "not run again: the mail is found"


def verdict(incident: Incident) -> str:
    """Return what the mailbox at the end comes to."""
    if incident.mailed_again:
        return "the second one unasked"
    return "and the doubt is told" if incident.told.is_error else "and its result recovered"


def as_text(incidents: Sequence[Incident], width: int = WIDTH) -> str:
    """Return all of it as plain text, one program after another."""
    return "\n".join([*(told(incident, width) for incident in incidents), mailboxes(incidents)])


def told(incident: Incident, width: int = WIDTH) -> str:
    """Return the incident of one program, from the kill to the mailbox."""
    return "\n".join(["", TITLES[incident.name], "", *_steps(incident, width), ""])


def _steps(incident: Incident, width: int) -> Iterator[str]:
    yield f"  Process {incident.pid} was killed; the mailbox held {count(incident.taken)}."
    yield f"  Its {kept_in(incident)}:\n"
    yield from _lines(incident.saved, width)
    yield f"\n  The program is started again, and the call is {decision(incident)}."
    yield f"  New in its {kept_in(incident)}:\n"
    yield from _lines(incident.added, width)
    yield f"\n  It told the model of its mail{', as an error' if incident.told.is_error else ''}:\n"
    yield wrapped(shortened(incident.told.text, 400, 400), "      ", width)
    yield "\n  The model answered:\n"
    yield wrapped(incident.answer, "      ", width)
    yield f"\n  In the mailbox: {count(len(incident.mails))}, {verdict(incident)}."


def _lines(lines: Sequence[str], width: int) -> Iterator[str]:
    yield from (f"      {cut(line, width - 6)}" for line in folded(lines))


def mailboxes(incidents: Sequence[Incident]) -> str:
    """Return what is in the mailboxes at the end, and one mail in full."""
    lines = ["", "The mailboxes", ""]
    for incident in incidents:
        for number, mail in enumerate(incident.mails, start=1):
            lines.append(f"  {incident.name:<12}{number}  {visible(mail.subject)}  {visible(mail.message_id)}")
    mail = incidents[-1].mails[0]
    lines += ["", f"  To: {visible(mail.to)}", f"  Subject: {visible(mail.subject)}", ""]
    return "\n".join([*lines, textwrap.indent(visible(mail.body), "  "), ""])


def play_on(incidents: Sequence[Incident], folder: Path, *, keep: bool) -> list[str]:
    """Return how to play on: a sentence, and commands where the folder is kept."""
    command = _command()
    if not keep:
        store = "sqlite:FOLDER/unsafe/runs.db"
        return [f"Play on: {command} demo --keep, then {command} show {RUN_ID} --store {store}"]
    shown = ["Play on with the runs that were kept:"]
    for incident in incidents:
        if incident.store is None:
            shown.append(f"cat {shlex.quote(str(folder / incident.name / 'checkpoint.json'))}")
        else:
            shown.append(f"{command} show {RUN_ID} --store {shlex.quote(incident.store)}")
            if incident.told.is_error:
                shown.append(f"{command} doubts --store {shlex.quote(incident.store)}")
    return shown


def _command() -> str:
    """Return how the command line of this very installation is called from here."""
    script = Path(sys.executable).with_name("midstride")
    found = shutil.which("midstride")
    return "midstride" if found and Path(found) == script else f"{shlex.quote(sys.executable)} -m midstride.cli"


def as_json(incident: Incident) -> dict[str, Any]:
    """Return the incident for a program to read; *mails* is the count at the end."""
    return {
        "mails": len(incident.mails),
        "pid_killed": incident.pid,
        "mails_when_killed": incident.taken,
        "message_ids": [mail.message_id for mail in incident.mails],
        "saved_when_killed": list(incident.saved),
        "added_when_run_again": list(incident.added),
        "told": {"is_error": incident.told.is_error, "text": incident.told.text},
        "answer": incident.answer,
        "store": incident.store,
        "seconds": round(incident.seconds, 3),
    }


def count(mails: int) -> str:
    """Return a number of mails in words."""
    return "1 mail" if mails == 1 else f"{mails} mails"


def folded(lines: Sequence[str]) -> Iterator[str]:
    """Put equal lines that follow each other into one."""
    for at, line in enumerate(lines):
        if at and lines[at - 1] == line:
            continue
        alike = next((n for n, other in enumerate(lines[at:]) if other != line), len(lines) - at)
        yield f"{line} ({alike} times)" if alike > 1 else line


def shortened(text: str, head: int, tail: int) -> str:
    """Leave out the middle of a mail that is repeated to the model: whole words of its *head* and its *tail* stay."""
    if len(text) <= head + tail + 100:
        return text
    return f"{text[:head].rpartition(' ')[0]} [...] {text[-tail:].partition(' ')[2]}"


def cut(line: str, width: int) -> str:
    """Cut a line instead of wrapping it: what stands on disk stays one line an entry."""
    shown = visible(line)
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."


def wrapped(text: str, indent: str, width: int = WIDTH) -> str:
    """Return *text* in lines of at most *width* characters."""
    return "\n".join(
        textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
        for line in visible(text).splitlines()
    )
