"""A disk whose power is cut at any moment: what was synced is there, of all else whatever the disk pleases.

The rules are those of POSIX and no more. A file's sync makes its data durable and not its name; a folder's sync makes
the names in it durable and not the data behind them. What is not synced may have happened or not, in any order: a write
in part, a longer file without its data, a rename before the data that it names. A rename is one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import PurePath

SECTOR = 512

Image = dict[str, bytes]
"""The files of a disk, by path."""


@dataclass(frozen=True)
class Write:
    """Bytes at an offset of a file."""

    offset: int
    data: bytes

    def on(self, content: bytes) -> bytes:
        """Return a file's content with these bytes."""
        content = content.ljust(self.offset, b"\0")
        return content[: self.offset] + self.data + content[self.offset + len(self.data) :]

    def torn(self) -> Iterator[Write]:
        """Yield what may be left of it: a sector, half of it, all but a byte, its end alone."""
        half = len(self.data) // 2
        for size in {min(SECTOR, half), half, len(self.data) - 1}:
            yield Write(self.offset, self.data[:size])
        yield Write(self.offset + half, self.data[half:])


@dataclass(frozen=True)
class Truncate:
    """A file made shorter or longer."""

    size: int

    def on(self, content: bytes) -> bytes:
        """Return a file's content at this size."""
        return content[: self.size].ljust(self.size, b"\0")

    def torn(self) -> Iterator[Write]:
        """Yield nothing: it is done or not."""
        yield from ()


@dataclass(frozen=True)
class Change:
    """Names given to files, and names taken away, in one step."""

    given: tuple[tuple[str, int], ...] = ()
    taken: tuple[str, ...] = ()

    def on(self, names: dict[str, int]) -> dict[str, int]:
        """Return the names with this change."""
        return {name: inode for name, inode in names.items() if name not in self.taken} | dict(self.given)


FOLDER = 0
"""The inode of all folders: a name that stands for it has nothing behind it but other names."""


@dataclass
class Disk:
    """What is on a disk, and what the system has taken and not yet brought there."""

    names: dict[str, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    writes: dict[int, list[Write | Truncate]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    """The names as programs see them."""

    _inodes: Iterator[int] = field(default_factory=lambda: count(FOLDER + 1))

    def hold(self, image: Image) -> None:
        """Begin with files that are on the disk already."""
        for path, content in image.items():
            inode = self.names[path] = self.seen[path] = next(self._inodes)
            self.contents[inode] = content

    # ---- what programs do

    def create(self, path: str) -> None:
        """Make an empty file."""
        inode = next(self._inodes)
        self.contents[inode] = b""
        self._change(Change(((path, inode),)))

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        self._change(Change(((path, FOLDER),)))

    def write(self, path: str, data: bytes, offset: int | None = None) -> None:
        """Write at *offset*, or behind the end."""
        place = len(self.content(self.seen[path])) if offset is None else offset
        self.writes.setdefault(self.seen[path], []).append(Write(place, data))

    def truncate(self, path: str, size: int) -> None:
        """Cut a file."""
        self.writes.setdefault(self.seen[path], []).append(Truncate(size))

    def link(self, path: str, name: str) -> None:
        """Give a file another name."""
        self._change(Change(((name, self.seen[path]),)))

    def rename(self, path: str, name: str) -> None:
        """Give a file's name up for another; nothing happens between two names of one file."""
        if self.seen[path] != self.seen.get(name):
            self._change(Change(((name, self.seen[path]),), (path,)))

    def unlink(self, path: str) -> None:
        """Take a name away."""
        self._change(Change(taken=(path,)))

    def sync(self, path: str) -> None:
        """Bring a file's data, or the names in a folder, to the disk."""
        inode = self.seen.get(path, FOLDER)
        if inode != FOLDER:
            self.contents[inode] = self.content(inode)
            self.writes.pop(inode, None)
            return
        inside = [change for change in self.changes if _folder_of(change) == path]
        for change in inside:
            self.names = change.on(self.names)
        self.changes = [change for change in self.changes if change not in inside]

    def _change(self, change: Change) -> None:
        self.changes.append(change)
        self.seen = change.on(self.seen)

    # ---- what there is

    def content(self, inode: int) -> bytes:
        """Return a file as programs see it."""
        return _written(self.contents[inode], self.writes.get(inode, ()))

    def whole(self) -> Image:
        """Return all files as programs see them."""
        return self._image(self.changes, {inode: self.content(inode) for inode in self.contents})

    def after_power_loss(self, *, every: bool = True) -> Iterator[Image]:
        """Yield what may be on the disk if the power is cut now; without *every* the plainest cases alone."""
        nothing = dict(self.contents)
        everything = {inode: self.content(inode) for inode in self.contents}
        for changes in (self.changes, []):
            yield self._image(changes, everything)
            yield self._image(changes, nothing)
            yield from self._one_file(changes, nothing, everything, every)
        for changes in _some_of(self.changes) if every else ():
            yield self._image(changes, everything)
            yield self._image(changes, nothing)

    def _one_file(
        self, changes: list[Change], nothing: dict[int, bytes], everything: dict[int, bytes], every: bool
    ) -> Iterator[Image]:
        for inode, writes in self.writes.items():
            for content in (
                _some_written(self.contents[inode], writes) if every else _torn(self.contents[inode], writes)
            ):
                yield self._image(changes, everything | {inode: content})
                if len(self.writes) > 1:
                    yield self._image(changes, nothing | {inode: content})

    def _image(self, changes: Iterable[Change], contents: dict[int, bytes]) -> Image:
        names = self.names
        for change in changes:
            names = change.on(names)
        lost = {name for name, inode in self.seen.items() if inode == FOLDER} - set(names)
        return {
            name: contents[inode]
            for name, inode in names.items()
            if inode != FOLDER and lost.isdisjoint(map(str, PurePath(name).parents))
        }


def _folder_of(change: Change) -> str:
    path = change.taken[0] if change.taken else change.given[0][0]
    return str(PurePath(path).parent)


def _written(content: bytes, writes: Iterable[Write | Truncate]) -> bytes:
    for write in writes:
        content = write.on(content)
    return content


def _torn(content: bytes, writes: list[Write | Truncate]) -> Iterator[bytes]:
    """Yield a file whose last write arrived in part; what it grew by may be its length alone."""
    before = _written(content, writes[:-1])
    for torn in writes[-1].torn():
        yield torn.on(before)
    yield before.ljust(len(writes[-1].on(before)), b"\0")


def _some_written(content: bytes, writes: list[Write | Truncate]) -> Iterator[bytes]:
    """Yield a file in which not all *writes* arrived: the first ones, all but one, one alone, the last one torn."""
    for some in _some_of(writes):
        yield _written(content, some)
    yield from _torn(content, writes)
    yield content.ljust(len(_written(content, writes)), b"\0")


def _some_of(steps: list) -> Iterator[list]:
    for at in range(len(steps)):
        yield steps[:at]
        yield steps[:at] + steps[at + 1 :]
        yield [steps[at]]
