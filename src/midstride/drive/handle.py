"""What `Run` and `AsyncRun` have in common: all but the waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midstride.core.cost import PriceList
from midstride.core.journal import Limits
from midstride.core.run import Run as Checkpoint
from midstride.core.settle import RUNNING_MAX
from midstride.core.steps import Answered, Send
from midstride.drive.clock import Clock
from midstride.drive.observing import Observer
from midstride.drive.plan import Plan
from midstride.drive.result import Result
from midstride.drive.shell import Shell
from midstride.drive.telling import Watch
from midstride.drive.wire import wire
from midstride.errors import NotAllowed
from midstride.stores import Store
from midstride.tools import Tool, Toolbox

Json = Any


class TurnHandle:
    """One request that is owed, and the place for its response."""

    def __init__(self, shell: Shell, send: Send) -> None:
        self._shell = shell
        self.number = send.run.turns
        """Which request of the run this is, over its whole life."""
        self.cuts = send.run.cuts
        """How often in a row the answer was cut: give it more room (max_tokens) for each."""
        self.request: Mapping[str, Json] = shell.request(send.run)
        """What to send: messages, system and tools, under the names that the API has. Model and limits are yours."""
        self.handle: Json = send.handle
        """What finds the answer that the API goes on with by itself, where there is one: fetch it, and send nothing."""
        self.answered = False

    def _take(self, response: Any) -> Answered:
        if self.answered:
            raise NotAllowed(f"turn {self.number} has its response already: go on to the next turn")
        self._shell.taken_up()
        answered = self._shell.answered(wire(response))
        self.answered = True
        return answered


class RunHandle:
    """A run that a loop of the user's own drives.

    The same *id* starts it, carries it on, or is done at once. *task* None carries on whatever the stored task is.
    Raises Held when a living process drives it (*take_over* ends that process first), TaskDiffers for another task.
    *force* releases a run that is held or stopped. *watch* hears entries, steps and drafts; *telemetry* draws spans.
    *prices* and *parallel* as with `Agent`; prices by name are found by the name that an answer bears.
    """

    _driver_type: ClassVar[type[Any]]

    def __init__(
        self,
        store: Store | str | None,
        id: str,
        task: Json = None,
        *,
        api: str = "anthropic",
        tools: Sequence[Tool[..., Any]] = (),
        system: Json = None,
        limits: Limits | None = None,
        take_over: bool = False,
        force: bool = False,
        watch: Watch | None = None,
        clock: Clock | None = None,
        prices: PriceList | None = None,
        parallel: int = RUNNING_MAX,
        telemetry: Observer | None = None,
    ) -> None:
        plan = Plan(
            task,
            api,
            Toolbox(tools),
            system,
            limits,
            take_over=take_over,
            force=force,
            prices=prices,
            parallel=parallel,
            observer=telemetry,
        )
        self._shell = Shell(store, id, plan, clock or Clock(), watch)
        self._driver: Any = self._driver_type(self._shell)
        self._handed: TurnHandle | None = None

    def _check_answered(self) -> None:
        if self._handed is not None and not self._handed.answered:
            raise NotAllowed(f"turn {self._handed.number} has no response yet: call turn.respond(response) first")

    @property
    def checkpoint(self) -> Checkpoint:
        """Return the run as it is saved."""
        return self._shell.run

    @property
    def result(self) -> Result:
        """Return what the run has come to so far."""
        return self._shell.result()

    @property
    def answer(self) -> str | None:
        """Return the final answer's text; None unless the run is done."""
        return self.result.answer
