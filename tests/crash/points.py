"""What the tests of resumers and zombies try: every point of every kind of fault, in one place.

The long set has more of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from crash.report import LONG

TASKS = ("look", "charge", "book", "post", "send", "pay")
"""One call of each effect, as in test_save_points.py."""


@dataclass(frozen=True)
class Point:
    """Where a process of a run on this *store*, driven in this *mode*, is hit in the one call of its *task*."""

    store: str
    mode: str
    task: str
    moment: str

    def __str__(self) -> str:
        return "-".join([self.store, self.mode, self.task, self.moment]).replace(" ", "_")


def ways() -> list[tuple[str, str]]:
    """Return the stores and drivers to try: in the sample each store once, with the blocking driver."""
    found = [("sqlite", "blocking"), ("checkpoint", "blocking")]
    return [*found, ("sqlite", "async"), ("checkpoint", "async-loop")] if LONG else found


def tried_on(store: str, task: str) -> bool:
    """Tell whether the call of *task* is tried there: only sqlite has transactions, and a file is sampled less."""
    return store == "sqlite" or (task != "book" and (LONG or task in ("send", "post")))


def moments(task: str) -> list[str]:
    """Return the moments of a run with one call, from its recorded start to its recorded final answer."""
    begun = ["append 1 after", "append 2 before", "append 2 after"]
    if task == "look":  # a read has no intent
        return [*begun, "look 1 before", "look 1 after", "append 3 before", "append 3 after", "append 4 before"]
    around = ["append 3 before", "append 3 after", f"{task} 1 before", f"{task} 1 after", "append 4 before"]
    if task == "book":
        return [*begun, *around, "append 4 after", "commit before", "commit after", "append 5 after", "append 6 before"]
    return [*begun, *around, "append 4 after", "append 5 before"]


def spread(task: str) -> list[str]:
    """Return the moments that a sample tries: around the effect, and in a request."""
    return [m for m in moments(task) if LONG or m.startswith(("append 3", task, "commit", "append 2 before"))]


def points(*, tasks: tuple[str, ...] = TASKS) -> list[Point]:
    """Return every point of *tasks*."""
    pairs = [(s, m, task) for s, m in ways() for task in tasks if tried_on(s, task)]
    return [Point(s, m, task, moment) for s, m, task in pairs for moment in spread(task)]


def in_a_transaction(point: Point) -> bool:
    """Tell whether the process holds the database's write lock there: nobody else can take the run up then."""
    return point.task == "book" and point.moment.startswith(("book", "append 4", "commit before"))


STOPPED_AND_TAKEN_OVER = points()
STOPPED_WITHOUT_ITS_LOCK = [
    point
    for point in points()
    # What stands right before its effect acts when it wakes, whatever a journal says by then: a tool, or the request
    # that is behind the first append, which comes out of order then.
    if not in_a_transaction(point) and point.moment not in ("post 1 before", "pay 1 before", "append 1 after")
]
STOPPED_IN_A_TRANSACTION = [point for point in points(tasks=("book",)) if in_a_transaction(point)]
FORKED = [
    Point(store, mode, task, f"append {number} {side}")
    for store, mode in ways()
    if mode == "blocking"  # an asynchronous driver appends in a thread: its child has no loop, and just stands
    for task in ("send", "post")
    for number in (2, 3, 4)
    for side in ("before", "after")
]
CHILDREN = [
    Point(store, mode, "send", deed) for store, mode in ways() for deed in ("fork and meddle", "multiprocess", "spawn")
]
LATE = [
    Point(store, mode, "send", what)
    for store in ("sqlite", "checkpoint")
    for mode in ("blocking", "threads")
    for what in ("ends", "taken over", "killed")
]
PIDS = [
    Point(store, "blocking", "send", whose)
    for store in ("sqlite", "checkpoint")
    for whose in ("of a stranger", "of the next process", "of a dead one")
]
AT_ONCE = [Point(store, "blocking", "send", "start") for store in ("sqlite", "checkpoint")]
