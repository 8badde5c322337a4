"""The client of one MCP server: supervised, in a thread of its own with an event loop of its own.

A blocking driver, an asynchronous one, threads and forked processes all use it alike: a call blocks its caller and
nobody else. A connection lives in a task of its own (`_Life`); when it ends, the calls on it end with what is known of
them, and the next call makes a new one. How a call ended is told by the type of the error:

    Unsent     nothing was sent, for certain
    Refused    the server refused the request, for certain, before it did anything
    Lost       it was sent, and no answer can come any more
    NoAnswer   it was sent, and no answer came in time
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mcp import Client, ClientSession, MCPError
from mcp import types as protocol
from mcp.client import ClientExtension
from mcp.client._transport import TransportStreams
from pydantic import TypeAdapter

from midstride.tools.mcp.servers import Server
from midstride.tools.mcp.wire import FATE, RPC_REFUSALS, LastWords, Written

__all__ = ["Connection", "Lost", "NoAnswer", "Refused", "Unsent"]

Json = Any
T = TypeVar("T")

PAUSES = (0.0, 0.2, 1.0)
"""Seconds before each try to connect: one that is restarted is back by then."""

CONNECT_SECONDS = 60.0
"""How long all tries to connect may take, beside the call's own time: `npx -y` may have to download first."""

ALIVE_SECONDS = 5.0
"""How long a server may take to list its tools after it left a call without an answer; then it is given up."""

MARGIN = 0.5
"""Seconds beyond a call's time in which the SDK's own timeout should have told, before we do."""

CLOSE_SECONDS = 10.0
"""How long a close may take: the SDK ends a server that ignores the end of its stdin within some 4 seconds."""

PAGES_MAX = 100
"""Pages of a tool list; one that never ends is no list."""

RAW: Any = TypeAdapter(dict[str, Any])
"""A result as the protocol has it: what the SDK does not know is no reason to lose an answer."""


class Unsent(ConnectionError):
    """Nothing was sent."""


class Refused(RuntimeError):
    """The server refused the request."""


class Lost(ConnectionError):
    """It was sent, and its answer is lost."""


class NoAnswer(TimeoutError):
    """It was sent, and no answer came in time."""


class Connection:
    """The supervised client of *server*; it connects when it is first used, and again when it has to."""

    def __init__(self, server: Server, extensions: tuple[ClientExtension, ...] = ()) -> None:
        self._server = server
        self._extensions = extensions
        self._closed = False
        self._start_over()

    def _start_over(self) -> None:
        """Have no thread and no connection: at the start, and in a forked child, which must not use its parent's."""
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._connecting: asyncio.Lock
        self._life: _Life | None = None
        self._lives: set[asyncio.Task[None]] = set()

    @property
    def label(self) -> str:
        """What the server is called in errors."""
        return self._server.label

    # ---- for any thread

    def list_tools(self, seconds: float) -> list[protocol.Tool]:
        """Return all tools that the server lists."""
        return self._wait(lambda: self._with_life(_Life.list_tools, seconds, again=True), seconds)

    def request(self, request: protocol.Request[Any, Any], seconds: float, *, again: bool) -> dict[str, Json]:
        """Send *request* and return its result; with *again* it is sent once more when its answer was lost."""

        async def send(life: _Life, left: float) -> dict[str, Json]:
            return await life.send(request, left)

        return self._wait(lambda: self._with_life(send, seconds, again=again), seconds)

    def close(self) -> None:
        """End the connection, and a server that was started for it; what is under way ends as lost."""
        with self._mutex:
            self._closed = True
            thread, self._thread = self._thread, None
            if thread is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        if thread is not None:
            thread.join(CLOSE_SECONDS)
        _open.discard(self)

    def _wait(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Do *work* in the loop and wait for it; it knows its time itself: beyond that the loop is stuck."""
        with self._mutex:  # so that nothing is begun in a loop that ends
            if self._closed:
                raise Unsent(f"the connection to the MCP server {self.label} was closed by the program")
            self._start()
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        concurrent.futures.wait([future], seconds + CONNECT_SECONDS + 4 * MARGIN)
        if not future.done():
            future.cancel()
            raise NoAnswer(f"the MCP server {self.label} gave no answer within {seconds:g} s")
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Lost(f"the connection to the MCP server {self.label} was closed by the program") from None

    def _start(self) -> None:
        if self._thread is None:
            started = threading.Event()
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._serve(started)), name=f"midstride mcp {self.label}", daemon=True
            )
            _open.add(self)
            self._thread.start()
            started.wait()

    # ---- in the loop

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stop, self._connecting = asyncio.get_running_loop(), asyncio.Event(), asyncio.Lock()
        started.set()
        await self._stop.wait()
        if self._life is not None:
            self._life.end(now=True)
        if self._lives:
            await asyncio.wait(self._lives, timeout=CLOSE_SECONDS)

    async def _with_life(self, work: Callable[[_Life, float], Awaitable[T]], seconds: float, *, again: bool) -> T:
        """Do *work* with a connection; begin anew where nothing was sent, and with *again* once after a loss.

        The work may take *seconds*, and all of it CONNECT_SECONDS more.
        """
        connected_by = self._loop.time() + CONNECT_SECONDS
        failed: Unsent | Lost = Unsent(f"the MCP server {self.label} could not be reached")
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                life = await self._living(connected_by)
                return await work(life, min(seconds, connected_by + seconds - self._loop.time()))
            except Unsent as error:
                failed = error
                if isinstance(error.__cause__, (FileNotFoundError, PermissionError)):
                    break  # there is nothing to start, and there will be nothing in a second
            except Lost as error:
                failed = error
                if not again:
                    break
                again = False
        raise failed

    async def _living(self, by: float) -> _Life:
        """Return a connection that stands, as far as one can know."""
        async with self._connecting:
            life = self._life
            if life is not None and life.suspect and not life.ended:
                await life.prove()
            if life is not None and not life.ended:
                return life
            self._life = life = _Life(self._server, self._extensions)
            self._lives.add(life.task)
            life.task.add_done_callback(self._lives.discard)
            await life.begin(by - self._loop.time())
            return life


class _Life:
    """One connection, from its handshake to its end, in a task of its own: what breaks it breaks nothing else."""

    def __init__(self, server: Server, extensions: tuple[ClientExtension, ...]) -> None:
        self._label = server.label
        self._server, self._extensions = server, extensions
        self._words = LastWords()
        self._over = asyncio.Event()
        self._under_way = 0
        self._why: BaseException | None = None
        self._client: Client | None = None
        self._written: Written[Any]
        self._standing = asyncio.Event()
        self._ending = False
        self.suspect = False
        self.task = asyncio.get_running_loop().create_task(self._live(), name=f"midstride mcp {self._label}")

    @property
    def ended(self) -> bool:
        """Tell whether nothing new may begin on it."""
        return self._ending or self.task.done()

    async def _live(self) -> None:
        try:
            async with Client(self._transport(), extensions=self._extensions or None) as client:
                self._client = client
                self._standing.set()
                await self._over.wait()
        except (Exception, BaseExceptionGroup) as error:  # also all that comes out of the SDK's own tasks
            self._why = error
        finally:
            self._ending = True
            self._words.close()

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[TransportStreams]:
        async with self._server.connect(self._words) as (read, write):
            self._written = Written(write)
            yield read, self._written

    async def begin(self, seconds: float) -> None:
        """Wait until the connection stands; raise Unsent when it does not within *seconds*."""
        standing = asyncio.ensure_future(self._standing.wait())
        try:
            await asyncio.wait({standing, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            standing.cancel()
            if self._client is None:
                self.end(now=True)
                self.task.cancel()
        if self._client is None or self.task.done():
            why = "it did not begin to speak in time" if self._why is None else _said(self._why)
            raise Unsent(self._told(f"cannot be reached: {why}")) from _root(self._why)

    def end(self, *, now: bool = False) -> None:
        """Begin nothing new; end when what is under way has ended, or *now*."""
        self._ending = True
        if now or not self._under_way:
            self._over.set()

    async def prove(self) -> None:
        """End it unless it still answers."""
        try:
            await self._page(None, ALIVE_SECONDS)
            self.suspect = False
        except Exception:
            self.end(now=True)

    async def list_tools(self, seconds: float) -> list[protocol.Tool]:
        """Return all tools, page by page."""
        found: list[protocol.Tool] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._page(cursor, seconds)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise Refused(self._told(f"lists its tools on more than {PAGES_MAX} pages"))

    async def _page(self, cursor: str | None, seconds: float) -> protocol.ListToolsResult:
        params = protocol.PaginatedRequestParams(cursor=cursor)
        return await self._answered(lambda session: session.list_tools(params=params), seconds)

    async def send(self, request: protocol.Request[Any, Any], seconds: float) -> dict[str, Json]:
        """Return the result of *request*; raise Unsent, Refused, Lost, NoAnswer, or what the server answered."""

        def sending(session: ClientSession) -> Awaitable[dict[str, Json]]:
            return session.send_request(request, RAW, request_read_timeout_seconds=seconds)

        try:
            return await self._answered(sending, seconds)
        except _Mismatch:
            # The protocol's own recovery: which arguments are repeated in headers is in the list of tools.
            await self.list_tools(seconds)
            return await self._answered(sending, seconds)

    async def _answered(self, ask: Callable[[ClientSession], Awaitable[T]], seconds: float) -> T:
        if self._client is None or self.ended:
            raise Unsent(self._told("closed the connection"))
        before = self._written.count
        asking = asyncio.ensure_future(ask(self._client.session))
        self._under_way += 1
        try:
            await asyncio.wait({asking, self.task}, timeout=seconds + MARGIN, return_when=asyncio.FIRST_COMPLETED)
            if self.task.done():  # then the SDK tells all who wait
                await asyncio.wait({asking}, timeout=MARGIN)
            if not asking.done():
                self.suspect = True
                raise Lost(self._lost("")) if self.task.done() else NoAnswer(self._late(seconds))
            return asking.result()
        except MCPError as error:
            raise self._fate(error, self._written.count == before, seconds) from None
        finally:
            asking.cancel()
            self._under_way -= 1
            if self._ending:
                self.end()

    def _fate(self, error: MCPError, unwritten: bool, seconds: float) -> Exception:
        """Return what *error* says of the request: whether it was sent, and whether it may have been done."""
        fate = error.data.get(FATE) if isinstance(error.data, dict) else None
        if fate == "unsent" or (error.code == protocol.CONNECTION_CLOSED and fate is None and unwritten):
            self.end()
            return Unsent(self._told(f"cannot be reached: {error.message}"))
        if error.code == protocol.REQUEST_TIMEOUT:
            self.suspect = True
            return NoAnswer(self._late(seconds))
        if error.code == protocol.HEADER_MISMATCH:
            return _Mismatch(self._told(f"refused the request: {error.message}"))
        if fate == "refused" or error.code in RPC_REFUSALS:
            return Refused(self._told(f"refused the request: {error.message}"))
        if error.code == protocol.CONNECTION_CLOSED:
            return Lost(self._lost(error.message))
        return RuntimeError(self._told(f"answered with an error that does not tell what was done: {error.message}"))

    def _lost(self, why: str) -> str:
        return self._told(f"was lost in the middle of the request. {why}".strip())

    def _late(self, seconds: float) -> str:
        return self._told(f"gave no answer within {seconds:.3g} s")

    def _told(self, what: str) -> str:
        said = f" (its last words: {self._words})" if str(self._words) and self.task.done() else ""
        return f"the MCP server {self._label} {what}{said}"


class _Mismatch(Refused):
    """Headers of the request did not fit its body: the tools must be listed first."""


def _root(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    root = _root(error)
    return f"{type(root).__name__}: {root}" if str(root) else type(root).__name__


# ---- what a process leaves behind


_open: set[Connection] = set()


def _close_all() -> None:
    for connection in list(_open):
        connection.close()


_inherited: list[object] = []
"""What a forked child has of its parent's connections: never touched, and never collected, which would close it."""


def _forget() -> None:
    for connection in list(_open):
        _inherited.append(dict(vars(connection)))
        connection._start_over()
    _open.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget)
