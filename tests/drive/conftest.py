"""Both ways to drive an agent: every sentence that takes `drive` must be true of both."""

import asyncio

import pytest


class Way:
    """Carries a run on, blocking or asynchronously."""

    def __init__(self, name):
        self.name = name

    def __call__(self, agent, task="go", id="run", **more):
        if self.name == "blocking":
            return agent.run(task, id, **more)
        return asyncio.run(agent.run_async(task, id, **more))


@pytest.fixture(params=["blocking", "async"])
def drive(request):
    return Way(request.param)
