"""The memory store: the reference that the others are measured by."""

import pytest

from midstride.stores import MemoryStore
from midstride.testing.conformance import store_conformance

_shared = {}
CHECKS = store_conformance(lambda folder: _shared.setdefault(folder, MemoryStore()), processes=False)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_memory_store_keeps_its_promise(check, tmp_path):
    check(tmp_path)


def test_two_memory_stores_share_nothing():
    one, other = MemoryStore(), MemoryStore()
    one.lease("run")
    assert other.lease("run").held()
