"""The research agent on OpenAI Responses in the background: killed while an answer is under way, which is fetched."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from demo.scenes import EXAMPLES
from examples.programs import environment, run
from midstride.testing import Answer, FakeModel, Hold, calls

TASK = "What was decided about the printer?"
REPORT = {"name": "Printer", "text": "The label printer is replaced."}


def test_an_answer_that_is_under_way_when_the_process_dies_is_fetched(tmp_path: Path) -> None:
    go_on = threading.Event()
    hold = Hold(go_on, calls(("save_report", REPORT)), after_events=3)
    with FakeModel([calls(("search", {"words": "printer"})), hold, Answer("It is replaced.")]) as model:
        found = environment(model, tmp_path, RESEARCH_REPORTS=str(tmp_path / "reports"))
        with subprocess.Popen([sys.executable, EXAMPLES / "research.py", TASK, "printer"], env=found) as process:
            model.wait_for_fetches(3, 60.0)  # the first answer is fetched at once, the second is looked at and heard
            process.kill()
        asked = len(model.requests)
        go_on.set()
        assert run("research.py", TASK, "printer", environment=found) == "It is replaced.\n"
        assert len(model.requests) == asked + 1  # the last answer: the second was fetched
    assert (tmp_path / "reports" / "printer.md").read_text() == REPORT["text"]
