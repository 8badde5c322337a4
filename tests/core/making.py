"""Small journals, made in a line each: answers whose calls are named by their effects, entries a second apart."""

from __future__ import annotations

from typing import Any

from midstride.core.fold import fold
from midstride.core.journal import Body, Entry, Recorded, Requested, Responded, Started, Taken, Terms, seal
from midstride.core.run import NEW, Run

USER = {"role": "user", "content": "do it"}
START = Started(task="do it", api="anthropic", messages=[USER], nonce="n")
TAKEN = Taken(1, "host", 7)
KILLED = Taken(2, "host", 8, clean=False)
ASK = Requested({"max_tokens": 10})
LETTERS = {"r": "read_only", "i": "idempotent", "x": "transactional", "v": "verifiable", "u": "unsafe"}
AT = 1000.0
"""When the first entry of a journal is made."""


def terms(letter: str, **more: Any) -> Terms:
    return Terms(LETTERS[letter], "s1", **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(index: int, letter: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{index}", "name": letter, "input": {"n": index}}


def answer(stop: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), "stop_reason": stop, **more}


def final(words: str = "Done.", **more: Any) -> Responded:
    return Responded(answer("end_turn", text(words), **more))


def asks(letters: str, *, stop: str = "tool_use", recorded: Recorded | None = None, **more: Any) -> Responded:
    """Return an answer with one call for each letter of *letters*; *more* are terms of all of them."""
    blocks = [use(index, letter) for index, letter in enumerate(letters)]
    known = tuple(recorded or Recorded(terms(letter, **more)) for letter in letters)
    return Responded(answer(stop, *blocks), known)


def go(run: Run, *bodies: Body, at: float | None = None) -> Run:
    """Fold *bodies* behind *run*, each a second after the last, or all *at* one time."""
    for body in bodies:
        now = at if at is not None else (run.at or AT - 1) + 1
        run = fold(seal((body,), run.head, now), run)
    return run


def made(*bodies: Body) -> Run:
    """Return the run of a journal of *bodies*."""
    return go(NEW, *bodies)


def entries(*bodies: Body) -> tuple[Entry, ...]:
    """Return *bodies* as the entries of a whole journal, a second apart."""
    found: list[Entry] = []
    head = NEW.head
    for at, body in enumerate(bodies, int(AT)):
        found += seal((body,), head, float(at))
        head = type(head)(found[-1].seq, found[-1].digest)
    return tuple(found)


ASKED = (START, TAKEN, ASK)


def with_calls(letters: str, **more: Any) -> Run:
    """Return a run whose first answer calls *letters*."""
    return made(*ASKED, asks(letters, **more))
