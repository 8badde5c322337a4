"""Other users, small disks and crowds of processes, for the tests of the stores.

Root may read and write everything, so what a mode forbids is tried as another user. A small disk is a tmpfs of a forked
process's own mount namespace (its own user namespace too, where the tests do not run as root): it is gone with the
process.
"""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from midstride.testing.conformance import process

NOBODY = 65534
CLONE_NEWNS, CLONE_NEWUSER, MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 1, 32, 0x4000, 0x40000


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may write in (pytest's own are closed to others, and so may TMPDIR be)."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def as_another_user(work: Callable[[], object]) -> None:
    """Run *work* as nobody; what it raises is raised as AssertionError."""
    with process(lambda: (become_nobody(), work())):
        pass


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def on_a_small_disk(folder: Path, work: Callable[[], object], *, size: str) -> None:
    """Run *work* in another process for which *folder* is a file system of *size* bytes."""
    with process(lambda: (_mount(folder, size), work())):
        pass


def _mount(folder: Path, size: str) -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    _call("mount", b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={size}".encode())


def make_read_only(folder: Path) -> None:
    """Remount a small disk, from within its process."""
    _call("mount", None, bytes(folder), None, MS_REMOUNT | MS_RDONLY, None)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


def fill(path: Path, *, leave: int) -> None:
    """Let the file *path* take all room of its disk but *leave* bytes."""
    room = os.statvfs(path.parent)
    path.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - leave)))


def at_once(count: int, work: Callable[[], str]) -> list[str]:
    """Run *work* in *count* forked processes that start together; return their words when all have spoken.

    They live until all have.
    """
    (waiting, starting), (told, telling), (staying, ending) = os.pipe(), os.pipe(), os.pipe()
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            for end in (starting, told, ending):
                os.close(end)
            _one_of_many(work, waiting, telling, staying)
        pids.append(pid)
    for end in (starting, telling, waiting, staying):
        os.close(end)
    with open(told, "rb") as news:
        words = [news.readline().decode().strip() for _ in range(count)]
    os.close(ending)
    for pid in pids:
        os.waitpid(pid, 0)
    return words


def _one_of_many(work: Callable[[], str], waiting: int, telling: int, staying: int) -> None:
    try:
        os.read(waiting, 1)
        word = work()
    except BaseException as error:
        word = type(error).__name__
    finally:
        os.write(telling, f"{word}\n".encode())
        os.read(staying, 1)
        os._exit(0)
