"""The power is cut behind every write, name and sync of a run, and whatever the disk may have kept is read again.

Some of the disks are carried on to the end of the run by real processes. That the judgement has teeth is shown by
faults planted in a copy of the sources: each of them loses something. A sample runs always; with MIDSTRIDE_CRASH=long
every disk and every fault.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, closing

import pytest

from crash import report
from crash.checks import check
from crash.plan import Process
from crash.power_judge import Judge, write
from crash.power_record import planted, record
from crash.report import LONG
from crash.syscalls import NotingForks, NotingWorld, spread

KILLED = {"send 1 after": "kill"}
NO_LINKS = ("-e", "inject=link:error=EPERM:when=2+")

RUNS = {
    "sqlite in the user's database": ("sqlite", "effects, booked", "", (), ()),
    "sqlite in a new folder": ("sqlite", "effects", "new/inner", (), ()),
    "sqlite, killed and carried on": ("sqlite", "effects, booked", "", (KILLED,), ()),
    "sqlite, folded behind every entry": ("sqlite", "effects, booked", "", (), ()),
    "checkpoint in a new folder": ("checkpoint", "effects", "new/inner", (), ()),
    "checkpoint, killed and carried on": ("checkpoint", "effects", "", (KILLED,), ()),
    "checkpoint without hard links": ("checkpoint", "effects", "", (), NO_LINKS),
}
"""What is recorded: store, task, where the store is, the deaths, and what strace does beside."""

CHANGED = {"sqlite, folded behind every entry": ("stores/opened.py", ("WAL_BYTES = 64 * 2**20", "WAL_BYTES = 0"))}
"""The runs of sources that are changed, and how: else only closing folds the WAL into so small a database."""

NAMES = [name for name in RUNS if LONG or name not in ("sqlite, killed and carried on", *CHANGED)]

UNKILLED = {"effects": "checkpoint in a new folder", "effects, booked": "sqlite in the user's database"}
"""By task: a run to which nothing happened."""

DISK, DATABASE = "stores/disk.py", "stores/database.py"
UNSYNCED = (
    "rest = rest[os.write(descriptor, rest) :]\n            _sync(descriptor)",
    "rest = rest[os.write(descriptor, rest) :]",
)
MADE = "                give_to_owner_of(beside, path)"
FAULTS = {
    "the file is not synced": ("checkpoint in a new folder", DISK, UNSYNCED),
    "the file is synced behind its rename": (
        "checkpoint in a new folder",
        DISK,
        UNSYNCED,
        ("_rename(temporary, path)\n", "_rename(temporary, path)\n            _sync_file(path)\n"),
    ),
    "the folder is not synced": (
        "checkpoint in a new folder",
        DISK,
        ("_sync_name(path)\n\n\ndef keep", "\n\ndef keep"),
    ),
    "the file is moved away before another takes its place": (
        "checkpoint in a new folder",
        DISK,
        ("_keep(path, keep_previous)", "path.exists() and os.replace(path, keep_previous)"),
    ),
    "a new folder's name is not synced": (
        "checkpoint in a new folder",
        DISK,
        ("                give_to_owner_of(beside, path)\n        _sync_folder(path.parent)", MADE),
    ),
    "a new folder's name is not synced, for sqlite": (
        "sqlite in a new folder",
        DISK,
        ("                give_to_owner_of(beside, path)\n        _sync_folder(path.parent)", MADE),
    ),
    "commits are synced now and then": (
        "sqlite in the user's database",
        DATABASE,
        ('"synchronous": 2', '"synchronous": 1'),
    ),
    "nothing is synced": ("sqlite in the user's database", DATABASE, ('"synchronous": 2', '"synchronous": 0')),
    "a commit is the removal of a file": (
        "sqlite in the user's database",
        DATABASE,
        ('"journal_mode": "wal"', '"journal_mode": "delete"'),
    ),
}
"""What is planted where, and the run in which it loses something."""

SHORT = ["the folder is not synced", "commits are synced now and then"]


@pytest.fixture(scope="module")
def forks():
    forks = NotingForks()
    yield forks
    forks.close()


@pytest.fixture(scope="module")
def recorded(crash_folder, server, forks):
    """Records a run, once."""
    known = {}

    def of(name):
        if name not in known:
            folder = crash_folder / f"power {name}"
            mine = open_forks.enter_context(changed(folder / "sources", *CHANGED[name])) if name in CHANGED else forks
            known[name] = recording_of(name, folder / "world", server, mine)
        return known[name]

    with ExitStack() as open_forks:
        yield of


def changed(folder, file, *replacements):
    return closing(NotingForks(planted(folder, file, *replacements)))


def recording_of(name, folder, server, forks):
    store, task, inside, deaths, options = RUNS[name]
    world = NotingWorld(folder, server, forks, task, store, inside=inside).make()
    return record(world, *deaths, options=options)


@pytest.mark.parametrize("name", NAMES)
def test_a_power_cut_at_any_moment_loses_nothing_that_was_acknowledged(name, recorded, crash_folder):
    judge = Judge(recorded(name), crash_folder / f"judge {name}")
    assert list(judge.losses(every=LONG)) == []
    report.record("the power is cut", f"recorded writes, {name}", judge.cuts, judge.cuts)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_goes_on_from_a_disk_whose_power_was_cut(name, recorded, crash_folder):
    recording, unkilled = recorded(name), recorded(UNKILLED[RUNS[name][1]]).world
    disks = some_disks(recording, 100 if LONG else 2)
    for number, disk in enumerate(disks):
        world = rebuilt(recording, *disk, crash_folder / f"cut {name} {number}")
        world.finish()
        check(world, unkilled)
    report.record("the power is cut, and the run carried on", f"real processes, {name}", len(disks), len(disks))


@pytest.mark.parametrize("name", NAMES if LONG else NAMES[:1])
def test_the_power_may_be_cut_again_while_a_run_is_carried_on(name, recorded, crash_folder):
    first, cuts = recorded(name), 0
    for number, disk in enumerate(some_disks(first, 5 if LONG else 3)[1:-1]):
        folder = crash_folder / f"again {name} {number}"
        judge = Judge(record(rebuilt(first, *disk, folder)), folder / "judge", first)
        assert list(judge.losses(every=LONG)) == []
        cuts += judge.cuts
    report.record("the power is cut again while the run is carried on", f"recorded writes, {name}", cuts, cuts)


def some_disks(recording, wanted):
    """Return so many disks, at even distances: all of them together are too large to keep."""
    places = set(spread(range(sum(1 for _ in disks_to_carry_on(recording))), wanted))
    return [disk for place, disk in enumerate(disks_to_carry_on(recording)) if place in places]


def disks_to_carry_on(recording):
    """Yield the plainest disks, with what was known beside them."""
    for moment in recording.moments():
        beside, acknowledged = dict(moment.beside), moment.acknowledged
        for image in moment.disk.after_power_loss(every=False):
            yield image, beside, acknowledged


def rebuilt(recording, image, beside, acknowledged, folder):
    """Return a world in which everything is as it was when the power was cut, but for the store's disk."""
    past = recording.world
    requests = sum(json.loads(line)["kind"] == "requested" for line in acknowledged)
    world = NotingWorld(folder, past.server, past.forks, past.task, past.store, inside=past.inside)
    world.before = past.bodies[:requests]
    write(image | beside, folder)
    for process in past.processes:
        if beside.get(f"{process.name}.found"):
            world.processes.append(Process(process.name, folder, process.pid, past.forks))
    for number in range(max(1, len(world.processes))):
        (folder / f"p{number}.json").write_text("{}")
    return world


@pytest.mark.parametrize("fault", FAULTS if LONG else SHORT)
def test_a_planted_fault_loses_something(fault, server, crash_folder):
    name, file, *replacements = FAULTS[fault]
    folder = crash_folder / f"fault {fault}"
    with changed(folder / "sources", file, *replacements) as forks:
        recording = recording_of(name, folder / "world", server, forks)
    losses = Judge(recording, folder / "judge").losses(every=True)
    assert any(" 0 entries were acknowledged" not in loss for loss in losses)
    report.record("a sync is missing, on purpose", "recorded writes", 1, 1)
