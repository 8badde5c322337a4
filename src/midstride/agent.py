"""An agent: model, tools, system and limits in one value. `agent.run(task, id=...)` starts, carries on, or returns."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from midstride.core.apis import api_named
from midstride.core.cost import PriceList, check_prices
from midstride.core.journal import Limits
from midstride.core.settle import RUNNING_MAX
from midstride.drive.asynchronous import drive_async
from midstride.drive.blocking import drive
from midstride.drive.clock import Clock
from midstride.drive.importing import import_previous
from midstride.drive.observing import Observer
from midstride.drive.plan import Plan, check_observer, check_parallel
from midstride.drive.result import Result
from midstride.drive.shell import Shell
from midstride.drive.telling import Watch
from midstride.models import Model
from midstride.stores import Store
from midstride.tools import Tool, Toolbox

Json = Any


@dataclass(frozen=True)
class Agent:
    """Model, tools, system prompt and limits; *store* is a store or a URL, by default `sqlite:.midstride/runs.db`.

    System and tools are frozen when a run starts and sent from there; *limits* are the program's, and a change is
    recorded. *prices* are the model's, or a mapping of model names to prices: each answer's cost is recorded with it.
    At most *parallel* calls of a run go on at once, effects always one after the other; with 1 each call waits for the
    one before it. *telemetry* draws spans. Raises DeclarationError for what does not fit together.
    """

    model: Model
    tools: Sequence[Tool[..., Any]] = ()
    system: Json = None
    limits: Limits = field(default_factory=Limits)
    store: Store | str | None = None
    clock: Clock | None = None
    prices: PriceList | None = None
    parallel: int = RUNNING_MAX
    telemetry: Observer | None = None

    def __post_init__(self) -> None:
        api_named(self.model.api)
        Toolbox(self.tools)
        check_prices(self.limits, self.prices, self.model.params.get("model"))
        check_parallel(self.parallel)
        check_observer(self.telemetry)

    def run(
        self,
        task: Json,
        id: str | None = None,
        *,
        take_over: bool = False,
        force: bool = False,
        watch: Watch | None = None,
    ) -> Result:
        """Carry the run *id* to its end, from wherever it stands: the same id is the same piece of work, for ever.

        Without an *id* it is a new run with an id of its own, which the result names. Raises TaskDiffers, Held,
        ModelUnavailable and AccessRefused (both leave the run as it is: run the same program again).
        """
        return drive(self.shell(task, id or _new_id(), take_over, force, watch), self.model)

    async def run_async(
        self,
        task: Json,
        id: str | None = None,
        *,
        take_over: bool = False,
        force: bool = False,
        watch: Watch | None = None,
    ) -> Result:
        """Do the same without blocking the event loop."""
        return await drive_async(self.shell(task, id or _new_id(), take_over, force, watch), self.model)

    def resume(
        self,
        id: str,
        *,
        take_over: bool = False,
        force: bool = False,
        restored: bool = False,
        watch: Watch | None = None,
    ) -> Result:
        """Carry on a run that has started, whatever its task; raises UnknownRun.

        *restored* says that the store came back from a backup: calls that it does not tell of may have begun since, so
        every call of the last response without a result counts as intended.
        """
        return drive(self.shell(None, id, take_over, force, watch, restored=restored), self.model)

    async def resume_async(
        self,
        id: str,
        *,
        take_over: bool = False,
        force: bool = False,
        restored: bool = False,
        watch: Watch | None = None,
    ) -> Result:
        """Do the same without blocking the event loop."""
        return await drive_async(self.shell(None, id, take_over, force, watch, restored=restored), self.model)

    def import_previous(self, id: str, *, take_over: bool = False) -> None:
        """Take the previous generation of a damaged `checkpoint:` file, which is kept as `<name>.set-aside`.

        Its newest calls may have been started without it knowing: those without a result count as intended.
        """
        shell = self.shell(None, id, take_over, False, None)
        try:
            import_previous(shell)
        finally:
            shell.close()

    def shell(
        self,
        task: Json,
        id: str,
        take_over: bool = False,
        force: bool = False,
        watch: Watch | None = None,
        *,
        program: str = "",
        restored: bool = False,
    ) -> Shell:
        """Return the shell of a run, for a driver; *program* says where this agent can be found again."""
        plan = Plan(
            task=task,
            api=self.model.api,
            toolbox=Toolbox(self.tools),
            system=self.system,
            limits=self.limits,
            params=self.model.params,
            facts=self.model.facts,
            server_tools=self.model.server_tools,
            takes_prefill=self.model.takes_prefill,
            take_over=take_over,
            force=force,
            restored=restored,
            program=program,
            prices=self.prices,
            parallel=self.parallel,
            observer=self.telemetry,
        )
        return Shell(self.store, id, plan, self.clock or Clock(), watch)


def _new_id() -> str:
    return f"run-{uuid.uuid4().hex[:12]}"
