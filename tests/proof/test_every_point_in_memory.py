"""A process dies at every point of every program, and dies again while it recovers; others go on: journals in memory.

A failure's first line replays its plan. Many more plans: `--crash=long`. `CRASH_REPORT=FILE` counts them.
"""

STORES = ("memory",)


def test_a_run_ends_as_if_nobody_had_died(case, dies_everywhere):
    report = dies_everywhere(case)
    assert report.missed <= report.plans.total() // 10
