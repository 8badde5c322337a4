"""Servers that others wrote: their annotations, their content, and each of them killed in the middle of a call."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from drive.scenes import agent_of, results, says, uses
from mcp_servers.conftest import in_the_middle_of
from midstride import mcp_tools
from midstride.stores import MemoryStore
from midstride.tools import content_of


def told(tools, name, **arguments):
    agent = agent_of([uses((name, arguments)), says("Done.")], tools, store=MemoryStore())
    agent.run("go", "run")
    [result] = results(agent)
    return result


def with_pid(command, folder):
    """Return *command* such that its process says its pid in a file: the one that the server itself has."""
    return ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / "pid"), *command]


def kill(folder):
    with suppress(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def effects(tools):
    return {effect: sorted(tool.name for tool in tools if tool.effect == effect) for effect in ("idempotent", "unsafe")}


# ---- files


def test_the_file_server_is_believed(npm, tmp_path):
    with mcp_tools(npm("filesystem", tmp_path), trusted=True) as tools:
        assert effects(tools) == {
            "idempotent": ["create_directory", "write_file"],
            "unsafe": ["edit_file", "move_file"],
        }
        (tmp_path / "note").write_text("hello")
        assert told(tools, "read_text_file", path=str(tmp_path / "note")) == ("hello", False)
        content, is_error = told(tools, "read_text_file", path=str(tmp_path / "none"))
        assert content.startswith("Failed: it was answered with an error: ")
        assert "ENOENT" in content
        assert is_error


def test_the_file_server_dies_in_the_middle_of_an_edit(npm, tmp_path):
    path, edits = tmp_path / "note", [{"oldText": "a", "newText": "b"}]
    with mcp_tools(with_pid(npm("filesystem", tmp_path), tmp_path), trusted=True) as tools:
        with in_the_middle_of(path, lambda: kill(tmp_path)):
            content, _ = told(tools, "edit_file", path=str(path), edits=edits)
    assert content.startswith("Outcome unknown: edit_file(")


def test_the_file_server_dies_in_the_middle_of_a_read(npm, tmp_path):
    path = tmp_path / "note"

    def die():
        path.write_text("hello")  # a file now: the FIFO of that name is gone
        kill(tmp_path)

    with mcp_tools(with_pid(npm("filesystem", tmp_path), tmp_path), trusted=True) as tools, in_the_middle_of(path, die):
        assert told(tools, "read_text_file", path=str(path)) == ("hello", False)


# ---- memory


def test_the_memory_server_dies_in_the_middle_of_its_effect(npm, tmp_path):
    memory = tmp_path / "memory.jsonl"
    command = with_pid(npm("memory"), tmp_path)
    entities = [{"name": "Ada", "entityType": "person", "observations": []}]
    with mcp_tools(command, trusted=True, env={"MEMORY_FILE_PATH": str(memory)}) as tools:
        with in_the_middle_of(memory, lambda: kill(tmp_path)):
            content, _ = told(tools, "create_entities", entities=entities)
        assert content.startswith("Outcome unknown: create_entities(")
        assert told(tools, "create_entities", entities=entities)[1] is False
        assert "Ada" in str(told(tools, "search_nodes", query="Ada"))


# ---- git


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    for words in (["init", "-q", str(folder)], *(["-C", str(folder), "config", *c] for c in CONFIG)):
        subprocess.run(["git", *words], check=True)
    (folder / "note").write_text("hello")
    subprocess.run(["git", "-C", str(folder), "add", "note"], check=True)
    return folder


CONFIG = [("user.name", "A"), ("user.email", "a@example.com"), ("commit.gpgsign", "false")]


def test_the_git_server_dies_behind_a_commit(repository, tmp_path):
    hook, fifo = repository / ".git" / "hooks" / "post-commit", tmp_path / "held"
    hook.write_text(f"#!/bin/sh\ncat {fifo}\n")
    hook.chmod(0o755)
    command = with_pid([sys.executable, "-m", "mcp_server_git"], tmp_path)
    commit = {"repo_path": str(repository), "message": "One"}
    with mcp_tools(command, trusted=True) as tools:
        assert effects(tools)["idempotent"] == ["git_add", "git_reset"]
        with in_the_middle_of(fifo, lambda: kill(tmp_path)):
            content, _ = told(tools, "git_commit", **commit)
        assert content.startswith("Outcome unknown: git_commit(")
        log, is_error = told(tools, "git_log", repo_path=str(repository))
    assert "Message: One" in str(log)
    assert str(log).count("Commit:") == 1
    assert not is_error


def test_the_time_server_tells_the_time():
    with mcp_tools([sys.executable, "-m", "mcp_server_time"], trusted=True) as tools:
        content, is_error = told(tools, "get_current_time", timezone="Europe/Berlin")
    assert '"timezone": "Europe/Berlin"' in content
    assert not is_error


# ---- everything


@pytest.fixture(scope="module")
def everything(npm):
    with mcp_tools(npm("everything"), trusted=True) as tools:
        yield tools


def kinds(tools, name, **arguments):
    content = content_of(tools[name](**arguments))
    return [block["type"] for block in content] if isinstance(content, list) else content


def test_each_kind_of_content_is_shown(everything):
    assert kinds(everything, "echo", message="hi") == "Echo: hi"
    assert kinds(everything, "get-tiny-image") == ["text", "image", "text"]
    assert kinds(everything, "get-resource-reference", resourceType="Text", resourceId=1) == [
        "text",
        "document",
        "text",
    ]
    assert kinds(everything, "get-resource-links", count=2) == ["text"] * 3
    assert "at demo://resource/" in str(everything["get-resource-links"](count=2))
    assert kinds(everything, "get-structured-content", location="New York").startswith('{"temperature":')


def test_a_tool_that_only_runs_as_a_task_of_the_old_kind_is_a_definite_error(everything):
    content, is_error = told(everything, "simulate-research-query", topic="ships")
    assert "requires task augmentation" in content
    assert is_error


class DoesNotListen(AssertionError):
    """A server ended before it listened: another process may have taken its port."""


class Everything:
    """The same over HTTP, which speaks the older protocol with sessions that it forgets when it is restarted."""

    def __init__(self, command, port):
        self.command, self.port = command, port
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.command, "streamableHttp"],
            env=os.environ | {"PORT": str(self.port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = []
        for line in self.process.stderr:
            said.append(line)
            if "listening" in line.lower():
                return
        self.kill()
        raise DoesNotListen("".join(said))

    def kill(self):
        self.process.kill()
        self.process.communicate()


def everything_at_a_port(npm):
    """Start it at a port that was free a moment ago, and at another one where that was taken since."""
    for _ in range(3):
        with suppress(DoesNotListen):
            return Everything(npm("everything"), free_port())
    return Everything(npm("everything"), free_port())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_a_session_that_a_restarted_server_does_not_know_is_begun_anew(npm):
    server = everything_at_a_port(npm)
    try:
        with mcp_tools(f"http://127.0.0.1:{server.port}/mcp", trusted=False, only=["echo"]) as tools:
            assert told(tools, "echo", message="one") == ("Echo: one", False)
            server.kill()
            server.start()
            assert told(tools, "echo", message="two") == ("Echo: two", False)
    finally:
        server.kill()


def test_the_servers_are_those_of_the_package_file(npm):
    installed = Path(npm("echo")[0]).parents[2] / "package.json"
    assert installed.read_text() == (Path(__file__).parent / "package.json").read_text()
