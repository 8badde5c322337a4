"""Worlds for the crash tests: the selected plans are carried out side by side, and each test waits for its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from crash.checks import check
from crash.plan import Forks, Gate, Plan, World, and_then, carry_out, model
from midstride.testing import FakeModel

SIDE_BY_SIDE = 3


class Crowd:
    """Carries plans out, a few at once, each in a world of its own."""

    def __init__(self, folder: Path, server: FakeModel) -> None:
        self.folder, self.server = folder, server
        self._numbers = count()
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._forks: SimpleQueue[Forks] = SimpleQueue()
        self._all_forks: list[Forks] = []
        self._futures: dict[tuple[str, Plan], Future[Any]] = {}

    def submit(self, kind: str, plan: Plan) -> Future[Any]:
        """Carry *plan* out, once, when its turn has come; *kind* "and then" means each second death too."""
        key = (kind, plan)
        if key not in self._futures:
            self._futures[key] = self._pool.submit(self._work, kind, plan)
        return self._futures[key]

    def _work(self, kind: str, plan: Plan) -> Any:
        forks = self._free_forks()
        try:
            folder = self.folder / f"plan-{next(self._numbers)}"
            world = plan.world(folder, self.server, forks)
            if kind == "and then":
                return and_then(plan, world, folder.with_name(f"{folder.name}-then"))
            return carry_out(plan, world)
        finally:
            self._forks.put(forks)

    def _free_forks(self) -> Forks:
        """Return one that nobody uses: there are never more than were needed at once."""
        try:
            return self._forks.get_nowait()
        except Empty:
            forks = Forks()
            self._all_forks.append(forks)
            return forks

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for forks in self._all_forks:
            forks.close()


@pytest.fixture(scope="session")
def crowd(crash_folder: Path, server: FakeModel) -> Iterator[Crowd]:
    crowd = Crowd(crash_folder, server)
    yield crowd
    crowd.close()


@pytest.fixture(scope="session")
def all_plans(request: pytest.FixtureRequest, crowd: Crowd) -> Crowd:
    """The crowd, with the plan of every selected test ahead of it: for the tests that wait for one of these only.

    With xdist each worker has selected all tests. One that has no test of a plan must not carry out all of them.
    """
    for item in request.session.items:
        plan = getattr(item, "callspec", None) and item.callspec.params.get("plan")
        if isinstance(plan, Plan):
            crowd.submit("once", Plan(plan.store, plan.mode, plan.task))
            crowd.submit("and then" if "then" in item.fixturenames else "once", plan)
    return crowd


@pytest.fixture(scope="session")
def crash_folder() -> Iterator[Path]:
    """A folder in memory where there is one: a killed process loses nothing it wrote, whatever a disk does later."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="midstride-", dir=memory)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[FakeModel]:
    with model() as server:
        yield server


@pytest.fixture
def carried(all_plans: Crowd, plan: Plan) -> World:
    """The world in which the test's plan was carried out."""
    world: World = all_plans.submit("once", plan).result()
    return world


@pytest.fixture
def then(all_plans: Crowd, plan: Plan) -> dict[str, World]:
    """The worlds in which the test's plan was carried out with each second death."""
    worlds: dict[str, World] = all_plans.submit("and then", plan).result()
    return worlds


@pytest.fixture
def unkilled(all_plans: Crowd, plan: Plan) -> World:
    """The world in which the same program ran without a death."""
    world: World = all_plans.submit("once", Plan(plan.store, plan.mode, plan.task)).result()
    return world


@pytest.fixture
def is_done_right(crowd: Crowd) -> Callable[[World], None]:
    """Checks a world that a test led by hand against the one without a death."""

    def check_it(world: World) -> None:
        check(world, crowd.submit("once", Plan(world.store, world.mode, world.task)).result())

    return check_it


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def world_of(tmp_path: Path, server: FakeModel, forks: Forks) -> Callable[..., World]:
    """Makes worlds for a test that leads its processes by hand."""

    def make(task: str, **more: Any) -> World:
        return World(tmp_path / task, server, forks, task, **more).make()

    return make


@pytest.fixture
def gate_of() -> Iterator[Callable[[World], Gate]]:
    """Makes the gates at which processes hold; at the test's end they stand open."""
    gates: list[Gate] = []

    def make(world: World) -> Gate:
        gates.append(Gate(world.folder))
        return gates[-1]

    yield make
    for gate in gates:
        gate.close()
