"""The pages about the rules say what the rules say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pages_about_the_rules_are_those_of_the_code():
    command = [sys.executable, ROOT / "scripts" / "draw_rules.py", "--check"]
    drawn = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (drawn.returncode, drawn.stderr) == (0, "")
