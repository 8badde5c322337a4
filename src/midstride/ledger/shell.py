"""A ledger's call as a run: its journal begins with the call, and claims the business key with the first intent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from midstride.core.fold import allowed_again
from midstride.core.journal import Body, Entry, Intended, Requested, Responded, Settled
from midstride.core.moves import made_anew
from midstride.core.run import FINISHED, NEW, Call, Run
from midstride.drive import Clock
from midstride.drive.calls import Calls
from midstride.drive.plan import Plan
from midstride.drive.shell import Shell
from midstride.errors import Damaged, TaskDiffers
from midstride.hidden import redacted
from midstride.ledger.deed import Deed
from midstride.stores import Claim, Store
from midstride.tools import Context, Tool, Toolbox
from midstride.tools.context import Handed

Json = Any

API = "ledger"


class CarryShell(Shell):
    """A call that was made before, by whatever process: it is carried on from wherever it stands."""

    def __init__(self, store: Store, run_id: str, tool: Tool[..., Any], clock: Clock, *, task: Json = None) -> None:
        super().__init__(store, run_id, Plan(task, API, Toolbox([tool])), clock, None)

    def _check_run(self, run: Run) -> None:
        if run is NEW:
            return
        if run.begun.api != API:
            raise TaskDiffers(
                f"run {self.run_id!r} is an agent's run ({run.begun.api}) and no call of a ledger: use another scope"
            )
        if not run.calls:
            raise Damaged(f"run {self.run_id!r} is a ledger's, and its journal has no call; it was left as it is")
        if self.plan.task is not None and run.begun.task != self.plan.task:
            raise TaskDiffers(
                f"call {self.run_id!r} was made before as {_short(run.begun.task)}, and now as "
                f"{_short(self.plan.task)}: an id is one call for ever, so give another call id, or another scope"
            )

    def _adopt(self, run: Run) -> None:
        super()._adopt(run)
        if run is not NEW:
            self.calls = OneCall(self.plan.toolbox, self.run_id, run.begun.nonce, self._keep)

    def _write(self, entries: tuple[Entry, ...]) -> None:
        key = self._claimed_by(entries)
        if key is None:
            super()._write(entries)
        else:
            self.store.append(self.run_id, entries, token=self.token, claim=Claim(key, self._instead_of()))

    def _claimed_by(self, entries: tuple[Entry, ...]) -> str | None:
        """Return the business key that *entries* need: an intent may only stand beside its claim."""
        if not any(isinstance(entry.body, Intended) for entry in entries):
            return None
        return self.taken_up().run.calls[0].recorded.key

    def _instead_of(self) -> str | None:
        return None


class OneCall(Calls):
    """The one call of a ledger's run: made anew it is the same call, and has the same key."""

    def context(self, call: Call, attempt: int, handed: Handed | None = None) -> Context[Any]:
        """Return what the tool is told, with the key of the call's first turn."""
        return super().context(replace(call, turn=1), attempt, handed)


class MakeShell(CarryShell):
    """A call that is made now, for the first time or again.

    *instead_of* is the run that had the business key and is known to be free of it; *done* is what the call is told
    where another one has done the same deed.
    """

    def __init__(self, store: Store, deed: Deed, clock: Clock, *, instead_of: str | None, done: Json) -> None:
        super().__init__(store, deed.run_id, deed.tool, clock, task=deed.task)
        self._deed, self._free, self._done = deed, instead_of, done

    def _instead_of(self) -> str | None:
        return self._free

    def _beginning(self) -> tuple[Body, ...]:
        return (self._started(messages=[]),)

    def _opening(self, run: Run) -> tuple[Body, ...]:
        made: tuple[Body, ...] = ()
        if run is NEW:
            call = {"id": self._deed.call_id, "name": self._deed.tool.name, "arguments": self._deed.arguments}
            made = (Requested(), Responded({"calls": [call]}, (self._deed.recorded,)))
        elif self._done is not None and allowed_again(run):
            made = made_anew(run).bodies
        if self._done is None or (run.calls and not made and run.calls[0].state in FINISHED):
            return made  # somebody was quicker
        turn = run.turns + 1 if made else run.calls[0].turn
        return (*made, Settled(turn, 0, "already done", self._done))


def _short(task: Json) -> str:
    task = redacted(task)  # before it could be cut
    text = f"{task['tool']}({task['arguments']})" if isinstance(task, dict) and "tool" in task else repr(task)
    return text if len(text) <= 200 else f"{text[:200]}..."
