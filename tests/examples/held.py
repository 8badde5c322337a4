"""A server in front of a server that takes an answer and keeps it, so that a program can be killed right before it."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self


class HeldAnswers:
    """Passes requests on to *port*; while `held` is wanted the answer comes no further, and `answered` is set."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.held = True
        self.answered = threading.Event()
        self._lines: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for line in self._lines:
            line.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            self._lines.append(line)
            thread = threading.Thread(target=self._pass_on, args=(line,))
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, line: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as server:
            request = _whole_request(line)
            if not request:
                return
            server.sendall(request)
            answer = b"".join(iter(lambda: server.recv(65_536), b""))  # HTTP/1.0: it ends with the connection
        if self.held:
            self.answered.set()
            return
        line.sendall(answer)
        line.shutdown(socket.SHUT_WR)


def _whole_request(line: socket.socket) -> bytes:
    """Return the request that comes on *line*; nothing where the line ends before it is whole."""
    data, wanted = b"", None
    while wanted is None or len(data) < wanted:
        more = line.recv(65_536)
        if not more:
            return b""
        data += more
        head, end, _ = data.partition(b"\r\n\r\n")
        if end:
            wanted = len(head + end) + _body_length(head)
    return data


def _body_length(head: bytes) -> int:
    return next((int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")), 0)
