"""Text from models and tools, made visible: an escape or a bidi control in it is shown, never executed.

Terminals act on control characters, and bidi controls reorder what a person reads (CVE-2021-42574), so a name or an
argument could look like another one. Characters that show nothing at all could hide words from a person.
"""

from __future__ import annotations

import json
import re
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"  # bidi controls, and line ends that are none to a terminal
    "\u200b\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # what shows nothing (joiners shape letters: let be)
    "\ud800-\udfff]"
)


def visible(text: Any) -> str:
    """Return *text* with every control that a terminal could act on written out, such as \\x1b or \\u202e."""
    return _UNSAFE.sub(_written_out, str(text))


def word(text: Any) -> str:
    """Return *text*, a name or an id, so that it stays on its line: tabs and line feeds are written out too."""
    return visible(text).replace("\t", "\\t").replace("\n", "\\n")


def one_line(text: Any, width: int) -> str:
    """Return *text* on one line of at most *width* characters."""
    line = " ".join(visible(str(text)[: 4 * width]).split())
    return line if len(line) <= width and len(str(text)) <= 4 * width else line[: max(1, width - 3)] + "..."


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON that a person can read."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
