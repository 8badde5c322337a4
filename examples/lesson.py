"""The lesson's program, on midstride, over the lesson's own checkpoint.json.

    python examples/lesson.py [TASK]

It reads and carries on the checkpoint.json of the current folder, or begins one; without TASK it carries on whatever
stands there. What the lesson writes by hand is here:

    saveCheckpoint, loadCheckpoint, the version check    the store "checkpoint:PATH"
    READ_ONLY_TOOLS                                      @tool.read_only, on the tool itself
    executeTool(name, input)                             tools=[...]
    reconcile(cp), and the ledger of its comment         done before the first request, by what each tool is declared
    MAX_TURNS                                            Limits(turns=MAX_TURNS)
    turns, tokensUsed                                    carried on by the run

ANTHROPIC_API_KEY holds the key; SMTP_HOST and SMTP_PORT name the mail server, localhost and 25 unless told.
"""

import os
import re
import smtplib
import sys
from email.message import EmailMessage
from pathlib import Path

import anthropic

from midstride import Limits, Result, Run, tool

CHECKPOINT_PATH = "./checkpoint.json"
MAX_TURNS = 40
HOST, PORT = os.environ.get("SMTP_HOST", "localhost"), int(os.environ.get("SMTP_PORT", "25"))


@tool.read_only
def read_file(path: str) -> str:
    """Read a text file."""
    return inside(path).read_text(encoding="utf-8")


@tool.read_only
def grep(pattern: str, path: str) -> list[str]:
    """Return the lines of a text file in which a regular expression is found."""
    return [line for line in inside(path).read_text(encoding="utf-8").splitlines() if re.search(pattern, line)]


@tool.read_only
def list_dir(path: str = ".") -> list[str]:
    """List the names in a folder."""
    return sorted(entry.name for entry in inside(path).iterdir())


@tool  # high-impact: after a crash it is never run again unasked, and the model is told that nobody knows
def send_email(to: str, subject: str, body: str = "") -> str:
    """Send a mail to one address."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "agent@example.com", to, subject
    mail.set_content(body)
    with smtplib.SMTP(HOST, PORT, timeout=30) as server:
        server.send_message(mail)
    return f"Sent to {to}"


def inside(path: str) -> Path:
    """Refuse a path that leads out of the current folder."""
    found = Path(path).resolve()
    if not found.is_relative_to(Path.cwd()):
        raise ValueError(f"{path} is outside of the folder that may be read")
    return found


def run_agent(task: str | None) -> Result:
    client, store, limits = anthropic.Anthropic(), f"checkpoint:{CHECKPOINT_PATH}", Limits(turns=MAX_TURNS)
    with Run(store, "lesson", task, tools=[read_file, grep, list_dir, send_email], limits=limits) as run:
        for turn in run:  # the dangling call has its result by now
            response = client.messages.create(model="claude-sonnet-5-5", max_tokens=4096, **turn.request)
            turn.respond(response)  # save point A is here; save point B comes with each result
    return run.result


if __name__ == "__main__":
    result = run_agent(sys.argv[1] if len(sys.argv) > 1 else None)
    print(result.answer or f"{result.status}: {result.why}")
