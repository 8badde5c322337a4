"""Draw the table of faults from the report of a run of the crash tests: `python scripts/draw_faults.py REPORT PAGE`.

REPORT is what `CRASH_REPORT=REPORT pytest ...` leaves; `make crash` does both, and `make faults` puts the page into the
docs. A fault that has no words here, and words that have no fault in the report, are errors.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from crash.report import rows

RIGHT = (
    "effects as often as promised, one result per call, requests that extend one another byte for byte, counters that "
    "never fall; the answer is the unkilled run's, or says what nobody knows"
)
SAME = "the same"


class Kind(NamedTuple):
    """A kind of fault: what the report calls it, how it is made to happen, and what holds behind it."""

    name: str
    how: str
    holds: str


GROUPS = {
    "A process dies": [
        Kind(
            "a process dies: append",
            "in one process, by a fuse: each effect, mixed batches, each driver and store",
            RIGHT,
        ),
        Kind("a process dies: commit", "by a fuse, around a transaction's commit", SAME),
        Kind("a process dies: tool", "by a fuse, before and behind a tool's own code", SAME),
        Kind("a process dies: verify", "by a fuse, around a look at what came of a call", SAME),
        Kind("a process dies: poll", "by a fuse, around a question how accepted work stands", SAME),
        Kind("a process dies: ask", "by a fuse, around a request to the model", SAME),
        Kind("a process dies: take", "by a fuse, around taking the run up", SAME),
        Kind("a process dies: wait", "by a fuse, while it waits for a time", SAME),
        Kind("a process dies: release", "by a fuse, before it gives the run back", SAME),
        Kind("a process is killed", "SIGKILL in a real process at every moment it passes", SAME),
        Kind("a process is killed, and the next one too", "SIGKILL, and again while it recovers", SAME),
        Kind("a process is killed, three times", "SIGKILL at random moments of a mixed batch, seeded", SAME),
        Kind(
            "a process is killed before a system call",
            "strace, before each write, sync, rename, link, lock and open of the run's files",
            SAME,
        ),
    ],
    "A system call fails": [
        *(
            Kind(
                f"a system call fails: {error}",
                "strace, each call on the run's files answered so once",
                "it fails closed and says why: no effect without its intent, nothing damaged, resumed to the right end",
            )
            for error in ("EIO", "ENOSPC", "EINTR", "EROFS", "EDQUOT")
        ),
        Kind("a file may not grow further", "RLIMIT_FSIZE at each size: short writes, then EFBIG", SAME),
    ],
    "The power is cut": [
        Kind(
            "the power is cut",
            "every prefix of the recorded writes, what is not synced dropped, whole or torn, names reordered",
            "every entry that was acknowledged is there, and nothing that was never written",
        ),
        Kind("the power is cut again while the run is carried on", "the same, of the process that carries on", SAME),
        Kind("the power is cut, and the run carried on", "real processes on rebuilt disks", RIGHT),
        Kind(
            "a sync is missing, on purpose",
            "a sync left out or misplaced in a copy of the source",
            "the check finds the loss",
        ),
    ],
    "Several processes": [
        Kind(
            "twenty carry one run on at once",
            "real processes; then their driver is killed",
            "one drives, the others name it",
        ),
        Kind(
            "a process of many runs is killed",
            "12 runs in one process that commit together, killed at any acknowledgement",
            "what was acknowledged is there, each run ends as if alone",
        ),
        Kind(
            "a disk fails a process of many runs",
            "the same, and a write or sync of a common commit fails",
            "nobody is told of success, nothing that was acknowledged is lost",
        ),
        Kind("stopped, and ended by a take-over", "SIGSTOP at each moment, `--take-over`", RIGHT),
        Kind(
            "stopped, its lock lost, woken behind another",
            "SIGSTOP, the lock dropped, SIGCONT when another has driven the run",
            "it is fenced out: nothing of it is written, started or sent any more",
        ),
        Kind("stopped in a transaction", "SIGSTOP with the database locked", "others are told, nothing is lost"),
        Kind(
            "a forked child goes on as the driver",
            "fork at each append, the parent killed",
            "the child starts nothing, and writes at most the append that it was forked in",
        ),
        Kind("a child outlives its killed parent", "fork, multiprocessing, subprocess", "the run is free at once"),
        Kind(
            "a thread outlives its run",
            "a tool beyond its timeout",
            "the run is held while it acts, its late result told",
        ),
        Kind("a pid belongs to another process", "a record that names a stranger", "no pid in a record is believed"),
        Kind("two holders, each in every order", "lease, append, release, take over: all states", "one token writes"),
        Kind("others write meanwhile", "say, decide and cancel at each moment", RIGHT),
        Kind("Ctrl-C or SIGTERM", "real processes and notebooks", RIGHT),
    ],
    "Files": [
        Kind(
            "a file is cut at a byte, and used", "checkpoint.json and the database", "refused, located, left as it is"
        ),
        Kind(
            "a bit is flipped, and the file used",
            "checkpoint.json and the database",
            "refused, or nothing that counts changed",
        ),
    ],
    "Again and again": [
        Kind(
            "something ends its process every time",
            "a read, an effect, a transaction, a verify, a request",
            "tried as often as the tables say, then held or unknown; counters go on",
        ),
        Kind(
            "a failure that others had, by its steps", "58 scenarios from public reports", "what each of them demands"
        ),
    ],
    "The tests themselves": [
        Kind(
            "a fault is planted in the source",
            "one changed line at a time",
            "the named tests fail, and pass without it",
        ),
    ],
}

HEAD = """# What is tried, and what holds

Each number is counted by the run that drew this page, {when} on {where}.
A *point* is a place where something was made to go wrong, and everything behind it was judged. `make faults` tries them
all and draws the page again; `make test` tries a sample. The judgement, and death at every point, are in
`midstride.testing`, for [your own agents and stores](testing.md) too.

{total} points, {failed}.
"""


def drawn(report: Path) -> str:
    """Return the page."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows(report):
        counts[row["fault"]][0] += row["points"]
        counts[row["fault"]][1] += row["holds"]
    known = {kind.name for kinds in GROUPS.values() for kind in kinds}
    if known != set(counts):
        sys.exit(f"no words for {sorted(set(counts) - known)}, and no counts of {sorted(known - set(counts))}")
    total, held = (sum(count[at] for count in counts.values()) for at in (0, 1))
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    failed = "and all of them held" if held == total else f"and {total - held} of them FAILED"
    parts = [HEAD.format(when=datetime.now(UTC).date(), where=where, total=f"{total:,}", failed=failed)]
    for title, kinds in GROUPS.items():
        parts += [f"## {title}\n", "| what | how | points | what holds |\n|---|---|---|---|"]
        parts += [f"| {k.name} | {k.how} | {shown(*counts[k.name])} | {k.holds} |" for k in kinds]
        parts.append("")
    return "\n".join(parts)


def shown(points: int, holds: int) -> str:
    """Return a count; one that did not hold everywhere says so."""
    return f"{points:,}" if points == holds else f"{points:,}, of which {holds:,} held"


if __name__ == "__main__":
    page = Path(sys.argv[2])
    page.write_text(drawn(Path(sys.argv[1])), "utf-8")
    print(f"{page} was drawn")
