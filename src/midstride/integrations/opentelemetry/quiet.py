"""Telemetry that fails must not fail a run: what a provider, a processor or an exporter raises ends here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("midstride")


class Quiet:
    """Calls a function and returns what it returns, or None when it raises; the first time that is logged."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call *function*; an interrupt is none of our business, and goes on."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self._say(error)
            return None

    def _say(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            where = _where(error)
            log.warning("telemetry raised %s%s; spans may be missing, the runs go on", type(error).__name__, where)


def _where(error: Any) -> str:
    """Return the place it came from; what the error says may be anything, and is not for the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
