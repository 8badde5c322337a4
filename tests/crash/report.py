"""How many points of each kind of fault the suites went through: rows for a table, in a file that `CRASH_REPORT` names.

A row is `{"fault": ..., "how": ..., "points": N, "holds": N}`. Suites append rows while they run, from any number of
processes; `rows` adds up those of one fault and way. `python tests/crash/report.py FILE` prints them as one JSON list.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "CRASH_REPORT"

LONG = os.environ.get("MIDSTRIDE_CRASH") == "long"
"""Whether the long set is wanted: `make crash`; else a sample of it is tried."""


def record(fault: str, how: str, points: int, holds: int) -> None:
    """Add a row, when a report is wanted."""
    path = os.environ.get(VARIABLE)
    if path:
        line = json.dumps({"fault": fault, "how": how, "points": points, "holds": holds})
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{line}\n".encode())  # in one write, so that rows of other processes do not mix
        finally:
            os.close(descriptor)


@contextmanager
def recorded(fault: str, how: str, points: int = 1) -> Iterator[None]:
    """Add a row for the block: its points hold unless it raises."""
    try:
        yield
    except BaseException:
        record(fault, how, points, 0)
        raise
    record(fault, how, points, points)


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a report, one for each fault and way, sorted."""
    sums: dict[tuple[str, str], list[int]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        points, holds = sums.get((row["fault"], row["how"]), (0, 0))
        sums[row["fault"], row["how"]] = [points + row["points"], holds + row["holds"]]
    return [
        {"fault": fault, "how": how, "points": points, "holds": holds}
        for (fault, how), (points, holds) in sorted(sums.items())
    ]


if __name__ == "__main__":
    print(json.dumps(rows(Path(sys.argv[1])), indent=2))
