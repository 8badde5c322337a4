"""The command line."""

from midstride.cli.app import main
from midstride.cli.common import app

__all__ = ["app", "main"]
