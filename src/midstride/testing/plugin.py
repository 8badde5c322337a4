"""The pytest plugin that comes with midstride: fixtures and options, all imported when a test first asks for them.

fake_model        makes model servers on loopback: `server = fake_model([calls(...), Answer("Done.")])`
settable_clock    a clock that a test sets, for `Agent(clock=...)`
memory_store, sqlite_store, checkpoint_store, each_store
                  a store of its own for the test, closed behind it; `each_store` runs the test once with every kind
crash_everywhere  `midstride.testing.crash_everywhere`; a failure says how to replay it with `--crash-plan`
store_check       one promise of a store: `@pytest.mark.store_conformance(make_store=...)` runs the test with each
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from midstride.stores import CheckpointStore, MemoryStore, SqliteStore, Store
    from midstride.testing import FakeModel, SettableClock
    from midstride.testing.crash import CrashReport, MakeScene

SAMPLE = 60
"""How many plans with more than one death a test carries out unless told `--crash=long`: well under a second."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("midstride")
    group.addoption(
        "--crash",
        choices=("sample", "long"),
        default="sample",
        help="how many plans with several deaths `crash_everywhere` carries out: a sample, or all of them",
    )
    group.addoption("--crash-plan", metavar="PLAN", help="replay one plan, as a failure of `crash_everywhere` says it")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "store_conformance(make_store=..., several_runs=True, processes=True): run the test with each `store_check` "
        "of the stores that make_store makes in a folder",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `store_check` with each check of its marker's stores."""
    if "store_check" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("store_conformance")
    if marker is None or marker.args or "make_store" not in marker.kwargs:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} takes store_check: mark it with "
            "@pytest.mark.store_conformance(make_store=lambda folder: ...)"
        )
    from midstride.testing import store_conformance

    metafunc.parametrize("store_check", store_conformance(**marker.kwargs), ids=str)


@pytest.fixture
def fake_model() -> Iterator[Callable[..., FakeModel]]:
    """Make model servers on loopback; they end with the test."""
    from contextlib import ExitStack

    from midstride.testing import FakeModel

    with ExitStack() as servers:
        yield lambda script, **more: servers.enter_context(FakeModel(script, **more))


@pytest.fixture
def settable_clock() -> SettableClock:
    """Return a clock that stands still until it is set or waited for."""
    from midstride.testing import SettableClock

    return SettableClock()


@pytest.fixture
def memory_store() -> Iterator[MemoryStore]:
    """Return a store in memory."""
    from midstride.stores import MemoryStore

    yield from _closed(MemoryStore())


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Return a store in a database of its own."""
    from midstride.stores import SqliteStore

    yield from _closed(SqliteStore(tmp_path / "runs.db"))


@pytest.fixture
def checkpoint_store(tmp_path: Path) -> Iterator[CheckpointStore]:
    """Return a store in a file of its own, which holds one run."""
    from midstride.stores import CheckpointStore

    yield from _closed(CheckpointStore(tmp_path / "checkpoint.json"))


def _closed(store: Any) -> Iterator[Any]:
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(params=["memory", "sqlite", "checkpoint"])
def each_store(request: pytest.FixtureRequest) -> Store:
    """Return a store of each kind, one after the other."""
    store: Store = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture
def crash_everywhere(request: pytest.FixtureRequest) -> Callable[..., CrashReport]:
    """Return `midstride.testing.crash_everywhere` with the options of this pytest run.

    Every plan with one death is carried out, and of those with more a sample, or all with `--crash=long`, unless the
    test says how many.
    """
    from midstride.testing import CrashPlan, crash_everywhere

    option = request.config.getoption
    plan = option("--crash-plan")
    only = None if plan is None else CrashPlan.parse(plan)
    long = " --crash=long" if option("--crash") == "long" else ""
    replay = f"replay: pytest {shlex.quote(request.node.nodeid)}{long} --crash-plan"

    def everywhere(make_scene: MakeScene, *, deaths: int = 2, sample: int | None = None) -> CrashReport:
        chosen = SAMPLE if sample is None and not long else sample
        return crash_everywhere(make_scene, deaths=deaths, sample=chosen, only=only, replay=replay)

    return everywhere
