"""Where a scenario is played: an agent of tools, Claude's SDK against the fake server, one way to drive, one store."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import traceback
import warnings
from typing import Any

import anthropic

from midstride import Agent, Limits
from midstride.models import Anthropic
from midstride.testing import FakeModel, SettableClock

HTTP = anthropic.DefaultHttpxClient()
"""Made once: to load the certificates takes longer than a whole scenario."""

Json = Any

HANGS_SECONDS = 120
"""How long a forked process may take."""


class Killed(BaseException):
    """The process is gone, as far as the driver can tell: nobody catches a crash."""


class Stage:
    """What one scenario is played with; *clock* stands still until it is set."""

    def __init__(self, way, store):
        self.way, self.store, self.clock = way, store, SettableClock()
        self.server = None

    def says(self, *script, **more):
        """Let the model answer this, by turn; a function of (request, number) is a script too."""
        self.close()
        self.server = FakeModel(script[0] if callable(script[0]) else list(script), **more)
        self.server.__enter__()

    def close(self):
        if self.server is not None:
            self.server.close()

    def run(self, *tools, task="go", id="run", limits=None, system=None, max_tokens=100, force=False, **more):
        """Start the run or carry it on, as the same program does that is run again."""

        def agent(**client):
            model = Anthropic("claude-opus-5", max_tokens=max_tokens, **client)
            options = {"limits": limits or Limits(), "store": self.store, "clock": self.clock, "system": system}
            return Agent(model, tools, **options)

        told = {"api_key": "k", "base_url": self.server.url}
        if self.way == "blocking":
            client = anthropic.Anthropic(http_client=HTTP, **told)
            return agent(client=client).run(task, id, force=force, **more)

        async def go():
            async with anthropic.AsyncAnthropic(**told) as client:
                return await agent(async_client=client).run_async(task, id, force=force, **more)

        return asyncio.run(go())

    def killed(self, *tools, **more):
        """Run a process that must die."""
        try:
            self.run(*tools, **more)
        except Killed:
            return
        raise AssertionError("nothing killed it")

    @property
    def results(self):
        """Return (content, is_error) of every result in the newest request, in its order."""
        return [(block["content"], block.get("is_error", False)) for block in self.blocks("tool_result")]

    def blocks(self, kind):
        """Return the blocks of this kind in the newest request."""
        messages = self.server.requests[-1]["messages"]
        lists = [message["content"] for message in messages if isinstance(message["content"], list)]
        return [block for content in lists for block in content if block["type"] == kind]

    def kinds(self, id="run"):
        """Return the kinds of the run's entries."""
        return [entry.body.kind for entry in self.store.read(id)]

    def entries(self, kind, id="run"):
        """Return the run's entries of one kind, as they are stored."""
        found = [json.loads(entry.text) for entry in self.store.read(id)]
        return [entry for entry in found if entry["kind"] == kind]


def forked(work):
    """Run *work* in a process of its own and return its exit code, or minus the signal that ended it."""
    lives, living = os.pipe()  # it ends with the process
    pid = fork(work)
    os.close(living)
    ended, _, _ = select.select([lives], [], [], HANGS_SECONDS)
    os.close(lives)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended, f"a forked process hangs: {work} has not ended in {HANGS_SECONDS} s"
    return code


def fork(work):
    """Start *work* in a process of its own, and return its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not matter to the child
        pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = work() or 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
