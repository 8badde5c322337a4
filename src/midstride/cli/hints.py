"""What a person may do next, as commands that can be copied: quoted, and with the store where it is not the default."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from midstride.errors import MidstrideError
from midstride.stores import Store, open_store

Json = Any
Facts = Mapping[str, Json]


def command(store: Store, *words: str) -> str:
    """Return a command of ours, for the runs in *store*."""
    ours = ["midstride", *words, *([] if _is_default(store) else ["--store", store.url])]
    return " ".join(word if word in PLACES else shlex.quote(word) for word in ours)


PLACES = frozenset({"TEXT", "N", "FILE", "|"})
"""What a person fills in."""


def _is_default(store: Store) -> bool:
    try:
        return open_store().url == store.url
    except MidstrideError:
        return False


def after(facts: Facts, questions: Sequence[Facts], store: Store, limit: str | None = None) -> list[str]:
    """Return what can be done about a run that rests, or that nobody drives; *limit* is the one that is reached."""
    run_id = facts["run"]
    resume = command(store, "resume", run_id)
    if facts["api"] == LEDGER:
        return _after_ledger(facts, questions, store)
    match facts["status"]:
        case "interrupted":
            return [f"go on with: {resume}"]
        case "capped":
            more = command(store, "extend", run_id, f"--{limit or 'turns'}", "N")
            return [f"allow it more: {more}", f"then go on with: {resume}"]
        case "held":
            see, force = command(store, "log", run_id), command(store, "resume", run_id, "--force")
            return [f"see what ends it: {see}", f"then go on with: {force}"]
        case "cut" | "failed":
            return [f"try again with: {command(store, 'resume', run_id, '--force')}"]
        case "waiting" if questions:
            return [*(decide(store, run_id, one) for one in questions), f"then go on with: {resume}"]
        case "waiting" if facts["again_at"]:
            return [f"ask at that time with: {resume}", f"ask at once with: {resume} --force"]
    return [decide(store, run_id, one) for one in questions]


LEDGER = "ledger"
"""The API of a run that is one call of a ledger: its own program carries it on, and no command can."""

AGAIN = "its program goes on with it when it makes this call again"


def _after_ledger(facts: Facts, questions: Sequence[Facts], store: Store) -> list[str]:
    if facts["status"] == "held":
        see, extend = (
            command(store, verb, facts["run"], *more) for verb, *more in (["log"], ["extend", "--turns", "N"])
        )
        return [f"see what ends it: {see}", f"release it with: {extend}", AGAIN]
    asked = [decide(store, facts["run"], one) for one in questions if one["state"] != "intended"]
    return [*asked, *([AGAIN] if facts["status"] in ("interrupted", "waiting") else [])]


def decide(store: Store, run_id: str, question: Facts, *, api: str = "") -> str:
    """Return how a person decides about a call; one that its program has to look at first cannot be decided yet."""
    call = question["call"]
    if question["state"] == "asking approval":
        return f"approve {question['tool']}: {command(store, 'decide', run_id, call, '--approve', '|', '--deny')}"
    if question["state"] == "intended" and api == LEDGER:
        return f"{question['tool']} cannot be decided yet: {AGAIN}"
    if question["state"] == "intended":
        return f"{question['tool']} is for a resume to settle: {command(store, 'resume', run_id)}"
    choice = ("--happened", "TEXT", "|", "--rerun", "|", "--unknown")
    return f"did {question['tool']} happen? {command(store, 'decide', run_id, call, *choice)}"
