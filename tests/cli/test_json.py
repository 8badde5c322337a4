"""docs/json.md is true: every example is what the command prints, every field is in its table."""

import json
import re
from dataclasses import replace
from typing import get_args

import pytest

from cli.using import User
from docs.blocks import ROOT, blocks_of, code_in, table_under
from midstride.cli import story
from midstride.core.journal import Asked, Recorded, Requested, Responded, Settled
from midstride.core.moves import Collect, Fetch, Move, Request, Rest
from midstride.core.reconcile import CallMove, Execute, Later, Look, Poll, Wait, Write
from midstride.core.run import Call, CallState

PAGE = "docs/json.md"
TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What every shell block of the page prints, in order, beside what the page says."""
    folder = tmp_path_factory.mktemp("notes")
    reader, examples, last = User(folder), [], None
    for block in blocks_of(PAGE):
        if block.title:
            (folder / block.title).write_text(block.text)
        elif block.language == "sh":
            last = reader.shell(f"{block.text}\n").out
        elif block.language in ("json", "text"):
            examples.append((block, settled(last, folder), settled(block.text, "/srv/notes")))
    return examples


def settled(text, folder):
    """Return *text* with what differs from run to run made the same."""
    text = re.sub(TIME, "(a time)", text.replace(str(folder), "(a folder)"))
    return re.sub(r'"(seconds|size|before|after|freed)": [\d.]+', r'"\1": 0', text).strip()


def test_every_example_is_what_the_command_prints(printed):
    assert [(block.line, found) for block, found, _ in printed] == [(block.line, told) for block, _, told in printed]
    assert len(printed) == 13


def test_every_example_is_ascii_and_json(printed):
    for block, found, _ in printed:
        assert found.isascii()
        assert block.language == "text" or json.loads(found)


def fields_of(heading):
    return [code_in(row[0])[0] for row in table_under(PAGE, heading)]


def test_the_table_of_a_run_has_its_fields(printed):
    assert fields_of("## A run") == list(story.NAMES)
    (rows,) = [json.loads(found) for block, found, _ in printed if '"program"' in block.text][:1]
    assert list(rows[0]) == list(story.NAMES)


def test_the_table_of_a_call_has_its_fields():
    assert fields_of("## A call") == list(story.call_facts(CALL))


def test_the_table_of_a_checked_transcript_has_its_fields(printed, tmp_path):
    (checked,) = [json.loads(found) for block, found, _ in printed if '"form"' in block.text]
    (tmp_path / "m.json").write_text(json.dumps([{"role": "user", "content": []}]))
    repaired = json.loads(User(tmp_path).do("repair", "m.json", "-o", "n.json", "--json").out)
    told = fields_of("## A checked transcript")
    assert (told, told[: len(checked)]) == (sorted({*checked, *repaired}, key=told.index), list(checked))
    row = next(row[1] for row in table_under(PAGE, "## A checked transcript") if "`findings`" in row[0])
    assert [name for name in checked["findings"][0] if f"`{name}`" not in row] == []


CALL = Call(1, 0, "c", "send", {}, Recorded())
MOVES = [
    Request("why"),
    Fetch("why"),
    Rest("done", "why"),
    Collect("why"),
    Execute(CALL, True, "why"),
    Execute(replace(CALL, attempts=1), True, "why"),
    Look(CALL, "why"),
    Later(CALL, 1_700_000_000.25, "why"),
    Poll(CALL, "why"),
    Wait(CALL, "accepted", "why", 1_700_000_000.25),
    Wait(CALL, "asking doubt", "why"),
    Write((Asked(1, 0, "doubt"),), "why"),
    Write((Asked(1, 0, "approval"),), "why"),
    Write((Settled(1, 0, "OUTCOME", "text"),), "why"),
    Write((Requested(), Responded({"calls": []})), "why"),
]


def test_the_table_of_moves_has_every_name():
    assert fields_of("## What a resume would do") == [story.named(move)[0] for move in MOVES]
    assert {type(move) for move in MOVES} == set(get_args(Move)) | set(get_args(CallMove))


def test_every_state_of_a_call_is_named():
    text = " ".join((ROOT / PAGE).read_text().split())
    row = re.search(r"\| `state` \| (.*?) \|", text)[1]
    assert set(re.split(r", or |, ", row)) == {*map(str, CallState), "running"}


def test_times_are_iso_8601_and_a_time_that_no_calendar_has_is_no_error():
    assert story.iso(1_700_000_000.25) == "2023-11-14T22:13:20.250Z"
    assert story.iso(None) is None
    assert story.iso(1e13).endswith("UTC")
