"""The servers that others wrote, for the examples that use them."""

from mcp_servers.conftest import npm  # noqa: F401
