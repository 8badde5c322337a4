"""The rows of the crash report add up, from any number of suites and processes."""

import pytest

from crash.report import VARIABLE, record, recorded, rows


def test_rows_of_one_fault_and_way_add_up(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "report"))
    record("killed", "SIGKILL", 3, 3)
    with recorded("killed", "in one process"):
        pass
    with pytest.raises(ZeroDivisionError), recorded("killed", "SIGKILL", points=2):
        raise ZeroDivisionError
    assert rows(tmp_path / "report") == [
        {"fault": "killed", "how": "SIGKILL", "points": 5, "holds": 3},
        {"fault": "killed", "how": "in one process", "points": 1, "holds": 1},
    ]


def test_nothing_is_written_where_no_report_is_wanted(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    record("killed", "SIGKILL", 1, 1)
    assert list(tmp_path.iterdir()) == []
