"""Runs written out to files, and taken in from them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from midstride.agent import Agent
from midstride.core.fold import fold
from midstride.core.imports import Foreign
from midstride.core.journal import FORMAT, Entry, decode_all, seal
from midstride.core.run import NEW
from midstride.drive import Runs
from midstride.drive.history import History, entries_of
from midstride.drive.outside import Verdict
from midstride.errors import Damaged, DeclarationError, Newer, NotAllowed, NotOurs
from midstride.stores import CheckpointStore, Store
from midstride.stores.checkpoint import rendered
from midstride.stores.disk import store_error

Json = Any


# ---- out


def _checkpoint(run_id: str, entries: Iterable[Entry], length: int) -> Iterator[str]:
    whole = list(entries)
    yield rendered(run_id, whole, fold(whole)).decode("ascii")


def _journal(run_id: str, entries: Iterable[Entry], length: int) -> Iterator[str]:
    yield json.dumps({"midstride": {"format": FORMAT, "run": run_id, "length": length}}) + "\n"
    for entry in entries:
        yield f'{{"digest":"{entry.digest}","entry":{entry.text}}}\n'


def _messages(run_id: str, entries: Iterable[Entry], length: int) -> Iterator[str]:
    yield json.dumps(fold(entries).request, indent=2) + "\n"


FORMS: dict[str, Callable[[str, Iterable[Entry], int], Iterator[str]]] = {
    "checkpoint": _checkpoint,
    "journal": _journal,
    "messages": _messages,
}


def check_form(form: str) -> None:
    """Raise DeclarationError for a form that there is not."""
    if form not in FORMS:
        raise DeclarationError(f"--as {form} is no form: wanted {', '.join(FORMS)}")


def exported(runs: Runs, run_id: str, form: str) -> tuple[Iterator[str], Verdict]:
    """Return the run as parts of a text, all of it ASCII, and what of the journal it tells.

    Of a damaged journal that is the part before the damage. The parts are made while they are asked for, and what is
    appended meanwhile is left out.
    """
    verdict = runs.verify(run_id)
    if verdict.damage is not None and not verdict.entries:
        raise Damaged(verdict.damage)
    return FORMS[form](run_id, islice(entries_of(runs.store, run_id), verdict.entries), verdict.entries), verdict


def write_new(path: Path, data: bytes | Iterable[str]) -> None:
    """Write a file that is not there yet; nothing is ever overwritten, and nothing is left of half a file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise NotAllowed(f"{path} is there already, and is not overwritten: give another name") from None
    except OSError as error:
        raise store_error(error, path, "written") from error
    try:
        with open(descriptor, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else (part.encode("ascii") for part in data))
            file.flush()
            os.fsync(descriptor)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise store_error(error, path, "written") from error
        raise


# ---- in


def import_file(
    path: Path,
    store: Store,
    *,
    run_id: str | None,
    agent: Agent | None,
    program: str,
    transcript: Foreign | None = None,
) -> str:
    """Take the file into *store* and return the run's id; NotAllowed when the id is taken.

    A *transcript* is what the file holds where it is no run yet.
    """
    found, entries = (None, []) if transcript else _journal_of(path)
    new_id = run_id or found or path.stem
    if store.read(new_id):
        raise NotAllowed(f"{store.url} has a run {new_id!r} already: give another --id")
    if not entries:
        entries = _of_the_lesson(path, store, new_id, agent, program, transcript)
    run = History.of(entries).run
    lease = store.lease(new_id)
    try:
        store.append(new_id, entries, token=run.token, over=run.over)
    finally:
        lease.release(clean=True)
    return new_id


def _journal_of(path: Path) -> tuple[str | None, list[Entry]]:
    """Return the id and the entries of a checkpoint.json of ours or of an exported journal; no entries otherwise."""
    if _begins_as_a_journal(path):
        return entries_of_lines(path.read_bytes(), path)
    checkpoint = CheckpointStore(path)
    ids = checkpoint.runs()
    return (ids[0], checkpoint.read(ids[0])) if ids else (None, [])


def _begins_as_a_journal(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.readline(4096).startswith(b'{"midstride": {')
    except FileNotFoundError:
        raise DeclarationError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise DeclarationError(f"{path} is a folder: wanted a checkpoint.json or an exported journal") from None
    except OSError as error:
        raise store_error(error, path, "read") from error


def entries_of_lines(data: bytes, path: Path | str) -> tuple[str, list[Entry]]:
    """Return the run's id and the entries of an exported journal, told as *path*; raises Damaged."""
    if not data.isascii():
        raise Damaged(f"{path} holds bytes that are no ASCII, which midstride does not write; it was left as it is")
    first, *lines = data.decode("ascii").split("\n")
    head = _head(first, path)
    rows = list(_rows([line for line in lines if line.strip()], path))
    if len(rows) != head["length"] or not rows:
        raise Damaged(f"{path} holds {len(rows)} entries where its first line says {head['length']}: it was cut")
    try:
        entries = decode_all(rows)
    except Damaged as error:
        raise Damaged(f"{path}: {error}", whole=error.whole) from None
    return head["run"], entries


def _head(line: str, path: Path | str) -> dict[str, Json]:
    try:
        head = json.loads(line)["midstride"]
        known = {"format": int, "run": str, "length": int}
        if all(isinstance(head[name], kind) for name, kind in known.items()):
            if head["format"] != FORMAT:
                raise Newer(
                    f"{path} is format {head['format']}, this code reads format {FORMAT}: use a newer midstride"
                )
            return dict(head)
    except (ValueError, KeyError, TypeError):
        pass
    raise Damaged(f"{path}: its first line is none of an exported journal: wanted format, run and length")


def _rows(lines: list[str], path: Path | str) -> Iterator[tuple[int, str, str]]:
    for seq, line in enumerate(lines, start=1):
        try:
            digest = json.loads(line)["digest"]
            text = line.rstrip("\r")[line.index('"entry":') + len('"entry":') : -1]
        except (ValueError, KeyError, TypeError):
            raise Damaged(f"{path}: line {seq + 1} is no entry of an exported journal") from None
        yield seq, text, digest


def _of_the_lesson(
    path: Path, store: Store, run_id: str, agent: Agent | None, program: str, foreign: Foreign | None
) -> list[Entry]:
    if foreign is None:
        checkpoint = CheckpointStore(path).foreign(run_id)
        if checkpoint is None:
            raise NotOurs(f"{path} is no checkpoint and no exported journal")
        foreign = Foreign.of(checkpoint)
    if agent is None:
        raise DeclarationError(
            f"{path} was written by another program, so its system prompt and tools are not in it, and they are frozen "
            "when it is imported: give TARGET, the agent that is to carry it on (`midstride plan` looks at a "
            "checkpoint, `midstride check` at a transcript)"
        )
    shell = replace(agent, store=store).shell(None, run_id, program=program)
    bodies = [*shell.imported(foreign), shell.taken(1, clean=True)]
    return list(seal(bodies, NEW.head, time.time()))
