"""The lesson's own file as a store: `checkpoint.json` holds one run.

The lesson's six fields are a view, for people and for programs that read them; under "midstride" stands the journal,
which is the truth. A view that does not follow from its journal was edited by hand, and is refused. The file is
replaced whole and durably, and its previous generation is kept as `<name>.prev`; that one is never taken by itself,
because it lacks intents: what it does not tell of may have been started.

A file with the six fields and nothing under "midstride" is the lesson's: `foreign` gives it away to be imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstride.core.fold import fold
from midstride.core.journal import Entry, Started, Taken, decode_all
from midstride.core.run import NEW, Run
from midstride.core.view import FIELDS, VERSION, view
from midstride.errors import Damaged, Holder, Newer, NotAllowed, NotOurs
from midstride.stores import disk, locks
from midstride.stores.contract import Claim, Freed, Lease, Transaction
from midstride.stores.fence import fence, no_claims, no_removal, no_transactions

FORMAT = 1

WRITE_BYTE = 0
LEASE_BYTE = 1


@dataclass(frozen=True, slots=True)
class Generation:
    """What one generation of the file holds: the journal of *run_id*, or a *foreign* checkpoint, or nothing."""

    run_id: str | None = None
    entries: tuple[Entry, ...] = ()
    run: Run = NEW
    foreign: Mapping[str, Any] | None = None


NOTHING = Generation()


class CheckpointStore:
    """The journal of one run in the file at *path*. Nothing is made on disk before the run is leased."""

    transactional = False
    claims = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.url = f"checkpoint:{os.fspath(path)}"
        self._path = Path(os.path.realpath(path))
        self._previous = self._path.with_name(self._path.name + ".prev")
        self._lock_file = locks.lock_file_of(self._path)
        self._cached: tuple[disk.Stamp, Generation] | None = None
        self._leases: set[locks.RecordLock] = set()

    def lease(self, run_id: str, *, take_over: bool = False) -> locks.RecordLock:
        """Take the right to drive the file's run; NotOurs when the file holds another run."""
        with contextlib.suppress(Damaged, Newer):  # reading says so, and an import needs the lease
            self._load(run_id)
        disk.make_folder(self._path.parent)
        return locks.take(
            self._lock_file, LEASE_BYTE, run_id, among=self._leases, newest=self._taken, take_over=take_over
        )

    def holder(self, run_id: str) -> Holder | None:
        """Return the living process that drives the file's run."""
        return locks.holder(self._lock_file, LEASE_BYTE, newest=self._taken)

    def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries behind seq *after*; Damaged for a file that is not as it was written."""
        return list(self._load(run_id).entries[after : None if limit is None else after + limit])

    def check(self) -> list[str]:
        """Return what is wrong with the file and with its previous generation."""
        found = []
        for load in (self._load, self.previous):
            try:
                load()
            except (Damaged, Newer, NotOurs) as error:
                found.append(str(error))
        return found

    def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        *,
        token: int | None,
        claim: Claim | None = None,
        over: bool = False,
    ) -> None:
        """Add *entries* behind the last one by replacing the file; the one before is kept as `<name>.prev`.

        A foreign checkpoint is only replaced by a journal that imports it, and kept for good as `<name>.imported`.
        """
        if claim is not None:
            raise no_claims(self.url)
        if not entries:
            return
        disk.make_folder(self._path.parent)
        with locks.exclusive(self._lock_file, WRITE_BYTE):
            present = self._load(run_id)
            if present.foreign is not None and not _imports(entries[0]):
                raise NotOurs(f"{self._path} holds a checkpoint of another program: import it, or use another path")
            if present.foreign is not None:
                disk.keep(self._path, self._path.with_name(self._path.name + ".imported"))
            self._write(_grown(present, run_id, entries, token), keep_previous=self._previous)

    def transaction(self, run_id: str) -> AbstractContextManager[Transaction]:
        """Raise DeclarationError: a file has no transactions."""
        raise no_transactions(self.url)

    def keep(self, run_id: str, data: bytes) -> str:
        """Keep the whole of a result that was cut, as a file in `<path>.results`; return the file's path."""
        return disk.keep_in(disk.results_of(self._path), data, beside=self._path)

    def kept(self, where: str) -> bytes:
        """Return the whole of a result that `keep` kept at *where*."""
        return disk.kept_beside(self._path, where)[0]

    def runs(self, *, newest: int | None = None) -> list[str]:
        """Return the id of the file's run, if it has started."""
        run_id = self._load().run_id
        return [] if run_id is None or newest == 0 else [run_id]

    def unfinished(self) -> list[str]:
        """Return the id of the file's run, unless it is over."""
        generation = self._load()
        return [] if generation.run_id is None or generation.run.over else [generation.run_id]

    def ended(self, before: float) -> list[str]:
        """Return the id of the file's run, if it is over since before that time."""
        found = self._load()
        return [found.run_id] if found.run_id and found.run.over and found.entries[-1].at < before else []

    def size(self, run_id: str) -> int:
        """Return how many bytes the run's entries and the whole results kept for it take."""
        return sum(len(entry.text) for entry in self.read(run_id)) + disk.size_of(disk.results_of(self._path))

    def remove(self, run_id: str, lease: Lease, *, last: int | None, at: float, free_key: str | None = None) -> None:
        """Raise DeclarationError: the run goes with its file."""
        raise no_removal(self.url)

    def forget(self, run_id: str, lease: Lease) -> None:
        """Raise DeclarationError: the run goes with its file."""
        raise no_removal(self.url)

    def shrink(self) -> Freed:
        """Return nothing: nothing is removed here."""
        return Freed(0, 0, 0)

    def foreign(self, run_id: str) -> Mapping[str, Any] | None:
        """Return the lesson's checkpoint, checked, if that is what the file holds."""
        return self._load(run_id).foreign

    def close(self) -> None:
        """Release the leases."""
        locks.release_all(self._leases)

    def previous(self) -> Generation | None:
        """Return the previous generation, for an explicit import, if there is one; Damaged when it is no better."""
        found = disk.read_whole(self._previous)
        return None if found is None else _parsed(found[0], self._previous)

    def import_over(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        """Make *entries* the whole journal, whatever stands there: the explicit way out of Damaged.

        What stood there is kept as `<name>.set-aside`. The caller holds the lease.
        """
        with locks.exclusive(self._lock_file, WRITE_BYTE):
            aside = self._path.with_name(self._path.name + ".set-aside")
            self._write(_grown(NOTHING, run_id, entries, token), keep_previous=aside)

    def _taken(self) -> Entry | None:
        return next((e for e in reversed(self._load().entries) if isinstance(e.body, Taken)), None)

    def _load(self, run_id: str | None = None) -> Generation:
        """Return what the file holds, read anew only when it was replaced."""
        cached = self._cached
        unchanged = cached is not None and disk.stamp(self._path) == cached[0]
        generation = cached[1] if cached is not None and unchanged else self._read_anew()
        if run_id is not None and generation.run_id not in (None, run_id):
            raise NotOurs(
                f"{self._path} holds run {generation.run_id!r}, not {run_id!r}: one file holds one run, so use another "
                "path or that id"
            )
        return generation

    def _read_anew(self) -> Generation:
        found = disk.read_whole(self._path)
        if found is None:
            if disk.stamp(self._previous) is not None:
                raise Damaged(f"{self._path} is missing; {self._way_out()}")
            return NOTHING
        data, stamp = found
        try:
            generation = _parsed(data, self._path)
        except Damaged as error:
            raise Damaged(f"{error}; {self._way_out()}", whole=error.whole or _salvaged(data)) from None
        self._cached = (stamp, generation)
        return generation

    def _way_out(self) -> str:
        if disk.stamp(self._previous) is None:
            return "it was left as it is, and there is no previous generation: restore it from a backup"
        return (
            f"it was left as it is, and the previous generation is at {self._previous}: only an explicit import takes "
            "that one, since calls that it does not tell of may have been started"
        )

    def _write(self, generation: Generation, *, keep_previous: Path) -> None:
        disk.clear_leftovers(self._path)
        disk.replace_durably(self._path, _rendered(generation), keep_previous=keep_previous)
        stamp = disk.stamp(self._path)
        self._cached = None if stamp is None else (stamp, generation)


def _imports(entry: Entry) -> bool:
    return isinstance(entry.body, Started) and entry.body.imported


def _grown(present: Generation, run_id: str, entries: Sequence[Entry], token: int | None) -> Generation:
    """Return the next generation; raises before anything is written."""
    fence(run_id, present.run.token or None, len(present.entries), entries, token)
    return Generation(run_id, (*present.entries, *entries), fold(entries, present.run))


# ---- writing


def rendered(run_id: str, entries: Sequence[Entry], run: Run) -> bytes:
    """Return the whole file for a journal and the run that it folds to."""
    return _rendered(Generation(run_id, tuple(entries), run))


def _rendered(generation: Generation) -> bytes:
    entries = ",\n".join("      " + json.dumps([entry.text, entry.digest]) for entry in generation.entries)
    # ASCII throughout: a lone surrogate in a message has no other encoding.
    six_fields = json.dumps(view(generation.run), indent=2).removesuffix("\n}")
    return (
        f"{six_fields},\n"
        '  "midstride": {\n'
        f'    "format": {FORMAT},\n'
        f'    "run": {json.dumps(generation.run_id)},\n'
        f'    "length": {len(generation.entries)},\n'
        f'    "checksum": "{_checksum(generation.run_id, generation.entries)}",\n'
        f'    "entries": [\n{entries}\n    ]\n'
        "  }\n"
        "}\n"
    ).encode("ascii")


def _checksum(run_id: str | None, entries: Sequence[Entry]) -> str:
    # The last digest is chained on every entry before it, so this covers all that the journal says.
    last = entries[-1].digest if entries else ""
    return hashlib.sha256(json.dumps([FORMAT, run_id, len(entries), last]).encode("ascii")).hexdigest()


# ---- reading


def _parsed(data: bytes, path: Path) -> Generation:
    """Return what *data* holds; a byte order mark and any line ends are let pass, as an editor leaves them."""
    if not data.strip(b"\0"):
        raise Damaged(f"{path} is empty ({len(data)} bytes, none but zeros)" if data else f"{path} is empty (0 bytes)")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is cut or damaged ({error})") from None
    if not isinstance(found, dict) or not ("midstride" in found or any(name in found for name in FIELDS[1:])):
        raise NotOurs(f"{path} is no checkpoint: wanted an object with the fields {', '.join(FIELDS)}")
    version = found.get("version")
    if _whole(version) and version != VERSION:
        raise Newer(f"checkpoint is v{version}, this code reads v{VERSION}: {path} was left as it is")
    if "midstride" not in found and any(_is_our_part(value) for value in found.values()):
        raise Damaged(f'{path} has a journal of ours under another name than "midstride": it was changed')
    return _ours(found, path) if "midstride" in found else Generation(foreign=_lessons(found, path))


def _is_our_part(value: Any) -> bool:
    return isinstance(value, dict) and len({"format", "run", "length", "checksum", "entries"} & value.keys()) >= 4


def _ours(found: dict[str, Any], path: Path) -> Generation:
    part = found.pop("midstride")
    wanted = {"format": int, "run": str, "length": int, "checksum": str, "entries": list}
    if not isinstance(part, dict) or any(not isinstance(part.get(name), kind) for name, kind in wanted.items()):
        raise Damaged(f'{path} has something else under "midstride" than {", ".join(wanted)}')
    if part["format"] != FORMAT:
        raise Newer(f"{path} is format {part['format']}, this code reads format {FORMAT}: use a newer midstride")
    entries = _entries(part, path)
    try:
        run = fold(entries)
    except NotAllowed as error:
        raise Damaged(f"{path} holds a journal that cannot be ({error})") from None
    _check_view(found, view(run), path)
    return Generation(part["run"], entries, run)


def _entries(part: Mapping[str, Any], path: Path) -> tuple[Entry, ...]:
    rows = part["entries"]
    if not rows or len(rows) != part["length"]:
        raise Damaged(f"{path} holds {len(rows)} entries where its length says {part['length']}")
    for seq, row in enumerate(rows, start=1):
        pair = isinstance(row, list) and len(row) == 2 and all(isinstance(text, str) and text.isascii() for text in row)
        if not pair:
            raise Damaged(f"{path}: entry {seq} is no pair of ASCII text and digest")
    try:
        entries = tuple(decode_all((seq, text, digest) for seq, (text, digest) in enumerate(rows, start=1)))
    except Damaged as error:
        raise Damaged(f"{path}: {error}", whole=error.whole) from None
    if part["checksum"] != _checksum(part["run"], entries):
        raise Damaged(f"{path}: run, length or last entry is not as it was written (the checksum differs)")
    return entries


def _salvaged(data: bytes) -> list[Entry]:
    """Return the entries at the beginning of a file that is no JSON any more: each stands on a line of its own."""
    rows: list[tuple[int, str, str]] = []
    for line in data.partition(b'"entries": [')[2].splitlines():
        with contextlib.suppress(ValueError, TypeError):
            text, digest = json.loads(line.strip().removesuffix(b","))
            rows.append((len(rows) + 1, text, digest))
    try:
        return decode_all(rows)
    except (Damaged, Newer) as error:
        return list(error.whole) if isinstance(error, Damaged) else []


def _check_view(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    wanted = json.loads(json.dumps(wanted))
    for name in (*FIELDS, *(name for name in found if name not in FIELDS)):
        if name not in found or name not in wanted or found[name] != wanted[name]:
            place, one, other = _first_difference(name, found.get(name, _ABSENT), wanted.get(name, _ABSENT))
            raise Damaged(f"{path} was edited by hand: {place} is {_short(one)}, the journal says {_short(other)}")


_ABSENT = object()


def _first_difference(name: str, found: Any, wanted: Any) -> tuple[str, Any, Any]:
    if not (isinstance(found, list) and isinstance(wanted, list)):
        return name, found, wanted
    for at in range(max(len(found), len(wanted))):
        one = found[at] if at < len(found) else _ABSENT
        other = wanted[at] if at < len(wanted) else _ABSENT
        if one != other:
            return f"{name}[{at}]", one, other
    return name, found, wanted


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "not there"
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


# ---- the lesson's own checkpoint


def _lessons(found: dict[str, Any], path: Path) -> dict[str, Any]:
    for name, (wanted, fits) in _LESSONS.items():
        if name not in found:
            raise Damaged(f"{path} has no field {name}: {wanted} is wanted")
        if not fits(found[name]):
            raise Damaged(f"{path}: {name} is {_short(found[name])}, {wanted} is wanted")
    return found


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _whole(value) and value >= 0


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), (str, list))
        for one in value
    )


def _is_pending(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict)
        and isinstance(value.get("id"), str)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("input"), dict)
    )


_LESSONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "version": (f"the number {VERSION}", lambda value: _whole(value) and value == VERSION),
    "task": ("a text", lambda value: isinstance(value, str)),
    "turns": ("a count", _is_count),
    "tokensUsed": ("a count", _is_count),
    "messages": ("a list of messages with role and content", _are_messages),
    "pendingToolUse": ("null or an object of id, name and input", _is_pending),
}
