"""MCP servers for the tests: one of our own, forked at once from a process that has the SDK, and those of others."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from drive.conftest import drive  # noqa: F401  every sentence that takes it must be true of both drivers
from midstride import mcp_tools

HERE = Path(__file__).parent
NPM = HERE.parents[1] / "build" / "mcp-servers" / "node_modules" / ".bin"


@pytest.fixture(scope="session")
def forks():
    """The socket of a process that forks servers."""
    with tempfile.TemporaryDirectory(prefix="mcp") as folder:
        path = f"{folder}/socket"
        with subprocess.Popen([sys.executable, str(HERE / "server.py"), path]) as process:
            try:
                _until_it_listens(path, process)
                yield path
            finally:
                process.kill()


def _until_it_listens(path, process):
    while process.poll() is None:
        with suppress(FileNotFoundError, ConnectionRefusedError), socket.socket(socket.AF_UNIX) as asking:
            asking.connect(path)
            return
    raise AssertionError("the server's process ended")


@contextmanager
def in_the_middle_of(fifo, do):
    """Do something as soon as somebody has opened *fifo* to read from it; until it is done it gives no end."""
    os.mkfifo(fifo)
    over, reached = threading.Event(), threading.Event()

    def watch():
        with open(fifo, "wb"):
            fifo.unlink()
            if not over.is_set():
                reached.set()
                do()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        with ExitStack() as stack:  # open until the watcher, which may only be about to wait for a reader, has seen it
            if not reached.is_set():
                with suppress(FileNotFoundError):  # it is gone once somebody has got there
                    stack.callback(os.close, os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
            watching.join()
    assert reached.is_set(), "nobody got as far as the middle"


class Notes:
    """Our own server, by stdio or behind a port, and what its tools did."""

    def __init__(self, forks, folder, transport):
        self.forks, self.folder, self.transport = forks, folder, transport
        self.port = 0
        self.password = None
        if transport == "http":
            self.start()

    def start(self):
        """Start the one behind the port, on the port that it had; one over stdio is started by who uses it."""
        if self.transport == "http":
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(self.forks)
                wish = {"folder": str(self.folder), "port": self.port, "password": self.password}
                asking.sendall(json.dumps(wish).encode())
                told = json.loads(asking.recv(1000))
            assert isinstance(told, int), f"no server at port {self.port}: {told}"
            self.port = told

    @property
    def server(self):
        if self.transport == "http":
            return f"http://127.0.0.1:{self.port}/mcp"
        return [sys.executable, "-S", str(HERE / "launch.py"), self.forks, str(self.folder)]

    def tools(self, **options):
        return mcp_tools(self.server, **{"trusted": True, **options})

    def become(self, mode):
        """Let the server be another version of itself from now on."""
        (self.folder / "mode").write_text(mode)
        self.kill()
        self.start()

    @property
    def pid(self):
        return int((self.folder / "pid").read_text())

    @property
    def effects(self):
        path = self.folder / "effects"
        return path.read_text().splitlines() if path.exists() else []

    def kill(self):
        """End the server, and wait until it is gone; one over stdio may be already, with who used it."""
        try:
            process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], 30)
        finally:
            os.close(process)

    def go_down(self):
        """End the server, and let none start in its place."""
        (self.folder / "broken").touch()
        self.kill()

    @contextmanager
    def killed_in_the_middle(self, *, restart=True):
        """Kill the server as soon as a tool of it hangs in the middle of a call, and start it again."""
        with self.in_the_middle(lambda: (self.kill(), restart and self.start())):
            yield

    @contextmanager
    def in_the_middle(self, do):
        """Do something as soon as a tool of the server hangs in the middle of a call, after its effect."""
        with in_the_middle_of(self.folder / "held", do):
            yield

    @contextmanager
    def held(self):
        """Let one call of a tool hang after its effect, until the block ends."""
        ended = threading.Event()
        with self.in_the_middle(ended.wait):
            try:
                yield
            finally:
                ended.set()

    def end(self):
        with suppress(ProcessLookupError, FileNotFoundError):
            self.kill()


@pytest.fixture(params=["stdio", "http"])
def notes(request, forks, tmp_path):
    """Our own server, by each transport."""
    own = Notes(forks, tmp_path, request.param)
    yield own
    own.end()


@pytest.fixture
def stdio(forks, tmp_path):
    """Our own server, as a child."""
    own = Notes(forks, tmp_path, "stdio")
    yield own
    own.end()


@pytest.fixture
def http(forks, tmp_path):
    """Our own server, behind a port."""
    own = Notes(forks, tmp_path, "http")
    yield own
    own.end()


@pytest.fixture(scope="session")
def npm():
    """Return the command of a server from npm; `make build/mcp-servers/.ready` installs them."""
    if not NPM.is_dir():
        pytest.skip("the MCP servers from npm are not installed: make build/mcp-servers/.ready, which needs node")
    return lambda name, *args: [str(NPM / f"mcp-server-{name}"), *map(str, args)]
