"""Bytes that are no text, and text that means something to a terminal, a store or a reader of lines."""

from __future__ import annotations

import json

import pytest

from midstride import Document, tool
from midstride.testing import Answer, calls
from midstride.visible import visible

AWKWARD = {
    "169-invalid-utf8-output": (bytes.fromhex("fffe80410a"), "\ufffd\ufffd\ufffdA\n\n[3 bytes were not UTF-8 and"),
    "170-nul": ("a\u0000b", "a\ufffdb"),
    "172-terminal-escapes": ("\u001b[31mred\u001b[0m\u2028next\rback", "\u001b[31mred\u001b[0m\u2028next\rback"),
    "half of a pair": ("a\ud83d", "a\ufffd"),
    "every control": ("".join(map(chr, range(1, 32))) + "x\x7f\x85\u2029\ufeff", "\x01\x02"),
    "a long line": ("x" * 90_000 + "\u2028", "xxx"),
}


SHAPES = {
    "plain": lambda value: value,
    "in a dict": lambda value: {"out": value},
    "document": lambda value: Document(value, "text/plain"),
}


@pytest.mark.parametrize("effect", ["read_only", "unsafe"])
@pytest.mark.parametrize("awkward", AWKWARD)
def test_case(awkward, effect, stage):
    """What the tool printed is no good text: the effect is done, its result is valid and stored, the run goes on."""
    value, shown = AWKWARD[awkward]
    ran = []

    @(tool.read_only if effect == "read_only" else tool)
    def bash(shape: str):
        ran.append(shape)
        if shape == "raised":
            raise ValueError(value)
        return SHAPES[shape](value)

    stage.says(calls(*[("bash", {"shape": shape}) for shape in (*SHAPES, "raised")]), Answer("Done."))
    assert stage.run(bash).status == "done"
    assert sorted(ran) == sorted([*SHAPES, "raised"])
    stored = [entry.text for entry in stage.store.read("run")]
    assert all(line.isascii() and len(line.splitlines()) == 1 for line in stored)
    assert [json.loads(line)["seq"] for line in stored] == list(range(1, len(stored) + 1))
    texts = [c[0]["source"]["data"] if isinstance(c, list) else c for c, _ in stage.results]
    assert (len(texts), texts[0].startswith(shown)) == (4, True)
    for text in texts:
        text.encode()  # no half of a pair
        assert "\x00" not in text
        assert "\x1b" not in visible(text)
    assert len(stage.entries("settled")) == 4
