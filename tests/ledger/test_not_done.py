"""A ledger's call whose work another side takes, and is done with later."""

import pytest

from midstride import Context, Happened, Ledger, Pending, tool
from midstride.errors import NotDone
from midstride.testing import SettableClock


class Renderer:
    """A job API: a film takes two polls."""

    def __init__(self):
        self.begun, self.polled = [], []

        @tool(key=lambda film: film)
        def render(film: str, context: Context) -> object:
            self.begun.append(film)
            return context.accepted(f"job-{len(self.begun)}")

        @render.poll
        def stands(job: str) -> object:
            self.polled.append(job)
            return Pending(after=60) if len(self.polled) == 1 else Happened(f"{job} is done")

        self.render = render


@pytest.fixture
def clock():
    return SettableClock()


@pytest.fixture
def ledger(store, clock):
    return Ledger(store, clock=clock)


def test_work_that_goes_on_elsewhere_is_begun_once_and_asked_about(once, ledger, clock):
    renderer = Renderer()
    for _ in range(2):
        with pytest.raises(NotDone, match=r"^Not done yet: .* goes on elsewhere\..* from .* on to be told") as told:
            once(ledger, renderer.render, arguments={"film": "A"})
        assert told.value.again_at == clock.now() + 60
    assert (renderer.begun, renderer.polled) == (["A"], ["job-1"])
    clock.at += 60
    for _ in range(2):
        assert once(ledger, renderer.render, arguments={"film": "A"}) == "job-1 is done"
    assert (renderer.begun, renderer.polled) == (["A"], ["job-1", "job-1"])


def test_the_same_work_under_another_id_is_not_begun(once, ledger, clock):
    renderer = Renderer()
    with pytest.raises(NotDone):
        once(ledger, renderer.render, "c1", {"film": "A"})
    with pytest.raises(NotDone, match="goes on elsewhere") as told:
        once(ledger, renderer.render, "c2", {"film": "A"})
    assert told.value.run_id == "t/c1"
    clock.at += 60
    assert "job-1 is done" in once(ledger, renderer.render, "c2", {"film": "A"})
    assert renderer.begun == ["A"]
