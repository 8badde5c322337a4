"""What a user of the tools writes under `mypy --strict`: it is checked by test_typing, and never run."""

import sqlite3
from datetime import timedelta
from typing import Any, assert_type

from midstride.tools import Accepted, CannotTell, Context, DidNotHappen, Happened, Pending, Tool, Toolbox, tool


@tool
def plain(to: str) -> int:
    return len(to)


@tool(name="mail", timeout=timedelta(seconds=3), in_doubt="ask", key=lambda to: to)
def with_options(to: str, *, loud: bool = False) -> None: ...


@tool(approval=True)
def wipe(path: str) -> None: ...


@tool.read_only
async def read(path: str) -> bytes:
    return path.encode()


@tool.read_only(timeout=3)
def read_soon(path: str) -> str:
    return path


@tool.idempotent(key_life=timedelta(hours=24))
def charge(cents: int, context: Context) -> str:
    assert_type(context.attempt, int)
    return context.key


@tool.transactional
def book(seat: str, context: Context[sqlite3.Connection]) -> str:
    assert_type(context.transaction, sqlite3.Connection)
    return seat


@tool.transactional(key=lambda seat: seat)
def book_once(seat: str, context: Context[sqlite3.Connection]) -> str:
    return seat


@tool.verifiable(timeout=30)
def open_issue(title: str, context: Context) -> int:
    return 1


@open_issue.verify
async def find(title: str, context: Context) -> Happened | DidNotHappen | CannotTell:
    return CannotTell("not indexed yet")


@tool.verifiable(timeout=30, settle=1)
def close_issue(title: str) -> int:
    return 1


@close_issue.verify
def find_closed(title: str) -> Happened:
    return Happened(title)


@plain.poll
async def stands(handle: str, context: Context) -> Happened | Pending:
    return Pending(after=5)


@tool
def hand_over(film: str, context: Context) -> Accepted:
    return context.accepted(film)


@hand_over.poll
def stands_too(handle: str) -> Pending:
    return Pending(after=timedelta(hours=1))


async def use() -> None:
    assert_type(await stands("job", Context("", "", "", 1, 0)), Happened | Pending)
    assert_type(await read("a"), bytes)
    assert_type(await find("a", Context("", "", "", 1, 0)), Happened | DidNotHappen | CannotTell)


assert_type(plain("a"), int)
assert_type(read_soon("a"), str)
assert_type(find_closed("a"), Happened)
book_once("a", Context("", "", "", 1, 0).within(sqlite3.connect(":memory:")))
tools: list[Tool[..., Any]] = [plain, with_options, charge]
assert_type(Toolbox([plain, with_options, read, charge, book, open_issue]).names, tuple[str, ...])

# What must not pass; an ignore that is not needed is an error of its own.
plain(3)  # type: ignore[arg-type]
with_options("a", quiet=True)  # type: ignore[call-arg]
tool.read_only(key=lambda to: to)  # type: ignore[call-overload]
tool(approval="ann")  # type: ignore[call-overload]
tool(in_doubt="shrug")  # type: ignore[call-overload]
tool.idempotent()  # type: ignore[call-arg]
tool.verifiable(settle=3)  # type: ignore[call-arg]


@tool.verifiable  # type: ignore[arg-type, call-arg]
def bare(title: str) -> int:
    return 1


@close_issue.poll  # type: ignore[type-var]
def wrong_too(handle: str) -> bool:
    return True


@close_issue.verify  # type: ignore[type-var]
def wrong(title: str) -> bool:
    return True


Toolbox([find_closed])  # type: ignore[list-item]
