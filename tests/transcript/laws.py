"""What must hold of every repair, whatever was given: each law raises AssertionError where it is broken."""

from __future__ import annotations

import json
from typing import Any

import toolrepair

from midstride.transcript import Finding, Repair, check, repair
from midstride.transcript.values import leaves_in

Json = Any

WORDS = ("Outcome unknown:", "Not started:", "Denied:", "Failed:", "Done:")


def hold(provider: str, messages: Json, request: Json = None, journal: Json = None, results: Json = None) -> Repair:
    """Check and repair a list, and ask every law."""
    before = bytes_of([messages, request, journal, results])
    found = check(messages, provider=provider, request=request, journal=journal)
    made = repair(messages, provider=provider, request=request, journal=journal, results=results)
    assert bytes_of([messages, request, journal, results]) == before, "the input was changed"
    nothing_is_left(provider, made)
    another_checker_agrees(provider, messages, request, made)
    nothing_valid_is_touched(messages, found, made)
    it_is_done_once(provider, made)
    if isinstance(messages, list):
        calls_are_kept(provider, messages, request, made)
        results_are_kept(provider, messages, request, made)
        success_is_not_invented(provider, messages, results, made)
        what_was_answered_stays(messages, found, request, made)
    return made


def bytes_of(value: Json) -> str:
    return json.dumps(value)


def nothing_is_left(provider: str, made: Repair) -> None:
    """No finding of level reject is left, but for those that no change of the messages mends."""
    again = check(made.messages, provider=provider, request=made.request, journal=made.journal)
    assert again == list(made.findings)
    left = [one for one in again if one.level == "reject" and not _is_unmendable(one, made)]
    assert left == [], left


def another_checker_agrees(provider: str, messages: Json, request: Json, made: Repair) -> None:
    """Where it was not asked to keep neighbours apart, tool-call-repair finds no call without its result either.

    It knows neither joined neighbours nor compaction blocks, so only lists for a strict target are shown to it.
    """
    asked = request.get("profile") if isinstance(request, dict) else None
    known = {"anthropic": "anthropic", "openai-chat": "openai"}.get(provider)
    if asked in ("strict", "bedrock") and known and "compaction" not in bytes_of(messages):
        assert toolrepair.validate(made.messages, format=known) == []


def _is_unmendable(one: Finding, made: Repair) -> bool:
    request, rule = made.request, one.rule[:3]
    if rule in ("A26", "A28", "A39", "A46", "A47", "A57"):
        return True
    if rule in ("A29", "A30", "A31", "R11", "R06"):
        return one.at == 0
    if rule == "A09":
        return request.get("last_stop_reason") in ("end_turn", "stop_sequence")
    if rule == "A38":
        return "container" in request and request["container"] is None
    if rule == "R01":
        return "'computer_call'" in repr(made.messages) + repr(made.journal)
    return rule == "R16" and "safety" in one.message


def nothing_valid_is_touched(messages: Json, found: list[Finding], made: Repair) -> None:
    """A list without a fault comes back as the very same."""
    if isinstance(messages, list) and not found:
        assert made.messages is messages
        assert made.changes == ()
    if not made.changes:
        assert made.messages is messages or not isinstance(messages, list)
    for change in made.changes:
        assert all(isinstance(words, str) and words for words in (change.what, change.where, change.why))


def it_is_done_once(provider: str, made: Repair) -> None:
    """To repair a repaired list changes nothing."""
    again = repair(made.messages, provider=provider, request=made.request, journal=made.journal)
    assert again.changes == (), again.changes
    assert again.messages is made.messages


# ---- calls and results


def strings_in(value: Json) -> list[str]:
    return [leaf for leaf in leaves_in(value) if isinstance(leaf, str)]


def calls_in(provider: str, messages: list[Json]) -> list[tuple[str, str]]:
    """Return the calls that stand in their place: id, and the mark in their arguments."""
    found = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if provider == "anthropic" and role == "assistant" and isinstance(message.get("content"), list):
            blocks = [b for b in message["content"] if isinstance(b, dict) and b.get("type") == "tool_use"]
            found += [(b.get("id"), _mark(b, "call-")) for b in blocks]
        elif provider == "openai-chat" and role == "assistant" and isinstance(message.get("tool_calls"), list):
            found += [(c.get("id"), _mark(c, "call-")) for c in message["tool_calls"] if isinstance(c, dict)]
        elif provider == "openai-responses" and isinstance(message, dict) and message.get("type") in CALLS:
            found.append((message.get("call_id"), _mark(message, "call-")))
    return [(one, mark) for one, mark in found if isinstance(one, str) and mark]


CALLS = ("function_call", "custom_tool_call", "shell_call", "apply_patch_call", "computer_call", "local_shell_call")


def results_in(provider: str, messages: list[Json]) -> list[tuple[str, str]]:
    """Return the results that stand in a message of the right role: id, and the mark in them."""
    found = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if provider == "anthropic" and role == "user" and isinstance(message.get("content"), list):
            blocks = [b for b in message["content"] if isinstance(b, dict) and b.get("type") == "tool_result"]
            found += [(b.get("tool_use_id"), _mark(b, "result-")) for b in blocks]
        elif provider == "openai-chat" and role == "tool":
            found.append((message.get("tool_call_id"), _mark(message, "result-")))
        elif provider == "openai-responses" and isinstance(message, dict) and str(message.get("type")) in OUTPUTS:
            found.append((message.get("call_id"), _mark(message, "result-")))
    return [(one, mark) for one, mark in found if isinstance(one, str)]


OUTPUTS = tuple(f"{name}_output" for name in CALLS)


def _mark(value: Json, begin: str) -> str:
    """Return a mark such as call-1-2 out of a value; "" if there is none."""
    for text in strings_in(value):
        at = text.find(begin)
        if at >= 0 and not text.startswith(WORDS):
            return text[at : at + len(begin) + 3]
    return ""


def _removed(request: Json) -> bool:
    reason = request.get("last_stop_reason", "") if isinstance(request, dict) else ""
    return reason in ("max_tokens", "model_context_window_exceeded", "refusal", "length", None)


def calls_are_kept(provider: str, messages: list[Json], request: Json, made: Repair) -> None:
    """No call is deleted; only the last response is, where it was cut or refused, or what the server holds itself."""
    if _removed(request) or (provider == "openai-responses" and request):
        return
    if any(one.rule[:3] == "A49" for one in check(messages, provider=provider)):
        return  # what stands before a fallback block is the answer of a model that refused, and was not run
    kept = {mark for _, mark in calls_in(provider, made.messages)}
    asked = {mark for _, mark in calls_in(provider, messages)}
    lost = asked - kept
    if lost and provider == "openai-responses":
        lost = {mark for mark in lost if '"incomplete"' not in bytes_of(messages)}
    assert not lost, lost


def results_are_kept(provider: str, messages: list[Json], request: Json, made: Repair) -> None:
    """A result whose call is in the list is in the repaired one too."""
    if _removed(request) or (provider == "openai-responses" and request):
        return
    if any(one.rule[:3] in ("G04", "A22", "A20") for one in check(messages, provider=provider)):
        return  # a mark may stand in a field that nobody knows
    asked = [one for one, _ in calls_in(provider, messages)]
    answered = [one for one, _ in results_in(provider, messages)]
    kept = bytes_of(made.messages)
    clear = [
        mark
        for one, mark in results_in(provider, messages)
        if mark
        and asked.count(one) == 1
        and answered.count(one) == 1
        and not one.startswith(("srvtoolu_", "mcptoolu_"))
    ]
    lost = {mark for mark in clear if mark not in kept}
    assert not lost, lost


def success_is_not_invented(provider: str, messages: list[Json], results: Json, made: Repair) -> None:
    """A result that is new is recorded, or says in words of its own that nobody knows."""
    old = set(strings_in(messages))
    for message in made.messages:
        blocks = message.get("content") if isinstance(message, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result" and isinstance(block.get("content"), str):
                _is_honest(block["content"], block.get("is_error"), old, results, provider)


def _is_honest(words: str, is_error: Json, old: set[str], results: Json, provider: str) -> None:
    if words in old or any(words in text for text in strings_in(results)) or "\ufffd" in words:
        return
    if is_error is True:
        assert words.startswith(WORDS), words


REACHING = {
    "G06",
    "A02",
    "A03",
    "A05",
    "A20",
    "A14",
    "A29",
    "A33",
    "A42",
    "A44",
    "C02",
    "C03",
    "R01",
    "R02",
    "R04",
    "R05",
    "R11",
    "R14",
    "R15",
    "A08",
    "A10",
}
"""Rules whose mend may lie in front of the finding: a call to be restored, a first copy, an older picture, reasoning
whose item the server holds, the answer in front of an empty one, which is the latest then."""


def what_was_answered_stays(messages: list[Json], found: list[Finding], request: Json, made: Repair) -> None:
    """In front of the first finding, and the message before it, all stay the very same."""
    if {one.rule[:3] for one in found} & REACHING or _removed(request) or (request or {}).get("profile"):
        return
    first = min((one.at - (one.rule[:3] == "A06") for one in found), default=len(messages))
    for at in range(first):
        assert made.messages[at] is messages[at], at
