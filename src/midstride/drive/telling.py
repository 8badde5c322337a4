"""Who is told of what a run does, once it is durable or is about to happen: the watcher, the observer and the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from midstride.core.journal import Entry
from midstride.core.run import Run
from midstride.core.steps import LookUp, Pause, PollUp, Start, Transact
from midstride.drive import log
from midstride.drive.observing import NOBODY, Note, Observed
from midstride.drive.result import Draft

Watch = Callable[[object], None]
"""Hears what happens: each `Entry` once it is durable, each step that goes outside, each `Draft` of an answer."""

NO_WHYS: Mapping[int, str] = {}


class Teller:
    """Tells of one run; *observed* is nobody until it is taken up."""

    def __init__(self, run_id: str, watch: Watch | None) -> None:
        self._run_id = run_id
        self._watch: Watch = watch or (lambda event: None)
        self.observed: Observed = NOBODY

    def entries(self, entries: Sequence[Entry], run: Run, whys: Mapping[int, str] = NO_WHYS) -> None:
        """Tell of the holder's entries that are durable now; *whys* has the reasons of moves by seq."""
        for entry in entries:
            self._record(entry, run, whys.get(entry.seq, ""))
            self._watch(entry)

    def others(self, entries: Sequence[Entry], run: Run) -> None:
        """Tell the observer and the log of what others appended meanwhile, or while nobody drove the run."""
        for entry in entries:
            self._record(entry, run)

    def _record(self, entry: Entry, run: Run, why: str = "") -> None:
        log.tell(self._run_id, entry, run)
        self.observed.hear(entry, run, why)

    def step(self, step: Start | Transact | LookUp | PollUp | Pause, run: Run) -> None:
        """Tell of a step that goes outside."""
        self.observed.hear(step, run, "" if isinstance(step, Pause) else step.why)
        self._watch(step)

    def drafts(self, note: Note) -> Callable[[object], None]:
        """Return who hears the events of an answer while it streams."""

        def hear(event: object) -> None:
            draft = Draft(event)
            note(draft)
            self._watch(draft)

        return hear

    def end(self, status: str | None, run: Run, error: BaseException | None) -> None:
        """Tell that a run that was taken up, or was to be, is let go."""
        self.observed.end(status, run, error)
        self.observed = NOBODY
        log.tell_end(self._run_id, run, status, error)
