"""The coding agent over the real filesystem MCP server: killed in the middle of its tests, and carried on."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from demo.scenes import EXAMPLES
from examples.programs import environment, run
from midstride.testing import Answer, FakeModel, calls

WRONG = "def double(x):\n    return x + x + x\n"
RIGHT = "def double(x):\n    return x + x\n"


def open_behind_the_end(process: subprocess.Popen[bytes], fifo: Path) -> None:
    """Read from *fifo* when nobody else will any more, so that whoever opens it to write does not wait for ever."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(120)
    os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))


def test_a_coding_agent_that_is_killed_while_its_tests_run_edits_once(
    npm: Callable[..., list[str]], tmp_path: Path
) -> None:
    code, fifo = tmp_path / "code" / "maths.py", tmp_path / "tests-are-running"
    code.parent.mkdir()
    code.write_text(WRONG)
    os.mkfifo(fifo)
    edit = {"path": str(code), "edits": [{"oldText": "x + x + x", "newText": "x + x"}]}
    script = [
        calls(("read_text_file", {"path": str(code)})),
        calls(("edit_file", edit), ("run_tests", {})),
        Answer("It doubles now."),
    ]
    check = f"import maths; assert maths.double(2) == 4; open({str(fifo)!r}).read(); print('fine')"
    with FakeModel(script) as model:
        found = environment(
            model,
            tmp_path,
            CODING_FOLDER=str(code.parent),
            CODING_SERVER=shlex.join(npm("filesystem")),
            CODING_TESTS=shlex.join([sys.executable, "-B", "-c", check]),
        )
        with subprocess.Popen([sys.executable, EXAMPLES / "coding.py", "Mend double", "mend"], env=found) as process:
            living = threading.Thread(target=open_behind_the_end, args=(process, fifo))
            living.start()
            with open(fifo, "w"):  # opens once the tests read from it
                assert living.is_alive(), "it ended, or did not come to its tests"
                process.kill()
        living.join()
        assert code.read_text() == RIGHT
        fifo.unlink()
        fifo.touch()
        assert run("coding.py", "Mend double", "mend", environment=found) == "It doubles now.\n"
        edited, tested = (block["content"] for block in model.requests[-1]["messages"][-1]["content"])
    assert code.read_text() == RIGHT
    assert "-    return x + x + x" in str(edited)
    assert tested == "exit 0\nfine\n"
