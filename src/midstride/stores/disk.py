"""The only place that makes files durable: written, synced, named, and the name synced too.

A file is never changed where it stands. Its next generation is written whole under a name of its own in the same
folder, synced, and renamed over the old one; then the folder is synced. So a reader sees one generation or the other,
and after a power cut the name never stands for less than was synced. Files are made with mode 0600 and folders with
0700, whatever the umask: a journal holds whatever the model was told. What root makes beside a store of another user's
is given to that user, as SQLite does with its own files: else who looks as root locks the store's own program out.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from pathlib import Path
from typing import NamedTuple

from midstride.errors import StoreError

RENAME_PAUSES = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Seconds between tries of a refused rename: a scanner lets go of a file within some tens of milliseconds."""


class Stamp(NamedTuple):
    """Which file a name stands for, and which generation of it: every replacement changes it."""

    device: int
    inode: int
    size: int
    changed: tuple[int, int]


def same_file(one: Stamp | None, other: Stamp | None) -> bool:
    """Tell whether both stamps are of one file, grown or not."""
    return one is not None and other is not None and one[:2] == other[:2]


def replace_durably(path: Path, data: bytes, *, keep_previous: Path | None, beside: Path | None = None) -> None:
    """Put *data* at *path* in one step; the file that stood there is kept at *keep_previous*.

    The new one belongs to the owner of *beside*, by itself of *path*, where root writes it.

    When this returns it is on disk. When it raises StoreError the old file still stands, unless the message says
    that this is not certain.
    """
    try:
        temporary = _write_beside(path, data, beside or path)
        try:
            if keep_previous is not None:
                _keep(path, keep_previous)
            _rename(temporary, path)
        except BaseException:
            _remove(temporary)
            raise
    except OSError as error:
        raise store_error(error, path, "written") from error
    _sync_name(path)


def keep(path: Path, aside: Path) -> None:
    """Let *aside* name the file that stands at *path* now, too; whoever replaces *path* next makes the name durable."""
    try:
        _keep(path, aside)
    except OSError as error:
        raise store_error(error, aside, "written") from error


def results_of(path: Path) -> Path:
    """Return the folder in which the whole results of *path*'s runs are kept."""
    return path.with_name(path.name + ".results")


def keep_in(folder: Path, data: bytes, *, beside: Path, name: str | None = None) -> str:
    """Keep *data* durably in *folder*, by *name* or one made of itself; return the file's path."""
    file = folder / (name or hashlib.sha256(data).hexdigest()[:32])
    make_folder(folder, beside=beside)
    if stamp(file) is None:
        replace_durably(file, data, keep_previous=None, beside=beside)
    return str(file)


def kept_beside(path: Path, where: str) -> tuple[bytes, str]:
    """Return what is kept at *where* in the folder `<path>.results`, which may have been moved, and its name there.

    Nothing outside of that folder is read, whatever *where* says.
    """
    folder = path.with_name(path.name + ".results").resolve()
    file = folder / where.rpartition(f"{folder.name}/")[2]
    try:
        is_inside = file.resolve() == file and folder in file.parents
    except (OSError, ValueError):  # no name that a file could have
        is_inside = False
    if not is_inside:
        raise StoreError(f"{where!r:.200} is not in {folder}, where the results of this store are kept")
    found = read_whole(file)
    if found is None:
        raise StoreError(f"{file} is not there any more: somebody removed it")
    return found[0], file.name


def publish_durably(temporary: Path, path: Path) -> bool:
    """Give the finished file *temporary* the name *path*, unless something stands there; tell whether it did."""
    try:
        _sync_file(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            _remove(temporary)
    except OSError as error:
        raise store_error(error, path, "written") from error
    _sync_name(path)
    return True


def make_private(path: Path) -> None:
    """Make the empty file *path*, which must be new, readable by its owner alone."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise store_error(error, path, "written") from error


def make_folder(path: Path, *, beside: Path | None = None) -> None:
    """Make the folder *path* and those above it, durably; one that is there already is left as it is.

    It belongs to the owner of *beside*, if that is given and there.
    """
    try:
        if path.is_dir():
            return
        make_folder(path.parent, beside=beside)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            if beside is not None:
                give_to_owner_of(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise store_error(error, path, "written") from error


def give_to_owner_of(beside: Path, made: Path | int) -> None:
    """Let root's own *made*, a path or an open file, belong to whoever *beside* belongs to, if that is there."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            wanted = os.stat(beside)
            if wanted.st_uid != os.stat(made).st_uid == 0:
                os.chown(made, wanted.st_uid, wanted.st_gid)


def remove_folder(path: Path) -> None:
    """Remove the folder *path* with all that is in it."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass  # somebody else was quicker
    except OSError as error:
        raise store_error(error, error.filename or path, "removed") from error


def size_of(path: Path) -> int:
    """Return the bytes of the file *path*, or of all files in the folder; 0 where there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if path.is_dir():
            return sum(size_of(path / name) for name in os.listdir(path))
        return path.stat().st_size
    return 0


def read_whole(path: Path) -> tuple[bytes, Stamp] | None:
    """Return what *path* holds and its `stamp`, None when there is no such file; what cannot be read is an error."""
    try:
        with open(path, "rb") as file:
            return file.read(), _stamp(os.fstat(file.fileno()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, path, "read") from error


def stamp(path: Path) -> Stamp | None:
    """Return what changes whenever *path* is replaced, None when there is no such file."""
    try:
        return _stamp(os.stat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, path, "read") from error


def is_full(path: Path) -> bool:
    """Tell whether the file system of *path* has no room for even a small file (64 KiB, or one inode)."""
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 65536 or (room.f_files > 0 and room.f_favail == 0)


def may_write(path: Path) -> bool:
    """Tell whether owner and mode of *path* and of its folder let this user write there."""
    return os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)


def temporary_name(path: Path) -> Path:
    """Return a name beside *path* that nobody else uses."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")


def clear_leftovers(path: Path) -> None:
    """Remove the temporary files of writers of *path* that died; the caller holds the lock that keeps others away."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(f".{path.name}.") and ".tmp" in name:
                _remove(path.with_name(name))


_SENTENCES = {
    errno.ENOSPC: "the disk is full: nothing was {done} to {path}; free some space and run the same program again",
    errno.EDQUOT: "the disk quota is used up: nothing was {done} to {path}; free some space and run the same program "
    "again",
    errno.EFBIG: "{path} would grow beyond the file size limit: nothing was {done}; raise the limit (ulimit -f) and "
    "run the same program again",
    errno.EIO: "the disk reports an input/output error: {path} could not be {done}; see to the disk and run the same "
    "program again",
    errno.EROFS: "the file system of {path} is read-only: nothing was {done}; mount it writable and run the same "
    "program again",
    errno.EACCES: "{path} may not be {done} by user {user}; set its owner and mode, and those of its folder, right and "
    "run the same program again",
}
_SENTENCES[errno.EPERM] = _SENTENCES[errno.EACCES]


def store_error(error: OSError, path: Path | str, done: str) -> StoreError:
    """Return the sentence for *error*, met when *path* was to be "read", "written" or "removed"."""
    sentence = _SENTENCES.get(
        error.errno or 0, "{path} could not be {done} ({reason}); see to it and run the same program again"
    )
    return StoreError(sentence.format(path=path, done=done, user=os.geteuid(), reason=error.strerror or repr(error)))


def _write_beside(path: Path, data: bytes, beside: Path) -> Path:
    temporary = temporary_name(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            give_to_owner_of(beside, descriptor)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            _sync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def _keep(path: Path, previous: Path) -> None:
    """Let *previous* name the file at *path*: there is always a whole file at both names."""
    temporary = temporary_name(path)
    try:
        try:
            os.link(path, temporary)
        except FileNotFoundError:
            return
        except OSError:
            # A file system without hard links, or a file of somebody else's, which may not be linked.
            _copy(path, temporary)
        _rename(temporary, previous)
    finally:
        # A rename between two names of one file does nothing and leaves both.
        _remove(temporary)


def _copy(path: Path, temporary: Path) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as target, open(path, "rb") as source:
        give_to_owner_of(path, descriptor)
        shutil.copyfileobj(source, target)
        target.flush()
        _sync(target.fileno())


def _rename(source: Path, target: Path) -> None:
    for pause in RENAME_PAUSES:
        try:
            os.replace(source, target)
            return
        except PermissionError:
            time.sleep(pause)
    os.replace(source, target)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _sync_name(path: Path) -> None:
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path} was replaced, but whether that outlives a power cut is not certain ({error.strerror}); see to the "
            "disk and run the same program again"
        ) from error


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        # fsync on macOS leaves the data in the drive's cache; F_FULLFSYNC empties it.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, (status.st_mtime_ns, status.st_ctime_ns))
