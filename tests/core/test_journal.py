"""Entries as stored: byte-stable, ASCII, chained; and a damaged or newer one is refused, by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.making import TAKEN, answer, asks, entries, terms, text, use
from midstride.core.fold import fold
from midstride.core.journal import (
    KINDS,
    OUTSIDE,
    Accepted,
    Asked,
    Body,
    Cancelled,
    Compacted,
    Decided,
    Entry,
    Extended,
    Failed,
    Head,
    Intended,
    Limits,
    Recorded,
    Requested,
    Responded,
    Said,
    Settled,
    Started,
    Taken,
    broken_link,
    chain,
    decode,
    decode_all,
    encode,
    head_of,
    seal,
)
from midstride.core.run import Run
from midstride.core.view import view
from midstride.errors import Damaged, Newer

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"

EVERY_KIND: list[Body] = [
    Started(
        "Tidy up.",
        "anthropic",
        [{"role": "user", "content": "Tidy up, caf\u00e9 \ud83d."}],
        "nonce-1",
        system=[text("Be brief.")],
        tools=[{"name": "u", "input_schema": {"type": "object", "maximum": 10**25, "minimum": 1.0, "default": None}}],
        limits=Limits(turns=5, tokens=10_000, seconds=60.5),
        turns=1,
        tokens=100,
    ),
    Taken(1, "host-a", 41, code="c1"),
    Requested({"max_tokens": 1024, "model": "m"}),
    Responded(
        answer("tool_use", text("On it."), use(0, "u"), use(1, "v"), use(2, "r"), usage={"input_tokens": 50}),
        (
            Recorded(terms("u", doubt="ask"), key="k1"),
            Recorded(terms("v", timeout=30.0, settle=5.0)),
            Recorded(problem="No path was given."),
        ),
    ),
    Intended(2, 0),
    Settled(2, 0, "unknown", "Outcome unknown: nobody knows."),
    Intended(2, 1, imported=True),
    Accepted(2, 1, {"job": 7}),
    Settled(2, 1, "ok", [text("Opened.")]),
    Asked(2, 2, "approval"),
    Decided(2, 2, "allow", by="ann"),
    Settled(2, 2, "failed", "Failed: No path was given."),
    Said("Hurry.", by="ann"),
    Decided(2, 0, "happened", "It took effect.", by="ann"),
    Extended(Limits(turns=None), by="program"),
    Compacted(1, [{"role": "user", "content": "In short."}]),
    Requested({"max_tokens": 2048}),
    Failed("400: no such model"),
    Extended(Limits(turns=9, seconds=1.0), by="ann"),
    Taken(2, "host-b", 42, clean=False),
    Cancelled("enough", by="ann"),
]


def lines(name: str) -> list[str]:
    return (GOLDEN / f"{name}.jsonl").read_text(encoding="ascii").splitlines()


def shown(run: Run) -> dict[str, Any]:
    """Return what a fold is held to: enough that no rule of the fold can change unseen."""
    return {
        "state": run.state, "turns": run.turns, "tokens": [run.tokens_used, run.tokens_total], "takes": run.takes,
        "seconds": run.seconds, "token": run.token, "reason": run.reason, "pending": list(run.pending),
        "calls": [[c.id, c.state, c.outcome, c.attempts, c.verdict, c.died_at] for c in run.calls],
        "view": view(run),
    }  # fmt: skip


# ---- golden journals: what a released version wrote is read for ever


GOLDEN_NAMES = sorted(path.stem for path in GOLDEN.glob("*.jsonl"))


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_golden_journal_folds_as_it_always_did(name: str) -> None:
    expected = json.loads((GOLDEN / f"{name}.expected.json").read_text(encoding="ascii"))
    found = [
        decode(line, digest, seq)
        for seq, (line, digest) in enumerate(zip(lines(name), expected["digests"], strict=True), 1)
    ]
    assert broken_link(found) is None
    assert shown(fold(found)) == expected["fold"]


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_golden_journal_is_written_as_it_always_was(name: str) -> None:
    for seq, line in enumerate(lines(name), 1):
        entry = decode(line, "", seq)
        assert encode(seq, entry.at, entry.body) == line


def test_every_kind_is_in_a_golden_journal() -> None:
    assert [json.loads(line)["kind"] for line in lines("every_kind")] == [body.kind for body in EVERY_KIND]
    assert {body.kind for body in EVERY_KIND} == set(KINDS)


def test_the_golden_lines_are_written_now() -> None:
    assert [entry.text for entry in entries(*EVERY_KIND)] == lines("every_kind")


def test_a_small_journal_is_literally_this() -> None:
    found = seal([TAKEN, Settled(1, 0, "ok", "é"), Cancelled()], Head(), 1000.00049)
    assert [entry.text for entry in found] == [
        '{"seq":1,"at":1000.0,"kind":"taken","token":1,"host":"host","pid":7,"code":"","clean":true,"program":""}',
        '{"seq":2,"at":1000.0,"kind":"settled","turn":1,"index":0,"outcome":"ok","content":"\\u00e9"}',
        '{"seq":3,"at":1000.0,"kind":"cancelled","reason":"","by":""}',
    ]
    assert [entry.digest for entry in found] == DIGESTS


DIGESTS = [
    "380ec2a2c72e91f159f263ecb5d32ba7ba3f0d7220c61d9234d4e70469034511",
    "21bf7827c00e96dc684eb8c6db4d6662e360a432444069386df4044df76e26c3",
    "933d3f4314bc899b2c777bb41fc7f8bf9e296b56a55ba04437fa8ba3eb871be0",
]

# ---- there and back


def opened(body: Body, seq: int = 1) -> Body:
    return decode(encode(seq, 1.5, body), "", seq).body


@pytest.mark.parametrize("body", EVERY_KIND, ids=[f"{n}-{body.kind}" for n, body in enumerate(EVERY_KIND)])
def test_every_kind_comes_back_as_it_was(body: Body) -> None:
    line = encode(7, 1.5, body)
    assert opened(body, 7) == body
    assert encode(7, 1.5, opened(body, 7)) == line
    assert line.isascii()
    assert "\n" not in line


def test_what_is_left_out_is_written_out() -> None:
    body = Started("t", "anthropic", [], "n")
    assert json.loads(encode(1, 1.0, body)) == {
        "seq": 1, "at": 1.0, "kind": "started", "task": "t", "api": "anthropic", "messages": [], "nonce": "n",
        "system": None, "tools": [], "limits": {"turns": 40, "tokens": None, "seconds": None}, "turns": 0, "tokens": 0,
        "imported": False, "format": 1,
    }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(JSON)
def test_any_json_comes_back_with_its_types(value: Any) -> None:
    found = opened(Settled(1, 0, "ok", value))
    assert isinstance(found, Settled)
    assert repr(found.content) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        "\ud83d",
        "\udc00\ud800",
        10**25,
        -(10**25),
        1.0,
        -0.0,
        1e300,
        5e-324,
        0.1,
        True,
        1,
        None,
        "\x00\u2028",
        {"": None},
    ],
    ids=repr,
)
def test_an_odd_value_survives(value: Any) -> None:
    found = opened(Responded({"value": value}))
    assert isinstance(found, Responded)
    assert repr(found.response) == repr({"value": value})


def test_null_and_absent_are_told_apart() -> None:
    found = opened(Responded({"here": None}))
    assert isinstance(found, Responded)
    assert ("here" in found.response, "there" in found.response) == (True, False)


def test_the_order_of_keys_is_kept() -> None:
    found = opened(Said({"b": 1, "a": 2}))
    assert isinstance(found, Said)
    assert list(found.content) == ["b", "a"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_cannot_hold_is_refused_before_it_is_written(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(1, 1.0, Settled(1, 0, "ok", value))


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_what_is_no_json_is_refused_before_it_is_written(value: Any) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        seal([Said(value)], Head(), 1.0)


# ---- the chain


WHOLE = entries(*EVERY_KIND)


def test_a_whole_chain_has_no_broken_link() -> None:
    assert broken_link(WHOLE) is None
    assert broken_link(WHOLE[5:], head_of(WHOLE[:5])) is None
    assert broken_link([]) is None


def flips() -> Iterator[tuple[int, Entry]]:
    for at, entry in enumerate(WHOLE):
        for place in range(0, len(entry.text), 7):
            for bit in (1, 128):
                flipped = chr(ord(entry.text[place]) ^ bit)
                yield at, replace(entry, text=entry.text[:place] + flipped + entry.text[place + 1 :])


def test_a_flipped_byte_breaks_the_chain_where_it_stands() -> None:
    for at, flipped in flips():
        assert broken_link([*WHOLE[:at], flipped, *WHOLE[at + 1 :]]) == at + 1


def test_an_undecodable_byte_breaks_the_chain_too() -> None:
    torn = replace(WHOLE[2], text=WHOLE[2].text[:-1] + "\udcff")
    assert broken_link([*WHOLE[:2], torn]) == 3


@pytest.mark.parametrize(
    ("found", "broken"),
    [
        ([*WHOLE[:3], *WHOLE[4:]], 4),
        ([WHOLE[1], WHOLE[0]], 1),
        ([*WHOLE[:3], WHOLE[2]], 4),
        ([WHOLE[0], replace(WHOLE[1], digest="0" * 64)], 2),
        (WHOLE[1:], 1),
    ],
)
def test_an_entry_that_is_lost_swapped_or_doubled_breaks_the_chain(found: list[Entry], broken: int) -> None:
    assert broken_link(found) == broken


def rows(found: list[Entry] | tuple[Entry, ...]) -> list[tuple[int, str, str]]:
    return [(entry.seq, entry.text, entry.digest) for entry in found]


def test_stored_rows_are_opened_from_wherever_they_are_read() -> None:
    assert decode_all(rows(WHOLE)) == list(WHOLE)
    assert decode_all(rows(WHOLE[5:]), head_of(WHOLE[:5])) == list(WHOLE[5:])


def test_a_flipped_byte_is_located_and_what_stands_before_it_is_whole() -> None:
    for at, flipped in flips():
        with pytest.raises(
            (Damaged, Newer), match=rf"entry ({at + 1}\b|.* stands where entry {at + 1}\b)|format"
        ) as error:
            decode_all(rows([*WHOLE[:at], flipped, *WHOLE[at + 1 :]]))
        assert not isinstance(error.value, Damaged) or error.value.whole == WHOLE[:at]


def test_a_row_that_is_missing_is_named() -> None:
    with pytest.raises(Damaged, match="entry 4 is missing") as error:
        decode_all(rows([*WHOLE[:3], *WHOLE[4:]]))
    assert error.value.whole == WHOLE[:3]


def test_a_digest_depends_on_all_before_it() -> None:
    assert chain("", "a") != chain("0" * 64, "a")
    assert chain("", "a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"


def test_a_head_is_where_a_journal_ends() -> None:
    assert head_of(WHOLE) == Head(len(WHOLE), WHOLE[-1].digest)
    assert head_of([], Head(3, "x")) == Head(3, "x")
    assert head_of([]) == Head(0, "")


def test_sealing_goes_on_behind_the_head() -> None:
    first = seal([TAKEN], Head(), 1.0)
    second = seal([Cancelled()], head_of(first), 2.0)
    assert (second[0].seq, broken_link([*first, *second])) == (2, None)


def test_an_intent_names_its_effect_only_where_it_is_not_the_recorded_one() -> None:
    plain, other = encode(3, 1.0, Intended(1, 0)), encode(3, 1.0, Intended(1, 0, effect="unsafe"))
    assert plain == '{"seq":3,"at":1.0,"kind":"intended","turn":1,"index":0,"imported":false}'
    assert other == plain.removesuffix("}") + ',"effect":"unsafe"}'
    assert [decode(text, "", 3).body for text in (plain, other)] == [Intended(1, 0), Intended(1, 0, effect="unsafe")]


# ---- what is refused


def line(**fields: Any) -> str:
    return json.dumps({"seq": 3, "at": 1.0, "kind": "said", "content": "x", "by": "", **fields})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "entry 3 is no entry"),
        ("{", "entry 3 is no entry"),
        ('"x"', "entry 3 is no entry"),
        ("[3]", "entry 3 is no entry"),
        ("7", "entry 3 is no entry"),
        ("null", "entry 3 is no entry"),
        ('{"seq":3,"at":1.0}', "entry 3 is no entry (KeyError('kind')); the journal was left as it is"),
        (line(seq=4), "entry 4 stands where entry 3 belongs; the journal was left as it is"),
        (line(seq=None), "entry None stands where entry 3 belongs"),
        (line(kind=["said"]), "entry 3 is no entry (its kind is ['said'])"),
        (line(kind=None), "entry 3 is no entry (its kind is None)"),
        (line(more=1), "entry 3, 'said', has other fields than format 1"),
        (line(kind="taken"), "entry 3, 'taken', has other fields than format 1"),
        (line(kind="extended", content=None), "entry 3, 'extended', has other fields than format 1"),
        ('{"seq":3,"at":1.0,"kind":"extended","limits":null}', "has other fields than format 1"),
        ('{"seq":3,"at":1.0,"kind":"extended","limits":{"hours":1}}', "has other fields than format 1"),
        ('{"seq":3,"at":1.0,"kind":"responded","response":{},"calls":[1]}', "has other fields than format 1"),
        ('{"seq":3,"at":1.0,"kind":"responded","response":{},"calls":[{}]}', "has other fields than format 1"),
        ('{"seq":3,"at":1.0,"kind":"responded","response":{},"calls":[{"terms":{"effect":"x"}}]}', "has other fields"),
        ('{"seq":3,"at":1.0,"kind":"responded","response":{}}', "has other fields than format 1"),
    ],
)
def test_a_line_that_is_no_entry_is_damage(text: str, found: str) -> None:
    with pytest.raises(Damaged) as refused:
        decode(text, "", 3)
    assert found in str(refused.value)


def test_every_cut_of_a_line_is_damage() -> None:
    whole = encode(3, 1.0, asks("u"))
    for length in range(len(whole)):
        with pytest.raises(Damaged):
            decode(whole[:length], "", 3)


def test_a_newer_format_is_named() -> None:
    newer = encode(1, 1.0, Started("t", "anthropic", [], "n", format=2))
    with pytest.raises(Newer) as refused:
        decode(newer, "", 1)
    assert str(refused.value) == "the journal is format 2, this code reads format 1: use a newer midstride"


def test_a_newer_kind_is_named() -> None:
    with pytest.raises(Newer) as refused:
        decode(line(kind="dreamt"), "", 3)
    assert str(refused.value) == "entry 3 is of kind 'dreamt', which format 1 does not know: use a newer midstride"


def test_a_format_is_only_a_format_where_a_run_starts() -> None:
    with pytest.raises(Damaged):
        decode(line(format=2), "", 3)


def test_others_may_append_these_kinds_and_no_more() -> None:
    assert sorted(OUTSIDE) == ["cancelled", "decided", "extended", "said"]
    assert set(KINDS) > OUTSIDE


def test_a_journal_folds_the_same_when_it_was_stored() -> None:
    stored = [decode(entry.text, entry.digest, entry.seq) for entry in WHOLE]
    assert fold(stored) == fold(WHOLE)
