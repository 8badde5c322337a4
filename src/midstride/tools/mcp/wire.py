"""What goes over the wire to an MCP server: told apart is what was never sent and what may have arrived.

The SDK reports a request that could not be sent and one whose answer was lost alike, and one failed HTTP request takes
all others of its client along. So requests are counted where they are written, and an HTTP request that fails is
answered here by an error of its own that says which it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, TextIO, TypeVar

import anyio
import httpx2
from mcp import types as protocol
from mcp.client._transport import WriteStream

__all__ = ["FATE", "RPC_REFUSALS", "LastWords", "Written", "wire"]

T = TypeVar("T")

FATE = "dev.midstride/fate"
"""Where an error that is made here says what became of its request: "unsent", "lost" or "refused"."""

LAST_WORDS = 2_000
"""Characters of a server's stderr that are kept for an error text; the end says why it died."""

CONNECT_SECONDS = 10.0
"""How long making one HTTP connection may take; how long an answer may take is the call's own time."""

# Requests after which the world may differ, and those about them; a handshake that fails is retried as a whole.
WATCHED = ("tools/call", "tasks/")

# A client's own fault, told before anything is done. Not 408 and 409: the request was begun, or another one like it.
REFUSALS = frozenset(range(400, 500)) - {408, 409}

RPC_REFUSALS = frozenset({
    protocol.INVALID_REQUEST,
    protocol.METHOD_NOT_FOUND,
    protocol.INVALID_PARAMS,
    protocol.HEADER_MISMATCH,
    protocol.MISSING_REQUIRED_CLIENT_CAPABILITY,
    protocol.UNSUPPORTED_PROTOCOL_VERSION,
    protocol.URL_ELICITATION_REQUIRED,
})  # fmt: skip
"""JSON-RPC errors that say that the request itself cannot be served; any other may come from within the tool."""

# What a server answers whose sessions were lost with a restart: the specification's, and what others make of it.
SESSION_LOST = (400, 404)


class Written(Generic[T]):
    """The stream to a server, and how many messages were put into it; one that was not taken does not count."""

    def __init__(self, stream: WriteStream[T]) -> None:
        self._stream = stream
        self.count = 0

    async def send(self, item: T, /) -> None:
        """Hand *item* to the transport."""
        self.count += 1  # before: a send that is cancelled may have handed it over all the same
        try:
            await self._stream.send(item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.count -= 1
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Written[T]:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


# ---- HTTP


def wire(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return an HTTP client with *headers* whose failed requests do not take the others along."""
    return _Wire(headers=dict(headers), timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS))


class _Wire(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send *request*; for a call there is always a response, an error of ours where the server gave none."""
        if not _method(request).startswith(WATCHED):
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _failure(request, "unsent", str(error) or type(error).__name__)
        except httpx2.TransportError as error:
            return _failure(request, "lost", str(error) or type(error).__name__)
        return await _judged(request, response)


def _method(request: httpx2.Request) -> str:
    if request.method != "POST":
        return ""
    message = json.loads(request.content or b"{}")
    return str(message.get("method", "")) if isinstance(message, dict) else ""


async def _judged(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return *response* where the SDK reads it as it is meant, else what it means."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    status = response.status_code
    if 300 <= status < 400 or (status == 200 and kind in ("application/json", "text/event-stream")):
        return response
    try:
        body = await response.aread()
    except httpx2.TransportError:
        body = b""
    error = _error_of_rpc(body)
    await response.aclose()
    if status >= 500 and error is not None:
        return response
    said = error["message"] if error is not None else f"it answered with status {status}"
    about_call = error is not None and error["code"] in (protocol.INVALID_PARAMS, protocol.METHOD_NOT_FOUND)
    if status in SESSION_LOST and "mcp-session-id" in request.headers and not about_call:
        return _failure(request, "unsent", said)
    if error is not None and error["code"] in RPC_REFUSALS:
        return response
    return _failure(request, "refused" if status in REFUSALS else "lost", said)


def _error_of_rpc(body: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(body)
    except ValueError:
        return None
    error = message.get("error") if isinstance(message, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        return None
    return {"code": error["code"], "message": str(error.get("message"))}


def _failure(request: httpx2.Request, fate: str, why: str) -> httpx2.Response:
    error = {"code": protocol.CONNECTION_CLOSED, "message": why, "data": {FATE: fate}}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


# ---- a process's stderr


class LastWords:
    """The end of what a server's process said on stderr, read all the while so that it is never blocked."""

    def __init__(self) -> None:
        self._said = b""
        self._pipe: int | None = None

    @contextlib.contextmanager
    def hearing(self) -> Iterator[TextIO]:
        """Give the writing end of a pipe to be inherited; what comes out of it is read by the running loop."""
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        asyncio.get_running_loop().add_reader(self._pipe, self._read)
        with os.fdopen(theirs, "w") as errors:
            yield errors

    def _read(self) -> None:
        if self._pipe is None:
            return
        try:
            data = os.read(self._pipe, 65_536)
        except BlockingIOError:
            return
        self._said = (self._said + data)[-LAST_WORDS:]
        if not data:
            self.close()

    def close(self) -> None:
        """Hear no more; to be called in the loop."""
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def __str__(self) -> str:
        return self._said.decode("utf-8", "replace").strip()
