"""A program with telemetry whose tool kills its process: `python program.py WAY`, in a folder of its own.

Its spans go to `spans.jsonl`, one line each, as they end.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from integrations.seeing import ToFile
from midstride import Agent, AsyncRun, models, tool
from midstride.integrations.opentelemetry import Telemetry

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ToFile("spans.jsonl")))


@tool
def send(to: str) -> str:
    """Send, and die."""
    with Path("sent").open("a") as file:
        file.write(f"{to}\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "sent"


SCRIPT = [[("send", {"to": "ann"})], "Done."]
agent = Agent(models.Scripted(SCRIPT), tools=[send], store="sqlite:runs.db", telemetry=Telemetry(provider))


async def own_loop_async():
    model = models.Scripted(SCRIPT)
    async with AsyncRun("sqlite:runs.db", "r", "go", tools=[send], telemetry=Telemetry(provider)) as run:
        async for turn in run:
            await turn.respond(model.ask(turn.request, print))


WAYS = {
    "blocking": lambda: agent.run("go", "r"),
    "own loop, async": lambda: asyncio.run(own_loop_async()),
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
