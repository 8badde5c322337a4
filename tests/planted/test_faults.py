"""Whoever rewrites a piece of source that a fault is planted in hears of it at once; `make planted` runs the faults."""

from pathlib import Path

import pytest

from planted.fault import SOURCE
from planted.faults import FAULTS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_source_and_names_tests_that_are_there(fault):
    compile(fault.planted(), fault.file, "exec")
    files = [test.split("::")[0] for test in fault.tests if test.startswith("tests/")]
    assert files
    assert all(Path(SOURCE.parent, file).is_file() for file in files)


def test_every_fault_has_a_name_and_a_change_of_its_own():
    assert len({fault.name for fault in FAULTS}) == len({(f.file, f.old, f.new) for f in FAULTS}) == len(FAULTS)
