"""What the tests of the larger examples share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from demo.scenes import EXAMPLES
from midstride.testing import FakeModel


def environment(model: FakeModel, folder: Path, **settings: str) -> dict[str, str]:
    """Return what an example finds in its environment: the model's address, a store in *folder*, and *settings*."""
    return {
        **os.environ,
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none-needed",
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_API_KEY": "none-needed",
        "NO_PROXY": "*",
        "no_proxy": "*",
        "MIDSTRIDE_STORE": f"sqlite:{folder}/runs.db",
        **settings,
    }


def run(example: str, *arguments: str, environment: Mapping[str, str]) -> str:
    """Run an example to its end and return what it prints."""
    shown = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout
