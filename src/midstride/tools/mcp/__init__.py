"""The tools of an MCP server as tools of an agent; the SDK is imported when `mcp_tools` is first called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstride.errors import DeclarationError
from midstride.tools.seconds import Seconds

if TYPE_CHECKING:
    from mcp import StdioServerParameters

    from midstride.tools.mcp.tools import McpTools

__all__ = ["mcp_tools"]


def mcp_tools(
    server: str | Iterable[str] | StdioServerParameters,
    *,
    trusted: bool = False,
    effects: Mapping[str, str | Mapping[str, Any]] | None = None,
    only: Iterable[str] | None = None,
    prefix: str = "",
    timeout: Seconds = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
) -> McpTools:
    """Return the tools of an MCP server, which is a URL (streamable HTTP) or a command to start (stdio).

    Of a *trusted* server the annotations say what a tool does: readOnlyHint is read_only, idempotentHint idempotent,
    all else unsafe; of any other server every tool is unsafe. *effects* has the last word: by the server's own name of
    the tool an effect, or a mapping with "effect" and what else the decorators take (timeout, approval, in_doubt, key,
    key_life, settle). *only* these tools are taken, and each is called *prefix* and its own name. *timeout* is how many
    seconds the server has for a call; up to 60 s to connect, where that is needed, come on top. *env* and *cwd* are for
    a command, *headers* for a URL.

    Asks the server for its tools, so it must be up: raises ToolsUnavailable, and DeclarationError for what is wrong.
    """
    if not isinstance(trusted, bool):
        raise DeclarationError(f"mcp_tools has trusted={trusted!r}: wanted True or False")
    if isinstance(only, str):
        raise DeclarationError(f"mcp_tools has only={only!r}: wanted a list of tools' names")
    if effects is not None and not isinstance(effects, Mapping):
        raise DeclarationError(f"mcp_tools has effects={effects!r}: wanted a mapping of tools' names to effects")
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise DeclarationError("tools of an MCP server need the mcp package: pip install 'midstride[mcp]'") from None
    from midstride.tools.mcp.servers import server_of
    from midstride.tools.mcp.tools import McpTools

    return McpTools(
        server_of(server, env=env, cwd=cwd, headers=headers),
        trusted=trusted,
        effects=dict(effects or {}),
        only=None if only is None else tuple(only),
        prefix=prefix,
        timeout=timeout,
    )
