"""A server that answers a call with a task: it is accepted, asked about by any later process, and begun once."""

import json
import signal

import pytest
from mcp_program import start

from drive.scenes import agent_of, kinds, results, says, uses
from midstride.stores import MemoryStore
from midstride.testing import SettableClock

AT = 1_790_000_000.0


def stands(notes, status, **more):
    """Let the task stand so from now on."""
    (notes.folder / "task-1").write_text(json.dumps({"status": status, **more}))


def deploying(tools, **more):
    return agent_of([uses(("deploy", {"what": "site"})), says("Done.")], tools, store=MemoryStore(), **more)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def test_a_task_is_accepted_and_asked_about_when_the_server_says(notes, drive):
    clock = SettableClock()
    with notes.tools() as tools:
        agent = deploying(tools, clock=clock)
        first = drive(agent)
        assert (first.status, first.again_at) == ("waiting", AT + 60)
        stands(notes, "completed", result=text("deployed"))
        clock.at = AT + 61
        assert drive(agent).status == "done"
    assert results(agent) == [("deployed", False)]
    assert notes.effects == ["deploying site"]
    assert kinds(agent.store).count("accepted") == 2


def test_a_server_that_is_down_when_it_is_asked_is_asked_again_later(notes, drive):
    clock = SettableClock()
    with notes.tools() as tools:
        agent = deploying(tools, clock=clock)
        drive(agent)
        notes.go_down()
        clock.at = AT + 61
        waiting = drive(agent)
        assert waiting.status == "waiting"
        (notes.folder / "broken").unlink()
        notes.start()
        stands(notes, "completed", result=text("deployed"))
        clock.at = waiting.again_at + 1
        assert drive(agent).status == "done"
    assert results(agent) == [("deployed", False)]


@pytest.mark.parametrize(
    ("status", "more", "words"),
    [
        ("failed", {"status_message": "no disk"}, "Failed: The other side accepted it "),
        ("cancelled", {}, "Failed: The other side accepted it "),
        ("completed", {"result": text("no disk", isError=True)}, "Failed: The other side accepted it "),
        ("input_required", {}, "Outcome unknown: "),
        ("resting", {}, "Outcome unknown: "),
    ],
)
def test_how_a_task_ends_decides_what_is_told(http, drive, status, more, words):
    with http.tools() as tools:
        agent = deploying(tools)
        drive(agent)
        stands(http, status, **more)
        drive(agent, force=True)
    [(content, is_error)] = results(agent)
    assert content.startswith(words)
    assert "no disk" in content or not more
    assert is_error


def test_a_task_that_the_server_has_forgotten_is_in_doubt(http, drive):
    with http.tools() as tools:
        agent = deploying(tools)
        drive(agent)
        (http.folder / "task-1").unlink()
        drive(agent, force=True)
    [(content, _)] = results(agent)
    assert content.startswith("Outcome unknown: ")
    assert "there is no such task: it may have forgotten the task." in content


def test_a_server_that_dies_before_it_gave_the_tasks_id_leaves_the_call_unknown(notes, drive):
    with notes.tools() as tools, notes.killed_in_the_middle():
        agent = deploying(tools)
        drive(agent)
    [(content, _)] = results(agent)
    assert content.startswith("Outcome unknown: ")
    assert notes.effects == ["deploying site"]


def test_a_task_is_begun_once_though_its_program_is_killed_when_it_is_accepted(http):
    with start(http.folder, http.server, "deploy", "die at the poll", what="site") as process:
        process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    stands(http, "completed", result=text("deployed"))
    with start(http.folder, http.server, "deploy", what="site") as process:
        printed, _ = process.communicate(timeout=300)
    assert json.loads(printed)["content"] == "deployed"
    assert http.effects == ["deploying site"]
