"""An MCP server for the tests, made with the official SDK: its tools note what they do, hang, fail, or know a key.

Its folder holds what outlives it: `pid` of the newest server, `effects` (a line for each), and what a test may
make: `held`, a FIFO in which a tool hangs after its effect until a test has opened and closed it, `broken`, which
keeps a server from starting, and `mode`, which makes it another version of itself.

The SDK takes seconds to import. So `python server.py SOCKET` imports it once and then forks a server for whoever
connects: `launch.py`, a command with its stdin and stdout, or a test that wants one behind a port.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types
import uvicorn
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import ToolAnnotations

KEY = "dev.midstride/idempotency-key"
READS = ToolAnnotations(read_only_hint=True)
REPEATABLE = ToolAnnotations(idempotent_hint=True)
GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"


class Folder:
    """What outlives a server."""

    def __init__(self, path):
        self.path = Path(path)

    def note(self, line):
        with open(self.path / "effects", "a", encoding="utf-8") as effects:
            effects.write(line + "\n")

    def has(self, line):
        effects = self.path / "effects"
        return effects.exists() and line in effects.read_text(encoding="utf-8").splitlines()

    async def held(self):
        """Hang where there is the FIFO: from when a test has opened it until it closes it, or kills us."""
        fifo = self.path / "held"
        if fifo.exists():
            await anyio.to_thread.run_sync(lambda: fifo.open("rb").read(), abandon_on_cancel=True)


def server_of(folder, mode):
    server = MCPServer("notes", extensions=[Tasks(folder)])

    @server.tool(annotations=READS)
    async def look(text: str) -> str:
        """Look whether a text was sent."""
        await folder.held()
        return "there" if folder.has(f"sent {text}") else "not there"

    @server.tool(annotations=REPEATABLE)
    async def charge(cents: int, ctx: Context) -> str:
        """Charge once a key."""
        key = (ctx.request_context.meta or {}).get(KEY)
        known = folder.path / f"key-{key}"
        again = known.exists()
        if not again:
            folder.note(f"charged {cents}")
            known.touch()
        await folder.held()
        return f"charged {cents} with key {key}{', known' if again else ''}"

    @server.tool()
    async def fail(text: str) -> str:
        """Fail, as tools do."""
        raise ToolError(f"no room for {text}")

    @server.tool()
    async def deploy(what: str) -> str:
        """Deploy: this is answered with a task."""
        raise NotImplementedError

    @server.tool(annotations=READS)
    async def pid() -> int:
        """Return the server's pid."""
        return os.getpid()

    @server.tool(annotations=READS)
    async def picture() -> Image:
        """Return a picture."""
        return Image(data=GIF, format="gif")

    async def send(text: str) -> str:
        """Send a text: an effect."""
        folder.note(f"sent {text}")
        await folder.held()
        return f"sent {text}"

    async def send_loudly(text: str, loud: bool) -> str:
        """Send a text: an effect."""
        folder.note(f"sent {text}, {loud}")
        return f"sent {text}"

    if mode != "without send":
        server.add_tool(send_loudly if mode == "other schema" else send, name="send")
    return server


class Task(mcp_types.Result):
    """An answer of the tasks extension (SEP-2663), to a call and to a question about a task."""

    result_type: Literal["task", "complete"] = "complete"
    task_id: str
    status: str
    poll_interval_ms: int | None = None
    status_message: str | None = None
    result: dict[str, Any] | None = None


class AboutTask(mcp_types.RequestParams):
    task_id: str


class Tasks(Extension):
    """Answers `deploy` with a task, which a file of the folder outlives the server with; a test writes its status."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, folder):
        self.folder = folder

    async def intercept_tool_call(self, params, ctx, call_next):
        if params.name != "deploy":
            return await call_next(ctx)
        task = f"task-{len(list(self.folder.path.glob('task-*'))) + 1}"
        (self.folder.path / task).write_text('{"status": "working"}')
        self.folder.note(f"deploying {params.arguments['what']}")
        await self.folder.held()
        return Task(result_type="task", task_id=task, status="working")

    def methods(self):
        async def get(ctx, params):
            file = self.folder.path / params.task_id
            if not file.exists():
                raise MCPError(mcp_types.INVALID_PARAMS, "there is no such task")
            return Task(task_id=params.task_id, poll_interval_ms=60_000, **json.loads(file.read_text()))

        return [MethodBinding(method="tasks/get", params_type=AboutTask, handler=get)]


class Guarded:
    """Refuses whoever does not bring the password."""

    def __init__(self, app, password):
        self.app, self.password = app, password

    async def __call__(self, scope, receive, send):
        headers = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        if scope["type"] == "http" and self.password and headers.get("authorization") != f"Bearer {self.password}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await self.app(scope, receive, send)


def serve(wish, listening):
    """Be the server that was wished for, until its stdin ends or it is killed."""
    folder = Folder(wish["folder"])
    if (folder.path / "broken").exists():
        sys.exit("this server is broken")
    mode = folder.path / "mode"
    server = server_of(folder, mode.read_text() if mode.exists() else None)
    if listening is None:
        asyncio.run(server.run_stdio_async())
    else:
        app = Guarded(server.streamable_http_app(), wish.get("password"))
        uvicorn.Server(uvicorn.Config(app, log_level="critical", log_config=None)).run(sockets=[listening])


def fork(asking):
    """Fork a server for who asks: over the descriptors that came along, or behind a port that is told."""
    data, descriptors, _, _ = socket.recv_fds(asking, 65_536, 3)
    if not data:
        return  # somebody who wanted to know whether we listen
    wish = json.loads(data)
    try:
        listening = None if descriptors else socket.create_server(("127.0.0.1", wish["port"]))
    except OSError as error:  # somebody has taken the port since: that ends one test, and not all behind it
        asking.sendall(json.dumps(str(error)).encode())
        return
    if os.fork():
        for descriptor in descriptors:
            os.close(descriptor)
        if listening is not None:
            listening.close()
        return
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
            os.close(descriptor)
        (Path(wish["folder"]) / "pid").write_text(str(os.getpid()))
        if listening is not None:
            asking.sendall(json.dumps(listening.getsockname()[1]).encode())
        serve(wish, listening)
    except SystemExit as end:
        print(end, file=sys.stderr, flush=True)
    finally:
        os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    waiting = socket.socket(socket.AF_UNIX)
    waiting.bind(sys.argv[1])
    waiting.listen(16)
    while True:
        asking, _ = waiting.accept()
        with asking:
            fork(asking)
