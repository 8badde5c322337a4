"""Draw the tables of DESIGN.md from the code: `python scripts/draw_design.py`; with --check, fail if they differ.

A table stands between `<!-- NAME -->` and `<!-- end -->`.
"""

import re
import sys
from dataclasses import fields
from pathlib import Path

from midstride.core.journal import KINDS, OUTSIDE
from midstride.core.reconcile import RECONCILE
from midstride.core.run import CALL, RUN

DESIGN = Path(__file__).parent.parent / "DESIGN.md"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def state_table(states, corner):
    columns = list(dict.fromkeys(column for row in states.values() for column in row))
    rows = [[f"**{state}**", *(shown(row.get(column)) for column in columns)] for state, row in states.items()]
    return table([corner, *columns], rows)


def shown(found):
    if found is None:
        return ""
    return " / ".join(map(str, found)) if isinstance(found, tuple) else str(found)


def reconcile_table():
    columns = ["new", "asking", "dead", "accepted"]
    rows = [[f"**{effect}**", *(row.get(column, "") for column in columns)] for effect, row in RECONCILE.items()]
    return table(["effect", "new, or allowed", "asking", "intended, the attempt is dead", "accepted"], rows)


def entry_table():
    rows = [
        [f"`{kind}`", ", ".join(f.name for f in fields(body)), "anybody" if kind in OUTSIDE else "the holder"]
        for kind, body in KINDS.items()
    ]
    return table(["kind", "fields, besides seq, at and kind", "appended by"], rows)


DRAWN = {
    "run": lambda: state_table(RUN, "run"),
    "call": lambda: state_table(CALL, "call"),
    "reconcile": reconcile_table,
    "entries": entry_table,
}


def draw(text):
    for name, drawn in DRAWN.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = pattern.subn(lambda at, made=drawn(): f"{at[1]}{made}\n{at[2]}", text)
        if found != 1:
            sys.exit(f"DESIGN.md has {found} places for the table {name!r}, wanted one")
    return text


if __name__ == "__main__":
    before = DESIGN.read_text()
    after = draw(before)
    if "--check" in sys.argv and after != before:
        sys.exit("DESIGN.md is not what the code says: run `make design`")
    DESIGN.write_text(after)
