"""DESIGN.md says what the code says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_design_are_those_of_the_code():
    drawn = subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw_design.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
