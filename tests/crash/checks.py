"""What must be true of a run that was carried through deaths, seen from outside: effects, requests, journal, result.

The judgement is `midstride.testing.crash_judge`, the one of users' own crash tests; here is what is known of these
tools, and of processes that really died.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from crash.plan import World
from midstride.testing.crash_judge import (
    Told,
    check_counters,
    check_deed,
    check_grew,
    check_requests_grew,
    check_words,
    results_told,
)

RESULTS = {
    "look": "saw",
    "charge": "charged",
    "book": "booked",
    "post": "posted",
    "send": "sent",
    "pay": "paid",
    "wipe": "wiped",
}
"""What each tool returns, before its argument."""

EFFECTS = {
    "look": "read_only",
    "charge": "idempotent",
    "book": "transactional",
    "post": "verifiable",
    "send": "unsafe",
    "pay": "unsafe",
    "wipe": "unsafe",
}

Json = Any


def check(world: World, unkilled: World) -> None:
    """Check all that must be true of a run that is done; *unkilled* is the same program without deaths."""
    result = world.processes[-1].told("result")
    journal = [json.loads(line) for line in result["journal"]]
    bodies = [body.decode() for body in world.bodies]
    assert (result["status"], result["answer"]) == ("done", "Done.")
    found = [lines for process in world.processes if (lines := process.told("found")) is not None]
    check_grew([*found, result["journal"]])
    check_requests_grew(bodies)
    check_counters(result["turns"], result["tokens_used"], result["tokens_total"], journal)
    assert result["turns"] >= len(bodies)
    told, wanted = results_told(bodies[-1]), results_told(unkilled.bodies[-1].decode())
    others = check_words(told, wanted, journal)
    check_effects(world, told)
    check_same_request(world.bodies[-1], unkilled.bodies[-1], told, others)


def check_effects(world: World, told: list[Told]) -> None:
    """Each call took effect as often as its effect and its result promise; nothing unsafe was even begun twice."""
    moments = world.moments
    for call in told:
        n = call.input["n"]
        begun, happened = moments.count(f"{call.name} {n} before"), effects(world, call)
        check_deed(call, EFFECTS[call.name], begun, happened, once=call.name in ("send", "wipe"))
        if call.text.startswith("Outcome unknown") and call.name != "look":
            assert happened >= int(f"{call.name} {n} after" in moments)
    keys = {one for one in world.outside.effects() if one.startswith("asked to charge 1")}
    assert len(keys) <= 1, "an attempt had another idempotency key"


def is_its_own(told: Told) -> bool:
    """Tell whether a result is what the tool returned."""
    return told.text == f"{RESULTS[told.name]} {told.input['n']}" and not told.is_error


def effects(world: World, call: Told) -> int:
    """Return how often a call took effect."""
    if call.name != "book":
        return world.outside.count(f"{call.name} {call.input['n']}")
    connection = sqlite3.connect(f"file:{world.folder / 'runs.db'}?mode=ro", uri=True)
    try:
        (rows,) = connection.execute("select count(*) from seats where n = ?", (call.input["n"],)).fetchone()
        return int(rows)
    finally:
        connection.close()


def check_same_request(body: bytes, wanted: bytes, told: list[Told], others: list[Told]) -> None:
    """The last request is the one that would have been sent without a death, but for results not the tools' own."""
    if not others:
        assert body == wanted
        return
    found = json.loads(body)
    results = [block for message in found["messages"] if message["role"] == "user" for block in parts(message)]
    for block, call in zip(results, told, strict=True):
        block["content"] = f"{RESULTS[call.name]} {call.input['n']}"
        block.pop("is_error", None)
    assert found == json.loads(wanted)


def parts(message: dict[str, Json]) -> list[dict[str, Json]]:
    """Return the results in a message."""
    content = message["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == "tool_result"]
