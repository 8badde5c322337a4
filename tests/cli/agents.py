"""Agents for the tests of the command line, in the folder of a test: the files beside this one tell what happens.

`send.gate` holds the tool `send`, `send.kill` lets it kill its process after the effect; `sent` has its effects.
"""

import os
import signal
import sys
from pathlib import Path

from midstride import Accepted, Agent, Context, Happened, Limits, Pending, Prices, models, tool
from midstride.core.steps import Lost, Refused
from midstride.errors import AccessRefused

HERE = Path(__file__).parent


def told(name, what):
    """Note that *name* had its effect; wait or die as the test wants it."""
    with open(HERE / "sent", "a", encoding="utf-8") as file:
        file.write(f"{what}\n")
    if (HERE / f"{name}.kill").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (HERE / f"{name}.gate").exists():
        (HERE / f"{name}.gate").open("w").close()  # until the test has opened it too
        (HERE / f"{name}.go").open().close()


@tool.read_only
def look(name: str) -> str:
    """Look something up."""
    hostile = HERE / "hostile"
    return hostile.read_bytes().decode() if hostile.exists() else f"seen {name}"


@tool(in_doubt="ask")
def send(to: str) -> str:
    """Send a letter; a doubt is put to a person."""
    told("send", to)
    return f"sent to {to}"


@tool
def post(to: str) -> str:
    """Send a letter; a doubt is told to the model."""
    told("post", to)
    return f"posted to {to}"


@tool
def pay(cents: int) -> str:
    """Pay."""
    told("pay", cents)
    return f"paid {cents}"


@tool
def render(film: str, context: Context) -> Accepted:
    """Hand a film over to somebody who renders it."""
    told("render", film)
    return context.accepted({"job": 7})


@render.poll
def how_it_stands(handle, film: str) -> Happened | Pending:
    """Say what the file `render.stands` says: that it is done, or in how many seconds to ask again."""
    stands = (HERE / "render.stands").read_text()
    return Happened(f"{film}.mp4 by job {handle['job']}") if stands == "done" else Pending(after=float(stands))


@tool(approval=True)
def transfer(cents: int) -> str:
    """Transfer money, once a person has said yes."""
    told("transfer", cents)
    return f"transferred {cents}"


@tool
async def block(to: str) -> str:
    """Block the event loop, as a tool does that was wrongly made async."""
    told("block", to)
    return "done"


@tool
def make(fifo: str, context: Context) -> str:
    """Run a command that lasts and holds a FIFO open, as does its child."""
    line = f"exec 9> {fifo}; (trap '' TERM INT; sleep 600) & echo begun >&9; sleep 600"
    return context.run(["/bin/sh", "-c", line]).stdout


@tool
def leave(code: int) -> str:
    """End the process."""
    sys.exit(code)


@tool
def chat(words: str) -> str:
    """Print to standard output, as careless tools do."""
    print(words)
    return "printed"


TOOLS = [look, send, post, pay, transfer, block, leave, chat, render]


def scripted(*script, **more):
    return Agent(models.Scripted(list(script)), tools=TOOLS, **more)


def cut(request, number):
    return {"role": "assistant", "content": [{"type": "text", "text": "and"}], "stop_reason": "max_tokens", "usage": {}}


class OutOfReach(models.Scripted):
    def ask(self, request, draft, handle=None):
        raise AccessRefused("the key is refused (401): set ANTHROPIC_API_KEY")


class Broken(models.Scripted):
    def ask(self, request, draft, handle=None):
        raise LookupError("a fault of the model's\nown code")


class Away(models.Scripted):
    def ask(self, request, draft, handle=None):
        return Lost("overloaded", wait=700.0)


mail = scripted([("look", {"name": "monday"})], [("send", {"to": "ann"})], "All is sent.")
letter = scripted([("post", {"to": "ann"})], "It is posted.")
film = scripted([("render", {"film": "Alps"})], "Rendered.")
payment = scripted([("pay", {"cents": 100})], "Paid.")
transferring = scripted([("transfer", {"cents": 100})], "Transferred.")
capped = scripted([("look", {"name": "monday"})], "Done.", limits=Limits(turns=1))
costly = scripted([("look", {"name": "monday"})], "Done.", limits=Limits(cost=0.001), prices=Prices(10, 100))
hello = scripted("Hello.")
hostile = scripted([("look", {"name": "\x1b]0;evil\x07\u202e\rx"})], "\x1b[31mred\x1b[0m \u202egnp.exe\rover \x9b2J")
blocking = scripted([("block", {"to": "ann"})], "Done.")
making = Agent(models.Scripted([[("make", {"fifo": "fifo"})], "Made."]), tools=[make])
leaving = scripted([("leave", {"code": 3})], "Done.")
chatty = scripted([("chat", {"words": "NOISE"})], "Done.")
own_store = scripted("Hello.", store="sqlite:own.db")
in_memory = scripted("Hello.", store="memory:")
cutting = Agent(models.Scripted(cut), tools=TOOLS)
refused = Agent(models.Scripted(lambda request, number: Refused("the request is too long (413)")), tools=TOOLS)
key_refused = Agent(OutOfReach([]), tools=TOOLS)
away = Agent(Away([]), tools=TOOLS)
broken = Agent(Broken([]), tools=TOOLS)
claude = Agent(models.Anthropic("claude-opus-5"), tools=TOOLS)
no_agent = "a string"
