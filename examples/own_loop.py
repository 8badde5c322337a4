"""The agent of notes.py with a loop and a client of one's own. Killed anywhere? Run it again.

    python examples/own_loop.py [RUN_ID]

Whatever else the loop does with a response (print it, count it, stream it) stays yours; so do model and max_tokens.
Key, address and store come from the environment: ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, MIDSTRIDE_STORE; notes.py
names what its tools take from there.
"""

import sys

import anthropic
from notes import TASK, list_notes, read_note, send_email  # type: ignore[import-not-found]  # beside this file

from midstride import Run

RUN_ID = sys.argv[1] if len(sys.argv) > 1 else "notes-2026-W48"

if __name__ == "__main__":
    client = anthropic.Anthropic()
    with Run(None, RUN_ID, TASK, tools=[list_notes, read_note, send_email]) as run:
        for turn in run:
            room = 4096 << turn.cuts  # an answer that was cut off is asked for again, with twice the room
            turn.respond(client.messages.create(model="claude-sonnet-5-5", max_tokens=room, **turn.request))
    print(run.answer or f"{run.result.status}: {run.result.why}")
