"""One planted fault: a piece of the source and what it is replaced by, and the tests that must fail then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


class DoesNotFit(Exception):
    """The text to be replaced is not there exactly once any more: plant the fault anew."""


@dataclass(frozen=True)
class Fault:
    """*name* says what is so once it is planted; *old* stands exactly once in *file*, and becomes *new*.

    *tests* is what pytest is given: files, node ids, `-k` and its expression.
    """

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self) -> str:
        """Return the file's text with the fault in it; raises DoesNotFit."""
        text = (SOURCE / "midstride" / self.file).read_text("utf-8")
        if text.count(self.old) != 1:
            raise DoesNotFit(
                f"{self.name!r} wants a piece of src/midstride/{self.file} that stands there {text.count(self.old)} "
                f"times, not once: somebody has rewritten it, so plant the fault anew. The piece:\n{self.old}"
            )
        return text.replace(self.old, self.new)
