"""One measurement in a process of its own: `python -m speed.measure WHAT NAME ...` prints JSON."""

import asyncio
import json
import math
import resource
import sys
import tempfile
import time
from pathlib import Path

from speed.peers import PEERS
from speed.work import floor, timed, useful


def grow(name, turns, effects):
    """Drive one run; return what turns cost at its beginning and its end, and how the whole grows."""
    drive = contender(name)
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        before = probe(Path(scratch), effects)
        folder = Path(scratch, "run")
        folder.mkdir()
        wall, busy = [], []

        def mark():
            wall.append(time.perf_counter())
            busy.append(time.process_time())

        drive(folder, turns, effects, mark)
        floor_ms = (before + probe(Path(scratch), effects)) / 2
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and ".prev" not in file.name)
    early, late = slice(0, 101), slice(max(0, turns - 100), turns + 1)
    return {
        "floor_ms": floor_ms,
        "early_ms": per_turn(wall[early]),
        "late_ms": per_turn(wall[late]),
        "early_cpu_ms": per_turn(busy[early]),
        "late_cpu_ms": per_turn(busy[late]),
        "exponent": exponent([at - wall[0] for at in wall]),
        "bytes_ratio": size / useful(turns),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def contender(name):
    if name in PEERS:  # in an environment of their own, where there is no midstride
        return PEERS[name]
    from speed.contenders import CONTENDERS

    return CONTENDERS[name]


def probe(scratch, effects):
    """Return what a turn of the floor costs here and now, in ms."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        return timed(lambda: floor(Path(folder), 200, effects, lambda: None)) / 200 * 1000


def per_turn(marks):
    return (marks[-1] - marks[0]) / (len(marks) - 1) * 1000


def exponent(totals):
    """Return k where the time for n turns grows as n to the k, from a tenth of the run to its end."""
    last = len(totals) - 1
    tenth = max(1, last // 10)
    return math.log(totals[last] / totals[tenth]) / math.log(last / tenth)


def resume(name, turns):
    """Return how long a run of *turns* turns takes to be taken up again, in ms, until the model is asked."""
    from speed.contenders import RESUMES, prepare_resume

    with tempfile.TemporaryDirectory(dir=".") as folder:
        prepare_resume(name, Path(folder), turns)
        return {"ms": timed(lambda: RESUMES[name](Path(folder), turns)) * 1000}


def many(name, runs, turns, seconds):
    """Return how long *runs* runs take at once in one process, in s."""
    from speed.contenders import MANY

    with tempfile.TemporaryDirectory(dir=".") as folder:
        took = timed(lambda: asyncio.run(MANY[name](Path(folder), runs, turns, seconds)))
    return {"s": took, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def only(name, turns, effects):
    """Drive one run and nothing else, to be watched from outside."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        contender(name)(Path(folder), turns, effects, lambda: None)
    return {}


def look(name, runs):
    """Return what it takes to look into a store of many runs, in ms: the command's own functions, in process."""
    from speed.looking import looks

    with tempfile.TemporaryDirectory(dir=".") as folder:
        return looks(Path(folder), runs)


def main(what, name, *numbers):
    work = {"grow": grow, "resume": resume, "many": many, "only": only, "look": look}[what]
    print(json.dumps(work(name, *(json.loads(number) for number in numbers))))


if __name__ == "__main__":
    main(*sys.argv[1:])
