"""Several calls of one answer: one that raises, an order that matters, results that come in another order."""

from __future__ import annotations

import asyncio
import threading

import pytest

from midstride import Context, tool
from midstride.testing import Answer, calls


@pytest.mark.parametrize("error", [ValueError("no such row"), asyncio.CancelledError(), TimeoutError()], ids=repr)
@pytest.mark.parametrize("coroutine", [False, True], ids=["plain", "coroutine"])
def test_case_212_one_raises_all_cancelled(coroutine, error, stage):
    """A look-up failed beside a charge that was under way: the charge comes to its end, and that is recorded."""
    begun, failed, charged = threading.Event(), threading.Event(), []
    if isinstance(error, asyncio.CancelledError) and not coroutine:
        error = RuntimeError("cancelled")  # in a thread nobody cancels

    def finish(cents):
        charged.append(cents)
        return f"charged {cents}"

    def fail():
        failed.set()
        raise error

    if coroutine:

        @tool
        async def charge(cents: int) -> str:
            begun.set()
            while not failed.is_set():
                await asyncio.sleep(0)
            return finish(cents)

        @tool.read_only
        async def lookup(row: int) -> str:
            while not begun.is_set():
                await asyncio.sleep(0)
            fail()

    else:

        @tool
        def charge(cents: int) -> str:
            begun.set()
            assert failed.wait(60)
            return finish(cents)

        @tool.read_only
        def lookup(row: int) -> str:
            assert begun.wait(60)
            fail()

    stage.says(calls(("charge", {"cents": 5}), ("lookup", {"row": 7})), Answer("Done."))
    if isinstance(error, asyncio.CancelledError) and stage.way == "blocking":
        with pytest.raises(asyncio.CancelledError):  # no Exception: a crash of the program, like any other
            stage.run(charge, lookup)
        lookup = tool.read_only(name="lookup")(lambda_of_row)
    assert stage.run(charge, lookup).status == "done"
    (first, (second, is_error)) = stage.results
    assert (first, charged) == (("charged 5", False), [5])
    assert is_error == (second != "row 7")


def lambda_of_row(row: int) -> str:
    return f"row {row}"


def test_case_213_order_matters(stage):
    """A move and a delete of one answer: one after the other, and behind one that failed nothing is begun."""
    files, inside, most = {"x"}, [], []

    def enter(name):
        inside.append(name)
        most.append(len(inside))

    @tool
    def move(a: str, b: str) -> str:
        enter("move")
        try:
            files.remove(a)
            files.add(b)
            return "moved"
        finally:
            inside.pop()

    @tool
    def delete(a: str) -> str:
        enter("delete")
        try:
            files.remove(a)
            return "deleted"
        finally:
            inside.pop()

    move_x, delete_x, delete_y = ("move", {"a": "x", "b": "y"}), ("delete", {"a": "x"}), ("delete", {"a": "y"})
    stage.says(calls(move_x, delete_x, delete_y), Answer("Done."))
    assert stage.run(move, delete).status == "done"
    assert [content.split(":")[0] for content, _ in stage.results] == ["moved", "Outcome unknown", "Not started"]
    assert (files, set(most)) == ({"y"}, {1})


@pytest.mark.parametrize("effect", ["read_only", "unsafe"])
@pytest.mark.parametrize("ids", ["given", "alike"])
def test_case_214_results_paired_by_name(effect, ids, stage):
    """Three calls of one tool, the first ends last: each has its own result, in the order of the calls."""
    others = threading.Semaphore(0)

    @(tool.read_only if effect == "read_only" else tool)
    def bash(c: str, context: Context) -> str:
        if effect == "read_only" and context.index == 0:
            assert others.acquire(timeout=60)
            assert others.acquire(timeout=60)
        others.release()
        return f"{c} of {context.turn}/{context.index}"

    commands = [("bash", {"c": c}) for c in "ABC"]
    twice = [calls(*commands), calls(*commands)]
    if ids == "alike":  # a server that counts its ids anew in each answer
        for answer in twice:
            for number, block in enumerate(answer.content):
                block["id"] = f"call_{number}"
    stage.says(*twice[:1], Answer("Done."))
    stage.run(bash)
    answered = {block["tool_use_id"]: block["content"] for block in stage.blocks("tool_result")}
    asked = {block["id"]: block["input"]["c"] for block in stage.blocks("tool_use")}
    assert list(answered) == list(asked)
    assert [(asked[id][0], text) for id, text in answered.items()] == [
        ("A", "A of 1/0"), ("B", "B of 1/1"), ("C", "C of 1/2"),
    ]  # fmt: skip
