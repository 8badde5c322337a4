"""An agent that reads a week of meeting notes and mails their decisions. Killed anywhere? Run it again.

    python examples/notes.py [RUN_ID]

The key of the model's API is in ANTHROPIC_API_KEY. What else can be set in the environment:

    NOTES_FOLDER          the notes, as *.md; the folder `notes` beside this file unless told
    SMTP_HOST, SMTP_PORT  the mail server; localhost and 25 unless told
    NOTES_SENT_FOLDER     a Maildir that the server files sent mail in: where to look whether a mail went out
    NOTES_EFFECT          "verifiable" unless told; "unsafe" for a server that nobody can ask afterwards
"""

import mailbox
import os
import smtplib
import sys
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

from midstride import Agent, CannotTell, Context, DidNotHappen, Happened, models, tool

NOTES = Path(os.environ.get("NOTES_FOLDER") or Path(__file__).parent / "notes")
SENT = os.environ.get("NOTES_SENT_FOLDER")
HOST, PORT = os.environ.get("SMTP_HOST", "localhost"), int(os.environ.get("SMTP_PORT", "25"))
TASK = "Read this week's meeting notes, all of them, and mail the decisions to team@example.com in one mail."

REFUSED = (
    ValueError,  # no mail can be made of these words
    ConnectionRefusedError,
    smtplib.SMTPSenderRefused,
    smtplib.SMTPRecipientsRefused,
    smtplib.SMTPDataError,
)


@tool.read_only
def list_notes() -> list[str]:
    """List the names of this week's meeting notes."""
    return sorted(path.name for path in NOTES.iterdir() if path.suffix == ".md")


@tool.read_only
def read_note(name: str) -> str:
    """Read one meeting note, by a name from list_notes."""
    if name not in list_notes():  # so no name leads out of the folder
        raise ValueError(f"there is no note {name!r}: list_notes has the names")
    return (NOTES / name).read_text(encoding="utf-8")


# The server files a mail that it took within a second; two mails of one subject to one address are the same deed.
@tool.verifiable(timeout=60, settle=1, key=lambda to, subject: (to, subject))
def send_email(to: str, subject: str, body: str, context: Context) -> str:
    """Send a mail to one address."""
    try:
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "notes@example.com", to, subject
        mail["Date"], mail["Message-ID"] = formatdate(), message_id(context)
        mail.set_content(body)
        with smtplib.SMTP(HOST, PORT, timeout=30) as server:
            server.send_message(mail)
    except REFUSED as error:  # a clear no; after any other error nobody knows
        raise DidNotHappen(f"The mail was refused: {error}") from error
    return f"Sent to {to} as {message_id(context)}"


@send_email.verify
def find_email(to: str, context: Context) -> Happened | DidNotHappen | CannotTell:
    """Look for the mail among the sent ones."""
    if SENT is None:
        return CannotTell("No folder of sent mail is known.")
    if any(mail["Message-ID"] == message_id(context) for mail in mailbox.Maildir(SENT, create=False)):
        return Happened(f"Sent to {to} as {message_id(context)}")
    return DidNotHappen("It is not among the sent mails.")


def message_id(context: Context) -> str:
    """Name the mail by its call: the same for every attempt, and no other call's."""
    return f"<{context.key[:32]}@example.com>"


unsafe = os.environ.get("NOTES_EFFECT") == "unsafe"
agent = Agent(
    models.Anthropic("claude-sonnet-5-5"),
    tools=[list_notes, read_note, tool(key=send_email.key)(send_email.function) if unsafe else send_email],
    system="You write for a team that has no time. Say plainly what was done and what was not.",
)

if __name__ == "__main__":
    result = agent.run(TASK, id=sys.argv[1] if len(sys.argv) > 1 else "notes-2026-W48")
    print(result.answer or f"{result.status}: {result.why}")
