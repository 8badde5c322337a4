"""What must be true of a disk whose power was cut: all that was acknowledged is there, and nothing that never was."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from crash.plan import RUN, tools_in
from crash.power import Image
from crash.power_record import Moment, Recording
from midstride.errors import MidstrideError
from midstride.stores import open_store


@dataclass(frozen=True)
class Found:
    """What a store finds on a disk: its journal, or its error; and the seats that are booked beside it."""

    journal: tuple[str, ...] = ()
    error: str = ""
    seats: int = 0


class Judge:
    """Reads rebuilt disks, each once, in a folder of its own, whose lock file stays: it says nothing of a journal."""

    def __init__(self, recording: Recording, folder: Path, *before: Recording) -> None:
        self.recording, self.disks, self.cuts = recording, 0, 0
        self._folder = folder
        self._path = folder / recording.world.path.relative_to(recording.world.folder)
        self._found: dict[int, Found] = {}
        self._path.parent.mkdir(parents=True)
        # What a process wrote when the power was cut, and was never told of, may turn up as late as the next power cut:
        # SQLite's next frame, where it is the same as the one that was lost, makes those behind it valid again.
        self._histories = [one.world.processes[-1].told("result")["journal"] for one in (recording, *before)]

    def losses(self, *, every: bool) -> Iterator[str]:
        """Cut the power behind each step, and yield what is wrong with what is left."""
        for number, moment in enumerate(self.recording.moments(), start=1):
            for image in moment.disk.after_power_loss(every=every):
                self.cuts += 1
                wrong = self.wrong(moment, self.found(image))
                if wrong:
                    yield f"behind step {number}: {wrong}; on the disk: {sizes(image)}"

    def wrong(self, moment: Moment, found: Found) -> str:
        """Return what may not be, or nothing."""
        journal, acknowledged = list(found.journal), moment.acknowledged
        if found.error:
            return f"{len(acknowledged)} entries were acknowledged, and the store says: {found.error}"
        if not set(acknowledged) <= set(journal):  # between them may stand what a process died on before it was told
            return f"{len(acknowledged)} entries were acknowledged, {len(journal)} are there"
        if all(journal != history[: len(journal)] for history in self._histories):
            return "an entry is read that was never written"
        entries = [json.loads(line) for line in journal]
        if [entry["kind"] for entry in entries].count("intended") < moment.effects:
            return f"{moment.effects} effects took place, not all of them intended"
        if found.seats != int("booked 1" in [entry.get("content") for entry in entries]):
            return f"{found.seats} seats are booked, and the journal says otherwise"
        return ""

    def found(self, image: Image) -> Found:
        """Return what the store finds on a disk."""
        key = hash(frozenset(image.items()))  # to keep the disks themselves would fill the memory
        if key not in self._found:
            self.disks += 1
            write(image, self._folder)
            self._found[key] = self._look()
            self._clear()
        return self._found[key]

    def _look(self) -> Found:
        try:
            with closing(open_store(f"{self.recording.world.store}:{self._path}")) as store:
                journal = tuple(entry.text for entry in store.read(RUN))
            return Found(journal, seats=self._seats())
        except (MidstrideError, sqlite3.Error) as error:
            return Found(error=f"{type(error).__name__}: {error}")

    def _seats(self) -> int:
        if "book" not in tools_in(self.recording.world.task):
            return 0
        with closing(sqlite3.connect(self._path)) as connection:
            (seats,) = connection.execute("select count(*) from seats").fetchone()
        return int(seats)

    def _clear(self) -> None:
        for path in self._path.parent.iterdir():
            if not path.is_dir() and not path.name.endswith(".lock"):
                path.unlink()


def write(image: Image, folder: Path) -> None:
    """Put the files of a disk into *folder*."""
    for name, content in image.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def sizes(image: Image) -> str:
    return ", ".join(f"{name} ({len(content)} bytes)" for name, content in sorted(image.items()))
