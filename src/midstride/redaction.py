"""Patterns of the user's own: `redact` in a program, the file that MIDSTRIDE_REDACT names everywhere.

Both count in the whole process, since whatever midstride says there goes to the same people: spans, errors, commands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from midstride.errors import DeclarationError
from midstride.hidden import Pattern, look_for, redacted

__all__ = ["VARIABLE", "redact", "redacted", "use_environment"]

VARIABLE = "MIDSTRIDE_REDACT"

LINE = "name = regular expression"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,60}")


class _Known:
    """The program's patterns, and those of the file that was read."""

    declared: tuple[Pattern, ...] = ()
    path = ""
    of_file: tuple[Pattern, ...] = ()


def redact(name: str, pattern: str | re.Pattern[str]) -> None:
    """Show `[redacted: NAME]` in this process wherever *pattern* matches, besides what is looked for by itself.

    The whole match is hidden, or what the pattern calls `(?P<secret>...)`. Keep it linear, without a repetition in a
    repetition: texts may be long. Raises DeclarationError for what is no name or no regular expression.
    """
    _Known.declared = (*_Known.declared, _pattern(name, pattern))
    _use()


def use_environment() -> None:
    """Use the patterns in the file that MIDSTRIDE_REDACT names; DeclarationError says which line is wrong."""
    path = os.environ.get(VARIABLE, "")
    if path != _Known.path:
        _Known.of_file = tuple(_of_file(Path(path))) if path else ()
        _Known.path = path
        _use()


def _use() -> None:
    look_for((*_Known.of_file, *_Known.declared))


def _of_file(path: Path) -> Iterator[Pattern]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise DeclarationError(
            f"{VARIABLE} names {path}, which cannot be read ({why}): give a file with `{LINE}` on each line"
        ) from None
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, is_one, expression = line.partition("=")
            place = f"{path}, line {number}: "
            if not is_one:
                raise DeclarationError(f"{place}there is no `=` in it: wanted `{LINE}`")
            yield _pattern(name.strip(), expression.strip(), place)


def _pattern(name: str, expression: str | re.Pattern[str], place: str = "") -> Pattern:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(f"{place}{name!r} is no name for a pattern: wanted a few letters, such as `ticket`")
    try:
        compiled = re.compile(expression)
        matched = compiled.search("")
    except (re.error, TypeError) as error:
        raise DeclarationError(f"{place}the pattern {name!r} is no regular expression for texts: {error}") from None
    if matched:
        raise DeclarationError(f"{place}the pattern {name!r} matches an empty text, so it would match everywhere")
    return Pattern(name, compiled)
