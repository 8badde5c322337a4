"""What all tests share: in CI a skip is a failure, generated histories are the same every time, and faults are counted.

Garbage is collected between tests, by the thread that runs them. Where Python would do it else, in a thread of a server
say, a store that nobody holds is closed there, and a child that a test forks in that moment has SQLite's lock taken for
good.

A test with the marker `fault("what goes wrong", "how it is made to")` counts as one point in the table of faults.
"""

import gc
import os

import hypothesis
import pytest

from crash.report import record
from midstride.hidden import redactor
from midstride.redaction import _Known

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci")


GARBAGE = 50_000
"""Objects more than when it was collected last."""


def pytest_configure():
    gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked through behind each test


def pytest_runtest_logfinish():
    gc.disable()  # whatever a test has called may have switched it on
    if gc.get_count()[0] > GARBAGE:
        gc.collect()


@pytest.fixture(autouse=True)
def _as_a_process_begins(monkeypatch):
    """Give each test the secrets that a new process hides, whatever a program before it in this process called one."""
    monkeypatch.delenv("MIDSTRIDE_REDACT", raising=False)
    for name, value in (("declared", ()), ("path", ""), ("of_file", ())):
        monkeypatch.setattr(_Known, name, value)
    for name, value in (("patterns", ()), ("is_off", False)):
        monkeypatch.setattr(redactor._Ours, name, value)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    for mark in item.iter_markers("fault") if report.when == "call" else ():
        record(*mark.args, points=1, holds=int(report.passed))
    if report.skipped and os.environ.get("CI"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} was skipped: in CI that is a failure"
    return report
