"""A process that is killed takes its open spans with it; the next one still leads to its trace."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from integrations.program import WAYS
from midstride.stores import SqliteStore

HERE = Path(__file__).parent
TESTS = HERE.parent


def python(folder, *words):
    """Run a program in *folder* to its end, and return how it ended."""
    paths = os.pathsep.join([str(TESTS), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])])
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": paths}
    ran = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    return ran.returncode, ran.stderr


def midstride(folder, command):
    return python(folder, "-m", "midstride.cli", *command.split(), "--store", "sqlite:runs.db")


@pytest.fixture
def folder(tmp_path):
    shutil.copy(HERE / "program.py", tmp_path)
    return tmp_path


def spans_in(folder):
    file = folder / "spans.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_process_is_found_by_the_link_of_the_next(folder, way):
    code, _ = python(folder, "program.py", way)
    assert code == -9
    left = spans_in(folder)
    code, said = python(folder, "program.py", way)
    assert (code, (folder / "sent").read_text()) == (0, "ann\n"), said
    (run,) = [span for span in spans_in(folder) if span["name"] == "invoke_agent"]
    (link,) = run["links"]
    assert (run["attributes"]["midstride.resumed"], run["attributes"]["midstride.status"]) == (True, "done")
    assert link["context"]["trace_id"] != run["context"]["trace_id"]
    told = [(e["attributes"]["midstride.move"], e["attributes"]["midstride.outcome"]) for e in reconciled(run)]
    assert told == [("settle", "unknown")]
    with closing(SqliteStore(folder / "runs.db")) as store:
        first = next(e.body for e in store.read("r") if e.body.kind == "taken")
    assert first.trace.split("-")[1:3] == [link["context"]["trace_id"][2:], link["context"]["span_id"][2:]]
    if "own" not in way:  # the answer's span had ended before the death: it stands below the run's, which is lost
        assert [span["name"] for span in left] == ["chat scripted"]
        assert (left[0]["context"]["trace_id"], left[0]["parent_id"]) == (
            link["context"]["trace_id"],
            link["context"]["span_id"],
        )


def reconciled(run):
    return [event for event in run["events"] if event["name"] == "midstride.reconcile"]


def test_the_command_line_draws_with_the_agents_telemetry(folder):
    code, _ = midstride(folder, "run program.py:agent --task go --id r")
    assert code == -9
    code, said = midstride(folder, "resume r")
    assert code == 0, said
    (run,) = [span for span in spans_in(folder) if span["name"] == "invoke_agent"]
    assert len(run["links"]) == 1
    for command in ("show r", "log r"):
        code, said = midstride(folder, command)
        assert code == 0, said
