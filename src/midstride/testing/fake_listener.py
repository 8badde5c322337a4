"""The listener of the fake model: it performs steps on sockets, and ends when told to."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Wait:
    """Nothing is sent until this: an event, a file that exists, or seconds."""

    until: threading.Event | Path | float


@dataclass(frozen=True)
class End:
    """The connection ends here: closed, or reset so that the other side meets an error."""

    reset: bool


Step = bytes | Wait | End


class Listener(ThreadingHTTPServer):
    """Serves from `start` to `stop`; *answer* says what to do on the connection that brought a request."""

    daemon_threads = True

    def __init__(self, port: int, answer: Callable[[str, str, Mapping[str, str], bytes], list[Step]]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer
        self.closing = threading.Event()
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        # The short interval is how long stop() may have to wait.
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), name="fake model", daemon=True)

    def start(self) -> None:
        """Serve, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and end every connection."""
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, timeout=10)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection."""
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, in order or with a reset."""
        # The usual shutdown would send an orderly end in front of a reset.
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER):
            self.close_request(request)
        else:
            super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong here."""
        # A client that went away, killed or content, is no error of the server's.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:
            raise ConnectionAbortedError("the client left in the middle of its request")
        headers = {name.lower(): value for name, value in self.headers.items()}
        for step in self.server.answer(self.command, self.path, headers, raw):
            self._perform(step)

    do_GET = do_HEAD = do_POST

    def _perform(self, step: Step) -> None:
        match step:
            case bytes():
                self.wfile.write(step)
            case Wait(until):
                self._wait(until)
            case End(reset):
                self.close_connection = True
                if reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _wait(self, until: threading.Event | Path | float) -> None:
        closing = self.server.closing
        if isinstance(until, threading.Event):
            while not until.wait(0.01) and not closing.is_set():
                pass
        elif isinstance(until, Path):
            while not until.exists() and not closing.wait(0.01):
                pass
        else:
            closing.wait(until)
        if closing.is_set():
            raise ConnectionAbortedError("the server closes; what it held is given up")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: what came is in the server's lists and in its log."""
