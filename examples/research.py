"""An agent that answers a question from a folder of notes, on OpenAI Responses in the background. Killed? Run it again.

    RESEARCH_FOLDER=~/papers python examples/research.py "What was decided, and why?" [RUN_ID]

Background mode makes the model's own answers durable: one that was under way when the process died is fetched by its id
and not paid twice. The report is written once; after a crash the agent looks whether it is there. RESEARCH_WEB=1 lets
the model search the web, which happens at OpenAI. The key of the model's API is in OPENAI_API_KEY.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from midstride import Agent, DidNotHappen, Happened, models, tool

FOLDER = Path(os.environ.get("RESEARCH_FOLDER") or Path(__file__).parent / "notes").expanduser()
REPORTS = Path(os.environ.get("RESEARCH_REPORTS") or "reports")


@tool.read_only
def search(words: str) -> list[str]:
    """Return the lines of all texts in which one of the words stands, each behind the name of its text."""
    wanted = re.compile("|".join(map(re.escape, words.split())), re.IGNORECASE)
    lines = [f"{path.name}: {line}" for path in texts() for line in path.read_text("utf-8").splitlines()]
    return [line for line in lines if wanted.search(line)]


@tool.read_only
def read(name: str) -> str:
    """Read one text, by its name."""
    found = [path for path in texts() if path.name == name]
    if not found:
        raise ValueError(f"there is no text {name!r}; there are: {', '.join(path.name for path in texts())}")
    return found[0].read_text("utf-8")


@tool.verifiable(timeout=30)
def save_report(name: str, text: str) -> str:
    """Save the report under a name such as "decisions"."""
    path = report(name)
    REPORTS.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=REPORTS) as draft:
        draft.write(text)
        draft.flush()
        try:
            os.link(draft.name, path)  # whole or not at all, and never over another report
        except FileExistsError:
            raise DidNotHappen(f"There is a report {path.name} already: choose another name.") from None
    return f"Saved {path.name}"


@save_report.verify
def find_report(name: str, text: str) -> Happened | DidNotHappen:
    """Look whether the report is there."""
    path = report(name)
    if path.exists() and path.read_text("utf-8") == text:
        return Happened(f"Saved {path.name}")
    return DidNotHappen("The report is not there.")


def texts() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.suffix in (".md", ".txt"))


def report(name: str) -> Path:
    return REPORTS / f"{re.sub('[^a-z0-9-]+', '-', name.lower()).strip('-') or 'report'}.md"


agent = Agent(
    models.OpenAIResponses(
        "gpt-5.5",
        background=True,
        server_tools=[{"type": "web_search"}] if os.environ.get("RESEARCH_WEB") else [],
    ),
    tools=[search, read, save_report],
    system="You answer from the texts you are given, name the ones you used, and save a report before you answer.",
)

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    result = agent.run(sys.argv[1], id=sys.argv[2] if len(sys.argv) > 2 else None)
    print(result.answer or f"{result.status}: {result.why}")
