"""The rule of who may append what, for every kind of entry that there is."""

import pytest

from core.test_journal import EVERY_KIND
from midstride.core.journal import OUTSIDE, seal
from midstride.core.run import NEW
from midstride.errors import Fenced
from midstride.stores.fence import fence

NEEDS_THE_LEASE = [body for body in EVERY_KIND if body.kind not in OUTSIDE]


@pytest.mark.parametrize("body", NEEDS_THE_LEASE, ids=[f"{n}-{body.kind}" for n, body in enumerate(NEEDS_THE_LEASE)])
def test_nobody_appends_this_without_the_lease(body):
    with pytest.raises(Fenced):
        fence("run", 1, 0, seal([body], NEW.head, 0.0), None)
