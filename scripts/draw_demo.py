"""Draw docs/demo.svg from a real run of the demo: `python scripts/draw_demo.py`.

Process ids and Message-IDs are those of the run, so two drawings differ in them and in nothing else.
"""

import io
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from midstride.demo import columns, telling
from midstride.demo.__main__ import WANTED
from midstride.demo.incident import play_all

DRAWING = Path(__file__).parent.parent / "docs" / "demo.svg"

# Fonts of the reader's own machine, since a picture in a README may load nothing.
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" class="{unique_id}" viewBox="0 0 {width} {height}" role="img">
<title>midstride demo: naive 2 mails, unsafe 1 mail, verifiable 1 mail</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>
<g transform="translate({terminal_x}, 24)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def drawn(folder):
    incidents = play_all(folder, real=False, tell=lambda name, what: None)
    if {incident.name: len(incident.mails) for incident in incidents} != WANTED:
        sys.exit("the demo did not go as it must: nothing was drawn")
    console = Console(record=True, width=120, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    play_on = columns.closing(telling.play_on(incidents, folder, keep=False))
    console.print(columns.heading(real=False), columns.SideBySide(incidents), play_on, highlight=False)
    return console.export_svg(title="", theme=SVG_EXPORT_THEME, code_format=FORMAT, unique_id="demo")


if __name__ == "__main__":
    # As in an environment that is activated, where the command is called by its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as made:
        svg = drawn(Path(made))
    DRAWING.parent.mkdir(exist_ok=True)
    DRAWING.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
