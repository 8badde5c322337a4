"""Repaired transcripts put on disk: a new file, or in the place of the old one, which is kept beside it."""

from __future__ import annotations

import os
from pathlib import Path

from midstride.errors import NotAllowed
from midstride.stores.disk import replace_durably, store_error


def replace(path: Path, data: bytes) -> Path:
    """Put *data* at *path* in one step, and return where the original is kept; none is ever overwritten."""
    target = Path(os.path.realpath(path))  # a link stays one
    kept = _free_name(target)
    try:
        mode = target.stat().st_mode
        os.close(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))  # the name is ours now
        try:
            replace_durably(target, data, keep_previous=kept)
        except BaseException:
            if kept.stat().st_size == 0:
                kept.unlink()
            raise
        os.chmod(target, mode & 0o7777)
    except OSError as error:
        raise store_error(error, path, "written") from error
    return path.with_name(kept.name) if target == path.absolute() else kept


def _free_name(path: Path) -> Path:
    for number in range(10_000):
        name = path.with_name(f"{path.name}.orig{f'.{number}' if number else ''}")
        if not os.path.lexists(name):
            return name
    raise NotAllowed(f"{path} has ten thousand originals beside it: remove some")
