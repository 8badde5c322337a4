"""Where an MCP server is, how one connects to it, and what it is called in errors."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from mcp import StdioServerParameters
from mcp.client._transport import TransportStreams  # the type alone; the protocol Transport has no other name for it
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from midstride.errors import DeclarationError
from midstride.tools.mcp.wire import LastWords, wire

__all__ = ["Server", "server_of"]


class Server(Protocol):
    """An MCP server that can be connected to, any number of times."""

    @property
    def label(self) -> str:
        """What it is called in errors; no password of a URL, no header."""

    def connect(self, words: LastWords) -> AbstractAsyncContextManager[TransportStreams]:
        """Return a new transport to it; *words* gets what a process says on stderr."""


@dataclass(frozen=True)
class Process:
    """A server that is started as a child of this process; it ends when its stdin does, so also when we are killed."""

    parameters: StdioServerParameters

    @property
    def label(self) -> str:
        """The command, as one would type it, without the values of its options, which may be secrets."""
        words = [self.parameters.command, *self.parameters.args]
        shown = [words[0]]
        for before, word in itertools.pairwise(words):
            hidden = before.startswith("--") and "=" not in before and not word.startswith("-")
            option = word.partition("=")[0] + "=..." if word.startswith("--") and "=" in word else word
            shown.append("..." if hidden else option)
        return shlex.join(shown).replace("'...'", "...")

    @asynccontextmanager
    async def connect(self, words: LastWords) -> AsyncIterator[TransportStreams]:
        """Start the process; it is ended with the transport, at the latest some 4 seconds after its stdin."""
        with words.hearing() as errors:
            transport = stdio_client(self.parameters, errlog=errors)
            streams = await transport.__aenter__()
        try:
            yield streams
        except BaseException as error:
            if not await transport.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await transport.__aexit__(None, None, None)


@dataclass(frozen=True)
class Http:
    """A server that is reached over streamable HTTP."""

    url: str
    headers: Mapping[str, str]

    @property
    def label(self) -> str:
        """The URL without user, password and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @asynccontextmanager
    async def connect(self, words: LastWords) -> AsyncIterator[TransportStreams]:
        """Open a client; a connection is made for each request, as HTTP does it."""
        async with wire(self.headers) as client, streamable_http_client(self.url, http_client=client) as streams:
            yield streams


def server_of(
    server: Any,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
) -> Server:
    """Return what *server* stands for; raises DeclarationError when it is none, or an option does not fit it."""
    if isinstance(server, str):
        return _http(server, env=env, cwd=cwd, headers=headers)
    if headers:
        raise DeclarationError("headers= are for a URL: a process is told what it needs by env= or its arguments")
    if isinstance(server, StdioServerParameters):
        if env or cwd:
            raise DeclarationError("StdioServerParameters have env and cwd of their own: give them there")
        return Process(server)
    words = list(server) if isinstance(server, Iterable) and not isinstance(server, Mapping) else []
    if not words or not all(isinstance(word, (str, Path)) for word in words):
        raise DeclarationError(f'an MCP server is a URL or a command such as ["npx", "-y", "..."], not {server!r}')
    command, *args = map(str, words)
    return Process(StdioServerParameters(command=command, args=args, env=dict(env) if env else None, cwd=cwd))


def _http(url: str, *, env: Any, cwd: Any, headers: Mapping[str, str] | None) -> Http:
    if not url.startswith(("http://", "https://")):
        raise DeclarationError(
            f"{url!r} is no URL of an MCP server: wanted http:// or https://; a command is given as a list, "
            f"{shlex.split(url)!r}"
        )
    if env or cwd:
        raise DeclarationError("env= and cwd= are for a command: a server behind a URL is not started here")
    return Http(url, dict(headers or {}))
