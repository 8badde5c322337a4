"""LLM agent runs that are killed anywhere and carry on. The public names, nothing else.

A name's module is imported when the name is first used: a program that only declares tools does not load the drivers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midstride import models
    from midstride.agent import Agent
    from midstride.core.cost import Prices
    from midstride.core.journal import Limits
    from midstride.drive import AsyncRun, Result, Run, Runs
    from midstride.errors import Denied, InDoubt, MidstrideError
    from midstride.ledger import Ledger
    from midstride.redaction import redact, redacted
    from midstride.tools import (
        Accepted,
        CannotTell,
        Context,
        DidNotHappen,
        Document,
        Happened,
        Image,
        Pending,
        mcp_tools,
        tool,
    )

__all__ = [
    "Accepted",
    "Agent",
    "AsyncRun",
    "CannotTell",
    "Context",
    "Denied",
    "DidNotHappen",
    "Document",
    "Happened",
    "Image",
    "InDoubt",
    "Ledger",
    "Limits",
    "MidstrideError",
    "Pending",
    "Prices",
    "Result",
    "Run",
    "Runs",
    "mcp_tools",
    "models",
    "redact",
    "redacted",
    "tool",
]

_PLACES = {
    "midstride.agent": ("Agent",),
    "midstride.core.cost": ("Prices",),
    "midstride.core.journal": ("Limits",),
    "midstride.drive": ("AsyncRun", "Result", "Run", "Runs"),
    "midstride.errors": ("Denied", "InDoubt", "MidstrideError"),
    "midstride.ledger": ("Ledger",),
    "midstride.redaction": ("redact", "redacted"),
    "midstride.tools": (
        "Accepted",
        "CannotTell",
        "Context",
        "DidNotHappen",
        "Document",
        "Happened",
        "Image",
        "Pending",
        "mcp_tools",
        "tool",
    ),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "models":
        return importlib.import_module("midstride.models")
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'midstride' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
