"""For users' tests: death at every point of a program, a model server on loopback, store conformance, a set clock."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midstride.testing.clock import SettableClock
    from midstride.testing.conformance import store_conformance
    from midstride.testing.crash import Crashed, CrashFailure, CrashPlan, CrashReport, Scene, crash_everywhere
    from midstride.testing.fake_model import (
        Answer,
        Cut,
        Fail,
        FakeModel,
        Hold,
        Refuse,
        Slow,
        StreamError,
        Truncate,
        calls,
    )
    from midstride.testing.fuse import Killed
    from midstride.testing.fuse_process import Process

__all__ = [
    "Answer",
    "CrashFailure",
    "CrashPlan",
    "CrashReport",
    "Crashed",
    "Cut",
    "Fail",
    "FakeModel",
    "Hold",
    "Killed",
    "Process",
    "Refuse",
    "Scene",
    "SettableClock",
    "Slow",
    "StreamError",
    "Truncate",
    "calls",
    "crash_everywhere",
    "store_conformance",
]

_PLACES = {
    "SettableClock": "clock",
    "store_conformance": "conformance",
    "Killed": "fuse",
    "Process": "fuse_process",
    **dict.fromkeys(("CrashFailure", "CrashPlan", "CrashReport", "Crashed", "Scene", "crash_everywhere"), "crash"),
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: `python -m midstride.testing.fake_model` must not find itself imported already.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES.get(name, 'fake_model')}"), name)
