"""The program that is killed: one agent over one of the three APIs, its effects on disk."""

import sys
import time
from pathlib import Path

from midstride import Agent, models, tool


def agent_of(api, url, folder, **more):
    """Return the agent, and the client to close."""
    sent, go_on = Path(folder, "sent"), Path(folder, "go on")

    @tool.read_only
    def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    @tool
    def send(n: int) -> str:
        """Send, and take long over it."""
        with sent.open("a") as file:
            file.write(f"{n}\n")
        while not go_on.exists():
            time.sleep(0.01)
        return f"sent {n}"

    if api == "anthropic":
        import anthropic

        client = anthropic.Anthropic(api_key="k", base_url=url)
        model = models.Anthropic("claude-opus-5", client=client)
    else:
        import openai

        client = openai.OpenAI(api_key="k", base_url=url + "/v1")
        made = {"openai-chat": models.OpenAIChat, "openai-responses": models.OpenAIResponses}
        model = made[api]("gpt-next", client=client)
    return Agent(model, [look, send], system="Be brief.", store=f"sqlite:{folder}/runs.db", **more), client


if __name__ == "__main__":
    agent, _ = agent_of(*sys.argv[1:])
    agent.run("go", "run")
