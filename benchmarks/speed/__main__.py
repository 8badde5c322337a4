"""`python -m speed [--quick] [--write FILE]`: measure, and print one table; PEERS=1 measures other people's savers too.

Every number is measured in a process of its own, one after the other; what is compared with the floor has the floor
measured right before and right after it, in the same process. Nothing here is a test: figures on a busy machine
wander, ratios to the floor wander less.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from speed.contenders import CONTENDERS, QUADRATIC, RESUMES
from speed.peers import PEERS

HERE = Path(__file__).parent.parent
FEW = 400
"""Turns of those that write the whole run at each save point: their cost grows with the square."""


def measured(python, *arguments):
    """Return what a measurement in a process of its own found."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    command = [python, "-m", "speed.measure", *map(str, arguments)]
    print("measuring:", *arguments, file=sys.stderr)
    made = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(made.stdout)


def syncs(python, name, effects):
    """Return the syncs of a turn, counted by strace over two runs whose difference is 100 turns."""
    if shutil.which("strace") is None:
        return None
    return (synced(python, name, 150, effects) - synced(python, name, 50, effects)) / 100


def synced(python, name, turns, effects):
    with tempfile.NamedTemporaryFile("r") as report:
        command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range", "-o", report.name]
        command += [python, "-m", "speed.measure", "only", name, str(turns), json.dumps(effects)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(HERE)}, check=True, stdout=subprocess.DEVNULL)
        return len(re.findall(r"(?:fsync|fdatasync)\(", report.read()))


def growth(contenders, turns, effects):
    """Print the rows of one workload."""
    head = ["", "turns", "ms/turn 1-100", "last 100", "CPU ms/turn 1-100", "last 100", "exponent", "syncs/turn"]
    print(row([*head, "bytes/useful", "peak MB"]))
    print(row(["---"] * 10))
    for name, python in contenders.items():
        count = min(turns, FEW) if name in QUADRATIC or name in PEERS else turns
        found = measured(python, "grow", name, count, json.dumps(effects))
        print(row([name, count, *shown(found), number(syncs(python, name, effects)), *sizes(found)]), flush=True)


def shown(found):
    floor = found["floor_ms"]
    return [
        f"{found['early_ms']:.3f} ({found['early_ms'] / floor:.2f} x)",
        f"{found['late_ms']:.3f} ({found['late_ms'] / floor:.2f} x)",
        f"{found['early_cpu_ms']:.3f}",
        f"{found['late_cpu_ms']:.3f}",
        f"{found['exponent']:.2f}",
    ]


def sizes(found):
    return [f"{found['bytes_ratio']:.2f}", f"{found['peak_mb']:.0f}"]


def number(value):
    return "-" if value is None else f"{value:.2f}"


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def resumes(python, turns):
    print(row(["cold resume, ms (x reading and parsing the bytes)", *(f"{n:,} turns" for n in turns)]))
    print(row(["---"] * (len(turns) + 1)))
    floors = [measured(python, "resume", "floor", n)["ms"] for n in turns]
    for name in RESUMES:
        cells = []
        for floor, n in zip(floors, turns, strict=True):
            if name in QUADRATIC and n > FEW:
                cells.append("-")
                continue
            ms = measured(python, "resume", name, n)["ms"]
            cells.append(f"{ms:.1f} ({ms / floor:.2f} x)")
        print(row([name, *cells]), flush=True)


def crowds(python, crowd):
    print(row(["many runs at once, 20 turns, a model of 50 ms", *(f"{n} runs, s" for n in crowd), "peak MB"]))
    print(row(["---"] * (len(crowd) + 2)))
    floors = [measured(python, "many", "floor", n, 20, 0.05)["s"] for n in crowd]
    cells = [f"{s:.2f}" for s in floors]
    print(row(["floor, with group commit", *cells, "-"]))
    found = [measured(python, "many", "midstride sqlite, async", n, 20, 0.05) for n in crowd]
    cells = [f"{one['s']:.2f} ({one['s'] / floor:.2f} x)" for one, floor in zip(found, floors, strict=True)]
    print(row(["midstride sqlite, async", *cells, f"{found[-1]['peak_mb']:.0f}"]), flush=True)


def looks(python, stored):
    print(row(["looking into a store, ms (x select count(*))", *(f"{n:,} runs" for n in stored)]))
    print(row(["---"] * (len(stored) + 1)))
    found = [measured(python, "look", "midstride sqlite", n) for n in stored]
    print(row(["select count(*)", *(f"{one['floor']:.1f}" for one in found)]))
    for what in ("runs", "doubts", "show"):
        print(row([what, *(f"{one[what]:.1f} ({one[what] / one['floor']:.1f} x)" for one in found)]), flush=True)


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.release()}, {os.cpu_count()} cores {model}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def tables(turns, crowd, stored):
    contenders = dict.fromkeys(CONTENDERS, sys.executable)
    if os.environ.get("PEERS"):
        from speed.peers import pythons

        contenders |= pythons(HERE.parent / "build" / "peers")
    print(f"{machine()}. Command: `make bench`.\n")
    print("### Reads: two syncs a turn\n")
    growth(contenders, turns, effects=False)
    print("\n### Effects: three syncs a turn\n")
    growth({n: python for n, python in contenders.items() if python is sys.executable}, turns, effects=True)
    print()
    resumes(sys.executable, (min(1_000, turns), turns))
    print()
    crowds(sys.executable, crowd)
    print()
    looks(sys.executable, stored)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it works")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this page")
    options = parser.parse_args()
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept if options.write else sys.stdout):
        tables(*((300, (20, 100), (1_000,)) if options.quick else (3_000, (200, 1_000), (1_000, 100_000))))
    if options.write:
        begin, end = "<!-- table -->", "<!-- end -->"
        before, rest = options.write.read_text().split(begin)
        options.write.write_text(f"{before}{begin}\n{kept.getvalue()}{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()
