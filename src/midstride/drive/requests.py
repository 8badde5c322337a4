"""The requests of one run, checked before each is sent, while the transcript grows, and mended where that is honest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from midstride.core.journal import Compacted
from midstride.core.run import Run
from midstride.drive.log import log
from midstride.transcript import Checker, Finding, remedy, repair
from midstride.visible import word

Json = Any

NEWER = ("A22", "G06")
"""Rules about blocks and fields that nobody knows: what an API newer than these rules sent, it takes back."""


class Requests:
    """What the rules say of a run's requests, with the *facts* that its model knows; each message is looked at once."""

    def __init__(self, run_id: str, place: str, facts: Mapping[str, Json]) -> None:
        self._run_id, self._place, self._given = run_id, place, facts
        self._checker: Checker | None = None
        self._checked = 0

    def check(self, run: Run) -> Compacted | str | None:
        """Return what is wrong with the request of *run*, or what mends it; each message is looked at once.

        What the API would refuse is mended by the smallest honest changes; what these cannot mend is not sent.
        """
        if self._checker is None or self._checked > len(run.messages):
            self._checker, self._checked = Checker(run.begun.api), 0
        for message in run.messages[self._checked :]:
            self._checker.add(message)
        self._checked = len(run.messages)
        found = self._checker.findings(self._facts(run), tail=list(run.tail))
        bad = [one for one in _refusals(found) if not _newer(run, one)]
        return (self._mended(run, self._facts(run)) or self._diagnosis(run, bad[0])) if bad else None

    def mend(self, run: Run) -> Compacted | None:
        """Return what mends a request that the rules let pass and the API calls invalid: it is a strict one."""
        return self._mended(run, {**self._facts(run), "profile": "strict"})

    def _facts(self, run: Run) -> dict[str, Json]:
        return {**self._given, **({"last_stop_reason": "pause_turn"} if run.tail else {})}

    def _mended(self, run: Run, facts: Mapping[str, Json]) -> Compacted | None:
        """Return the transcript as it can be sent; None when nothing changes, or not all of it can be mended here."""
        if not (run.answers or run.begun.imported):
            return None  # its program's own words, and nothing is lost yet: they are for the program to set right
        made = repair(run.request, provider=run.begun.api, request=facts)
        messages, tail = list(made.messages), list(run.tail)
        end = len(messages) - len(tail)
        # A paused answer goes back as it is: it is sent behind the transcript until it ends.
        same_tail = [id(one) for one in messages[end:]] == [id(one) for one in tail]
        own = any(change.why[:3] in NEWER for change in made.changes) and not run.begun.imported
        if not made.changes or made.held or made.system or _refusals(made.findings) or own or not same_tail:
            return None
        for change in made.changes:
            rule = change.why.partition(":")[0]  # what it found may quote what somebody said
            log.warning("%s mended rule=%s", word(self._run_id), rule)
        self._checker = None  # it has read what is replaced now
        return Compacted(len(run.messages), messages[:end])

    def _diagnosis(self, run: Run, finding: Finding) -> str:
        place, name = self._place, shlex.quote(self._run_id)
        shown = f"midstride export {name} --as messages --store {shlex.quote(place)} | midstride check -"
        see = "" if place.startswith("memory:") else f" See it with: {shown}"
        said = f"the request was not sent: {finding.rule} in message {finding.at}: {finding.message}"
        return f"{said} What mends it: {remedy(finding, run.begun.api)}{see}"


def _newer(run: Run, finding: Finding) -> bool:
    """Tell whether a finding may only say that the API is newer; what a run began with did not come from the API."""
    return finding.rule[:3] in NEWER and finding.at >= len(run.begun.messages)


def _refusals(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with which a request must not be sent."""
    return [finding for finding in findings if finding.level in ("reject", "harness")]
