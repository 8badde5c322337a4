"""Files that were cut, flipped, emptied or are somebody else's: refused and located, and never written over."""

import itertools
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from crash.report import LONG, record
from midstride.core.journal import Said, head_of, seal
from midstride.errors import Damaged, JournalError, MidstrideError, Newer, NotOurs, StoreError
from midstride.stores import AesGcm, CheckpointStore, SqliteStore
from midstride.testing.conformance import AT, add, begin

KINDS = {
    "sqlite": (SqliteStore, "runs.db"),
    "encrypted": (partial(SqliteStore, codec=AesGcm(b"k" * 32)), "runs.db"),
    "checkpoint": (CheckpointStore, "checkpoint.json"),
}

PAGE = 512
"""The size of SQLite's pages here, its smallest: the same structure as with large ones, and few bytes to try."""


@pytest.fixture(scope="module", params=KINDS)
def whole(request, tmp_path_factory):
    """A store's folder behind a run of some entries, and what it holds."""
    make, name = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    if name == "runs.db":  # it takes a database of the user's as it is
        with closing(sqlite3.connect(folder / name)) as connection:
            connection.executescript(f"pragma page_size={PAGE}; create table seats (seat text)")
        os.chmod(folder / name, 0o600)
    with closing(make(folder / name)) as store:
        head = begin(store)
        for word in ("one", "two", "three"):
            head = add(store, head, Said(word * 900), token=1)
        entries = store.read("run")
    (folder / f"{name}.prev").unlink(missing_ok=True)  # it has an offer of its own, see test_checkpoint.py
    return folder, make, name, entries


@pytest.fixture
def place():
    """A folder for files that live for a moment: in memory where the machine has such a folder."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder) / "used"


def places(data):
    """Return the bytes to try: all of them in the long set, else some hundreds."""
    return range(len(data)) if LONG else range(0, len(data), max(1, len(data) // 230) | 1)


def is_unread(name, data, flipped):
    """Tell whether the flipped byte is SQLite's own, of a kind that a read of the entries does not look at.

    That is an index, or what a page's head says of its free space: the first append that meets it damages more.
    """
    head = flipped - flipped % PAGE + 100 * (flipped < PAGE)
    return name == "runs.db" and (data[head] in (2, 10) or flipped - head in range(1, 8))


def used(whole, data, folder, flipped=None):
    """Use a store whose file holds *data* as a resume would, and return the error, or the entries that it read.

    What is damaged stays as it was; where the *flipped* byte is of a kind that only a write looks at, an append may
    go wrong first, and is refused when it is read.
    """
    origin, make, name, entries = whole
    shutil.copytree(origin, folder, dirs_exist_ok=True)
    (folder / name).write_bytes(data)
    try:
        with closing(make(folder / name)) as store:
            found = store.read("run")
            assert found == entries
            lease = store.lease("run")
            store.append("run", seal([Said("go on")], head_of(found), AT), token=1)
            lease.release()
            assert store.read("run")[:-1] == entries
            return found
    except MidstrideError as error:
        if (folder / name).read_bytes() != data:
            refused = isinstance(error, Damaged) and flipped is not None
            if not (refused and is_unread(name, data, flipped)):
                pytest.fail(f"byte {flipped} was damaged, and written over: {error}")
        return error
    finally:
        shutil.rmtree(folder)


def test_a_file_that_is_cut_at_any_byte_is_damaged(whole, place):
    origin, _, name, _ = whole
    data = (origin / name).read_bytes()
    for cut in places(data):
        found = used(whole, data[:cut], place)
        if name == "checkpoint.json" and data[cut:] in (b"\n", b""):
            assert isinstance(found, list)
            continue
        if isinstance(found, list) and name == "runs.db" and cut > len(data) - PAGE:
            continue  # the last page's end, which nothing stands in, or what no read looks at: all entries are there
        assert isinstance(found, JournalError), f"cut at byte {cut}: {found!r}"
        assert not isinstance(found, Newer), f"cut at byte {cut}: {found!r}"
    record("a file is cut at a byte, and used", name, len(places(data)), len(places(data)))


@pytest.mark.parametrize("bit", [1, 64])
def test_a_flipped_byte_is_refused_or_changes_nothing(whole, bit, place):
    origin, _, name, _ = whole
    data = (origin / name).read_bytes()
    refused = 0
    for at in places(data):
        flipped = bytearray(data)
        flipped[at] ^= bit
        found = used(whole, bytes(flipped), place, at)  # which asserts that what is read is what was written
        refused += isinstance(found, (JournalError, StoreError))
    assert refused > 30
    record("a bit is flipped, and the file used", name, len(places(data)), len(places(data)))


@pytest.mark.parametrize("whole", ["sqlite"], indirect=True)
def test_a_damaged_index_of_the_runs_begins_no_run_anew(whole, place):
    origin, _, name, _ = whole
    with closing(sqlite3.connect(origin / name)) as connection:
        (page,) = connection.execute(
            "select rootpage from sqlite_master where name = 'sqlite_autoindex_midstride_runs_1'"
        ).fetchone()
    data = (origin / name).read_bytes()
    cells = range(page * PAGE - 10, page * PAGE)  # a run's whole row in the index: its id, and the number beside it
    for at, bit in itertools.product(cells, range(8)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        used(whole, bytes(flipped), place, at)


def place_of(path, data, entry):
    """Return where a byte of the entry's body stands in the file."""
    said = data.find(entry.body.content[:60].encode())
    if said >= 0:
        return said + 40
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        (body,) = connection.execute("select body from midstride_entries where seq = ?", (entry.seq,)).fetchone()
    return data.index(body[:30]) + 25


def test_a_flipped_byte_is_located(whole, tmp_path):
    origin, _, name, entries = whole
    data = (origin / name).read_bytes()
    for entry in entries[3:]:
        at = place_of(origin / name, data, entry)
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        found = used(whole, flipped, tmp_path / "flip")
        assert isinstance(found, Damaged)
        assert f"entry {entry.seq} is not as it was written" in str(found)
        assert list(found.whole) == entries[: entry.seq - 1]


@pytest.mark.parametrize("size", [0, 1, 512])
def test_a_file_of_zeros_is_damaged(whole, size, tmp_path):
    assert isinstance(used(whole, bytes(size), tmp_path / "zeros"), (Damaged, NotOurs))


def test_a_file_of_somebody_elses_is_not_ours(whole, tmp_path):
    assert isinstance(used(whole, b'{"name": "pkg", "version": "1.0.0"}', tmp_path / "other"), NotOurs)


def test_what_a_store_checks_beside_its_journals_is_whole(whole):
    origin, make, name, _ = whole
    with closing(make(origin / name)) as store:
        assert store.check() == []


def test_a_clock_that_goes_back_changes_no_order(whole, tmp_path):
    _, make, name, _ = whole
    with closing(make(tmp_path / name)) as store:
        head = begin(store)
        for at in (AT + 100.0, AT - 5_000.0, AT):
            (entry,) = seal([Said("x")], head, at)
            store.append("run", [entry], token=1)
            head = head_of([entry])
        assert [entry.seq for entry in store.read("run")] == [1, 2, 3, 4, 5, 6]
        assert [entry.at for entry in store.read("run")][3:] == [AT + 100.0, AT - 5_000.0, AT]


def test_entries_that_are_hidden_by_a_damaged_index_are_missed(tmp_path):
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        head = begin(store)
        for _ in range(5):
            head = add(store, head, Said("word"), token=1)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        (page,) = connection.execute(
            "select rootpage from sqlite_master where name = 'sqlite_autoindex_midstride_entries_1'"
        ).fetchone()
        connection.execute("pragma wal_checkpoint(truncate)")
    with open(tmp_path / "runs.db", "r+b") as file:
        file.seek((page - 1) * 16384 + 3)  # the number of cells in the leaf of the index, two bytes
        assert file.read(2) == b"\x00\x08"
        file.seek((page - 1) * 16384 + 3)
        file.write(b"\x00\x06")
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        with pytest.raises(Damaged, match="entry 7 is missing, and 8 is there") as error:
            store.read("run")
        assert [entry.seq for entry in error.value.whole] == [1, 2, 3, 4, 5, 6]
        assert store.check()
