"""What it takes to look into a store of many runs: the commands themselves, in a process that has imported them."""

import contextlib
import io
import sqlite3
import sys
from contextlib import closing

from midstride.cli.app import main
from midstride.stores.rows import key_of
from speed.contenders import agent, store_of
from speed.work import timed

BATCH = 1_000


def looks(folder, runs):
    """Make a store of *runs* small runs, all but one of them over, and return the ms of each look."""
    fill(folder, runs)
    store = store_of("sqlite", folder)
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        count = timed(lambda: connection.execute("select count(*) from midstride_entries").fetchone()) * 1000
    command("runs", "--store", store)  # what is imported once is no part of it
    return {
        "floor": count,
        "runs": timed(lambda: command("runs", "--store", store)) * 1000,
        "doubts": timed(lambda: command("doubts", "--store", store)) * 1000,
        "show": timed(lambda: command("show", f"run-{runs // 2}", "--store", store)) * 1000,
    }


def fill(folder, runs):
    """Copy the entries of one finished run under many ids: a digest knows nothing of its run's id.

    The last of the copies is left open, as if somebody had to look into it.
    """
    agent("sqlite", folder, 2).run("Read all pages.", "bench")
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        columns = [row[1] for row in connection.execute("pragma table_info(midstride_entries)") if row[1] != "run"]
        names = ", ".join(columns)
        (number,) = connection.execute("select number from midstride_runs").fetchone()
        for first in range(0, runs, BATCH):
            ids = [(number + 1 + n, f"run-{n}") for n in range(first, min(runs, first + BATCH))]
            connection.executemany(
                "insert into midstride_runs (number, id, key, ended) values (?, ?, ?, ?)",
                [(copy, run_id, key_of(run_id), None if copy == number + runs else 1.0) for copy, run_id in ids],
            )
            connection.executemany(
                f"insert into midstride_entries (run, {names}) select ?, {names} from midstride_entries where run = ?",
                [(copy, number) for copy, _ in ids],
            )
        connection.commit()


def command(*arguments):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        sys.argv = ["midstride", *arguments]
        main()
