"""A whole program with the tools of an MCP server, in a process that can be killed."""

import json
import subprocess
import sys

from docs.blocks import environment

PROGRAM = """
import json, os, signal, sys
from midstride import Agent, mcp_tools, models
from midstride.core.steps import PollUp

def die_at(event):
    if "die at the poll" in sys.argv and isinstance(event, PollUp):
        os.kill(os.getpid(), signal.SIGKILL)

tools = mcp_tools(json.loads(sys.argv[1]), trusted=True)
name, arguments = json.loads(sys.argv[2])
model = models.Scripted([[(name, arguments)], "Done."])
agent = Agent(model, tools=[*tools], store="sqlite:runs.db")
agent.run("Do it", id="run", watch=die_at, force=True)
print(json.dumps(model.requests[-1]["messages"][-1]["content"][0]))
"""


def start(folder, server, name, *more, **arguments):
    command = [sys.executable, "-W", "error", "-c", PROGRAM, json.dumps(server), json.dumps([name, arguments]), *more]
    return subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True)
