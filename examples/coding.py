"""An agent that works on code in a folder, with the tools of the filesystem MCP server. Killed anywhere? Run it again.

    CODING_FOLDER=~/project python examples/coding.py "Make the failing test pass" [RUN_ID]

The server is the official one, started with npx unless CODING_SERVER names another command. It is trusted, so its
annotations count: what only reads is read again after a crash. Its write_file says that it may be repeated; that is
taken back here, since somebody may have worked on the file between the crash and the resume. The key of the model's
API is in ANTHROPIC_API_KEY.
"""

import os
import shlex
import sys
from pathlib import Path

from midstride import Agent, Context, Limits, mcp_tools, models, tool

FOLDER = Path(os.environ.get("CODING_FOLDER") or ".").expanduser().resolve()
SERVER = shlex.split(os.environ.get("CODING_SERVER") or "npx -y @modelcontextprotocol/server-filesystem@2026.8.31")
TESTS = shlex.split(os.environ.get("CODING_TESTS") or f"{shlex.quote(sys.executable)} -m unittest")

files = mcp_tools(
    [*SERVER, str(FOLDER)],
    trusted=True,
    only=["read_text_file", "list_directory", "search_files", "write_file", "edit_file"],
    effects={"write_file": "unsafe"},
)


@tool.read_only(timeout=300)
def run_tests(context: Context) -> str:
    """Run the project's tests and return what they print."""
    done = context.run(TESTS, cwd=FOLDER)  # killed with this call, whatever ends it
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


agent = Agent(
    models.Anthropic("claude-sonnet-5-5"),
    tools=[*files, run_tests],
    system=f"You work on the code in {FOLDER}. Read before you write, and run the tests at the end.",
    limits=Limits(turns=100),
)

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    result = agent.run(sys.argv[1], id=sys.argv[2] if len(sys.argv) > 2 else None)
    print(result.answer or f"{result.status}: {result.why}")
