"""Faults in removing runs: too much goes, too little stays, and what was done once is done again."""

from __future__ import annotations

from planted.fault import Fault

RUNS = ("tests/drive/test_removing.py",)

REMOVING = [
    Fault(
        "gc removes a run that is in doubt",
        "What nobody knows yet, nobody can find out any more.",
        "drive/removing.py",
        "return self.run is not None and self.run.over",
        "return self.run is not None",
        (*RUNS, "-k", "never_old"),
    ),
    Fault(
        "gc removes a run that a living process holds",
        "Its next entry has no journal to stand in.",
        "drive/removing.py",
        "if run_id in spared or store.holder(run_id) is not None:",
        "if run_id in spared:",
        (*RUNS, "-k", "holds"),
    ),
    Fault(
        "a removed run's id begins anew",
        "The same program does all of it a second time.",
        "stores/rows.py",
        "    if row is not None and row.removed is not None:\n",
        "    if False:\n",
        (*RUNS, "-k", "same_program"),
    ),
    Fault(
        "a removed run's business key is free",
        "The same deed is done a second time.",
        "stores/removal.py",
        '"delete from midstride_claims where key = ? and run = ?", (free_key, row.number)',
        '"delete from midstride_claims where run = ?", (row.number,)',
        ("tests/stores/test_sqlite.py", "-k", "business_key"),
    ),
    Fault(
        "a run is removed whatever was said to it meanwhile",
        "Somebody's word is gone, and nobody is told.",
        "stores/fence.py",
        "    if last is not None and last != present:\n",
        "    if False:\n",
        ("tests/stores/test_memory.py", "-k", "went_on"),
    ),
    Fault(
        "a run is removed by who does not hold it",
        "It goes while another process drives it.",
        "stores/fence.py",
        "    if not lease.held():\n        raise Fenced(f",
        "    if False:\n        raise Fenced(f",
        ("tests/stores/test_memory.py", "-k", "only_the_holder"),
    ),
    Fault(
        "entries go whether their run is removed or not",
        "An id that was forgotten and begun anew loses its first entries.",
        "stores/removal.py",
        "where number = ? and removed is not null) order by seq",
        "where number = ?) order by seq",
        ("tests/stores/test_removal.py", "-k", "begun_anew"),
    ),
    Fault(
        "a run's results go with those of others",
        "A result tells of a file that is not there.",
        "stores/sqlite.py",
        "        return disk.results_of(self._path) / str(number)\n",
        '        return disk.results_of(self._path) / "1"\n',
        ("tests/stores/test_removal.py", "-k", "results"),
    ),
    Fault(
        "a fold of the WAL waits for nobody",
        "Among many it never comes about, and the disk fills.",
        "stores/opened.py",
        "waits = FOLD_WAITS if patiently or wal.size > 2 * WAL_BYTES else (0.0,)",
        "waits = (0.0,)",
        ("tests/stores/test_wal.py", "-k", "stays"),
    ),
]
