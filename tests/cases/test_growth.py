"""Runs that grow: many turns, and results that are larger than a request."""

from __future__ import annotations

import hashlib
import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from cases.stage import forked
from midstride import Run, tool
from midstride.core.journal import Limits
from midstride.stores import MemoryStore, open_store
from midstride.testing import Answer, calls

TURNS, SIZE = 400, 20_000


def written(url):
    """Run the turns in this process; check what it gave to the kernel to write, and what is on disk."""

    @tool.read_only
    def look(n: int) -> str:
        return f"{n} ".ljust(SIZE // 2, "x")

    def bytes_written():
        return int(re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text())[1])

    folder = Path(url.partition(":")[2]).parent
    marks = []
    with closing(open_store(url)) as store, Run(store, "run", "go", tools=[look], limits=Limits(turns=None)) as run:
        for number, turn in enumerate(run):
            if number % (TURNS // 4) == 0:
                marks.append(bytes_written())
            use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"n": number}}
            thinks = {"type": "text", "text": "y" * (SIZE // 2)}
            ends = number == TURNS
            blocks, stop = ([thinks], "end_turn") if ends else ([thinks, use], "tool_use")
            turn.respond({"role": "assistant", "content": blocks, "stop_reason": stop})
        records = sum(len(entry.text) for entry in store.read("run"))
        assert records > TURNS * SIZE
    # Entries of 10 kB are the worst for pages of 16 KiB: one on each.
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1.7 * records
    quarters = [later - sooner for sooner, later in pairwise(marks)]
    assert (len(quarters), max(quarters) < 1.1 * min(quarters)) == (4, True), quarters


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_case_245_quadratic_history(url):
    """400 turns of 20 kB: the last hundred cost what the first hundred did, and on disk is little but records."""
    assert forked(lambda: written(url)) == 0


WHOLE = {
    "a text": "x" * 50_000_000,
    "text of more bytes": "\u00e9" * 500_000,
    "bytes": b"x" * 500_000,
    "a dict": {"out": "x" * 2_000_000, "err": "y" * 500_000, "code": 0},
    "a list": ["x" * 60_000, "y" * 60_000, 7],
    "blocks": [{"type": "text", "text": "x" * 70_000}, {"type": "text", "text": "y" * 70_000}],
}


@pytest.mark.parametrize(
    ("shape", "url", "stage"),
    [*((shape, "sqlite", "blocking") for shape in WHOLE), ("bytes", "checkpoint", "async")],
    indirect=["url", "stage"],
)
def test_case_246_one_huge_output(shape, url, stage):
    """A tool gave 50 MB: the model is shown head and tail, all of it is kept, and every later request is small."""

    @tool.read_only
    def read_file(path: str):
        return WHOLE[shape]

    stage.says(calls(("read_file", {"path": "a"})), calls(("read_file", {"path": "a"})), Answer("Done."))
    assert stage.run(read_file).status == "done"
    assert len(stage.server.bodies[-1].decode()) < 3 * 110_000
    assert sum(len(entry.text) for entry in stage.store.read("run")) < 3 * 6 * 110_000  # \u00e9 is six characters there
    for content, is_error in stage.results:
        text = content if isinstance(content, str) else "".join(block["text"] for block in content)
        (place,) = re.findall(r"\[The whole, [\d,]+ bytes, is kept in (\S+)\]$", text)
        kept = Path(place).read_bytes()
        assert (is_error, len(text) < 101_000, "characters were cut here" in text) == (False, True, True)
    assert list(Path(place).parent.iterdir()) == [Path(place)]  # the same twice is kept once
    assert Path(place).stat().st_mode & 0o777 == 0o600
    for part in ("x" * 60_000, "y" * 60_000):
        assert shape in ("a text", "text of more bytes", "bytes") or part.encode() in kept
    if shape in ("a text", "text of more bytes", "bytes"):
        whole = WHOLE[shape] if isinstance(WHOLE[shape], bytes) else WHOLE[shape].encode()
        assert hashlib.sha256(kept).digest() == hashlib.sha256(whole).digest()


def test_case_169_the_bytes_that_were_no_text_are_kept(stage):
    """Undecodable output is shown with marks in it; the bytes themselves are kept, and the result says where."""

    @tool
    def bash(command: str) -> bytes:
        return bytes.fromhex("fffe80410a")

    stage.says(calls(("bash", {"command": "cat x"})), Answer("Done."))
    stage.run(bash)
    ((content, _),) = stage.results
    (place,) = re.findall(r"\[The whole, 5 bytes, is kept in (\S+)\]$", content)
    assert Path(place).read_bytes() == bytes.fromhex("fffe80410a")


def test_case_246_what_cannot_be_kept_costs_no_result(stage, folder):
    """The place for whole results cannot be made: the effect is done, and its result is recorded, cut as it is."""
    done = []

    @tool
    def dump(table: str) -> str:
        done.append(table)
        return "x" * 300_000

    for name in ("runs.db.results", "checkpoint.json.results"):
        (folder / name).touch()  # a file where the folder would be
    stage.says(calls(("dump", {"table": "a"})), Answer("Done."))
    assert (stage.run(dump).status, done) == ("done", ["a"])
    ((content, is_error),) = stage.results
    assert ("characters were cut here" in content, "is kept in" in content, is_error) == (True, False, False)


def test_case_246_a_store_that_keeps_nothing_shows_what_it_can(stage):
    """A store without a place for files: the result is cut and says so, as before."""

    @tool.read_only
    def look(at: str) -> str:
        return "x" * 300_000

    real, stage.store = stage.store, MemoryStore()
    stage.says(calls(("look", {"at": "a"})), Answer("Done."))
    assert stage.run(look).status == "done"
    ((content, _),) = stage.results
    assert (len(content) <= 100_000, "is kept in" in content) == (True, False)
    assert real.runs() == []
