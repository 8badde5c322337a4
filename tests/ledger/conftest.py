"""Both ways to make a call: every sentence that takes `once` must be true of both."""

import asyncio

import pytest

from midstride import Ledger
from midstride.stores import MemoryStore
from midstride.testing import SettableClock


class Way:
    """Makes a call through a ledger, blocking or asynchronously; scope "t" unless told otherwise."""

    def __init__(self, name):
        self.name = name

    def __call__(self, ledger, tool, call_id="c1", arguments=None, scope="t"):
        if self.name == "blocking":
            return ledger.once(tool, call_id, arguments or {}, scope=scope)
        return asyncio.run(ledger.once_async(tool, call_id, arguments or {}, scope=scope))


@pytest.fixture(params=["blocking", "async"])
def once(request):
    return Way(request.param)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def ledger(store):
    return Ledger(store, clock=SettableClock())
