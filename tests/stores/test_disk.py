"""Durable files: one generation or the next, never less, and a sentence when it cannot be."""

import errno
import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from midstride.errors import StoreError
from midstride.stores import disk
from stores.places import as_another_user, fill, make_read_only, on_a_small_disk, open_folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


@pytest.fixture
def previous(tmp_path):
    return tmp_path / "file.prev"


def names(folder):
    return sorted(os.listdir(folder))


def test_the_file_holds_what_was_written(path):
    disk.replace_durably(path, b"one", keep_previous=None)
    assert path.read_bytes() == b"one"


def test_the_generation_before_is_kept(path, previous):
    for data in (b"one", b"two", b"three"):
        disk.replace_durably(path, data, keep_previous=previous)
    assert (path.read_bytes(), previous.read_bytes()) == (b"three", b"two")


def test_a_first_generation_has_none_before(path, previous):
    disk.replace_durably(path, b"one", keep_previous=previous)
    assert names(path.parent) == ["file"]


def test_a_writer_that_died_between_the_two_renames_is_no_trouble(path, previous):
    path.write_bytes(b"one")
    os.link(path, previous)
    disk.replace_durably(path, b"two", keep_previous=previous)
    assert (path.read_bytes(), previous.read_bytes(), names(path.parent)) == (b"two", b"one", ["file", "file.prev"])


def test_data_is_synced_before_it_is_named_and_the_name_after(path, previous, monkeypatch):
    disk.replace_durably(path, b"one", keep_previous=None)
    calls = record(monkeypatch, "write", "fsync", "link", "replace")
    disk.replace_durably(path, b"two", keep_previous=previous)
    assert calls == ["write", "fsync", "link", "replace", "replace", "fsync folder"]


def record(monkeypatch, *functions):
    calls = []

    def recorded(name, original):
        def call(*arguments, **named):
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            calls.append("fsync folder" if folder else name)
            return original(*arguments, **named)

        return call

    for name in functions:
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    return calls


def test_each_new_folder_is_synced_into_the_one_above(tmp_path, monkeypatch):
    calls = record(monkeypatch, "mkdir", "fsync")
    disk.make_folder(tmp_path / "a" / "b")
    assert (calls, (tmp_path / "a" / "b").is_dir()) == (["mkdir", "fsync folder"] * 2, True)


def test_a_folder_that_is_there_is_left_alone(tmp_path, monkeypatch):
    calls = record(monkeypatch, "mkdir", "fsync")
    disk.make_folder(tmp_path)
    assert calls == []


def test_nobody_else_can_read_either_generation():
    with open_folder() as folder:
        for data in (b"one", b"two"):
            disk.replace_durably(folder / "file", data, keep_previous=folder / "file.prev")
        assert {stat.S_IMODE((folder / name).stat().st_mode) for name in names(folder)} == {0o600}
        make_unreadable(folder / "file")
        as_another_user(lambda: refuses(folder / "file", "may not be read by user"))


def make_unreadable(path):
    if os.geteuid() != 0:
        path.chmod(0)


def refuses(path, words):
    with pytest.raises(StoreError, match=words):
        disk.read_whole(path)


def test_a_missing_file_is_none_and_not_an_error(path):
    assert (disk.read_whole(path), disk.stamp(path)) == (None, None)


def test_the_stamp_changes_with_every_generation(path):
    stamps = []
    for _ in range(3):
        disk.replace_durably(path, b"same", keep_previous=None)
        stamps.append(disk.stamp(path))
    assert stamps[0] != stamps[1] != stamps[2]  # the first one's inode may be given to the third one


def test_a_failed_write_leaves_no_temporary_file(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(StoreError, match="Is a directory"):
        disk.replace_durably(tmp_path / "file", b"one", keep_previous=None)
    assert names(tmp_path) == ["file"]


def test_an_interrupt_leaves_no_temporary_file(path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        disk.replace_durably(path, b"one", keep_previous=None)
    assert names(path.parent) == []


def test_a_rename_that_is_refused_twice_is_tried_a_third_time(path, monkeypatch):
    refuse(monkeypatch, times=2)
    disk.replace_durably(path, b"one", keep_previous=None)
    assert path.read_bytes() == b"one"


def test_a_rename_that_is_refused_for_good_leaves_the_old_file(path, monkeypatch):
    path.write_bytes(b"one")
    refuse(monkeypatch, times=99)
    with pytest.raises(StoreError, match="may not be written by user"):
        disk.replace_durably(path, b"two", keep_previous=None)
    assert (path.read_bytes(), names(path.parent)) == (b"one", ["file"])


def refuse(monkeypatch, *, times):
    monkeypatch.setattr(disk, "RENAME_PAUSES", (0, 0, 0))
    left, replace = [times], os.replace

    def replace_later(source, target):
        if left[0]:
            left[0] -= 1
            raise PermissionError(errno.EACCES, "a scanner reads it")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_later)


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path):
    on_a_small_disk(tmp_path, lambda: write_on_a_full_disk(tmp_path), size="64k")


def write_on_a_full_disk(folder):
    disk.replace_durably(folder / "file", b"one", keep_previous=None)
    fill(folder / "ballast", leave=4096)
    with pytest.raises(StoreError, match=r"the disk is full: nothing was written to .*file; free some space"):
        disk.replace_durably(folder / "file", bytes(9000), keep_previous=folder / "file.prev")
    assert ((folder / "file").read_bytes(), names(folder)) == (b"one", ["ballast", "file"])


def test_a_read_only_file_system_is_named(tmp_path):
    on_a_small_disk(tmp_path, lambda: write_on_a_read_only_one(tmp_path), size="64k")


def write_on_a_read_only_one(folder):
    make_read_only(folder)
    with pytest.raises(StoreError, match=r"file system of .* is read-only"):
        disk.replace_durably(folder / "file", b"one", keep_previous=None)


def test_a_file_size_limit_is_named(tmp_path):
    from midstride.testing.conformance import process

    with process(lambda: write_beyond_the_limit(tmp_path)):
        assert names(tmp_path) == ["file"]


def write_beyond_the_limit(folder):
    disk.replace_durably(folder / "file", b"one", keep_previous=None)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    with pytest.raises(StoreError, match="beyond the file size limit"):
        disk.replace_durably(folder / "file", bytes(101), keep_previous=None)
    assert (folder / "file").read_bytes() == b"one"


def test_a_folder_that_is_not_ours_is_named():
    with open_folder() as folder:
        folder.chmod(0o555)
        as_another_user(lambda: cannot_write(folder / "file"))
        folder.chmod(0o777)


def cannot_write(path):
    with pytest.raises(StoreError, match=r"may not be written by user \d+; set its owner and mode"):
        disk.replace_durably(path, b"one", keep_previous=None)


def test_only_leftovers_of_this_file_are_cleared(tmp_path):
    for name in (".file.1.ab.tmp", ".file.1.ab.tmp-wal", ".other.1.ab.tmp", "file", "file.tmp"):
        (tmp_path / name).touch()
    disk.clear_leftovers(tmp_path / "file")
    assert names(tmp_path) == [".other.1.ab.tmp", "file", "file.tmp"]


def test_a_finished_file_is_published_only_where_nothing_stands(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    first = disk.publish_durably(tmp_path / "a", tmp_path / "file")
    second = disk.publish_durably(tmp_path / "b", tmp_path / "file")
    assert (first, second, names(tmp_path)) == (True, False, ["file"])
    assert Path(tmp_path / "file").read_text() == "a"


@pytest.mark.parametrize(("number", "words"), [(errno.EIO, "input/output error"), (errno.EDQUOT, "quota")])
def test_the_disk_s_errors_are_one_sentence(number, words):
    error = disk.store_error(OSError(number, "x"), "file", "written")
    assert words in str(error)
    assert str(error).endswith("run the same program again")


def test_a_finished_file_is_synced_before_it_is_named_and_its_name_after(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("a")
    calls = record(monkeypatch, "fsync", "link")
    disk.publish_durably(tmp_path / "a", tmp_path / "file")
    assert calls == ["fsync", "link", "fsync folder"]
