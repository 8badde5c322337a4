"""What a model may call, and what each call does to the world."""

from midstride.tools.answers import Accepted, CannotTell, DidNotHappen, Happened, Pending
from midstride.tools.command import CallEnded, CommandFailed, Completed
from midstride.tools.content import content_of
from midstride.tools.context import Context
from midstride.tools.declare import Tool, tool
from midstride.tools.mcp import mcp_tools
from midstride.tools.media import Document, Image
from midstride.tools.text import text_of_error
from midstride.tools.toolbox import Toolbox

__all__ = [
    "Accepted",
    "CallEnded",
    "CannotTell",
    "CommandFailed",
    "Completed",
    "Context",
    "DidNotHappen",
    "Document",
    "Happened",
    "Image",
    "Pending",
    "Tool",
    "Toolbox",
    "content_of",
    "mcp_tools",
    "text_of_error",
    "tool",
]
