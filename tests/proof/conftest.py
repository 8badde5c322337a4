"""Which programs die: a sample, or with `--crash=long` all of them, and with more pairs of deaths."""

import pytest

from proof.scenes import CASES, count


def pytest_generate_tests(metafunc):
    """Give a test that takes `case` the cases of its module's stores."""
    if "case" in metafunc.fixturenames:
        cases = [case for case in CASES if case.store in metafunc.module.STORES]
        long = metafunc.config.getoption("--crash") == "long"
        metafunc.parametrize("case", [case for case in cases if long or case.in_sample], ids=str)


@pytest.fixture
def dies_everywhere(crash_everywhere, request):
    """Carries out a case's plans, and counts those that held."""

    def everywhere(case):
        long = request.config.getoption("--crash") == "long"
        report = crash_everywhere(case.scene, sample=case.pairs(long=long))
        count(report, case)
        return report

    return everywhere
