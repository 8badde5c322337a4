"""What the scenarios are played with: a model server, worlds whose processes die, a stage for both ways to drive."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cases.stage import Stage
from crash.conftest import forks, gate_of, server
from crash.plan import World
from midstride.stores import open_store

__all__ = ["forks", "gate_of", "server"]


@pytest.fixture
def folder():
    """A folder in memory where there is one: a killed process loses nothing it wrote, whatever a disk does later."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="midstride-case-", dir=memory))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def world_of(folder, server, forks):
    """Makes worlds whose processes really die."""

    def make(task, **more):
        return World(folder / task, server, forks, task, **more).make()

    return make


@pytest.fixture(params=["sqlite", "checkpoint"])
def url(request, folder):
    """The URL of each store that keeps runs on disk."""
    return f"{request.param}:{folder / ('runs.db' if request.param == 'sqlite' else 'checkpoint.json')}"


@pytest.fixture
def store(url):
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture(params=["blocking", "async"])
def stage(request, store):
    """A scenario's stage: every scenario that is played on it is true of both ways to drive, on both stores."""
    made = Stage(request.param, store)
    yield made
    made.close()


def pytest_collection_modifyitems(items):
    """Count every case in the table of faults."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.fault("a failure that others had, by its steps", "tests/cases"))
