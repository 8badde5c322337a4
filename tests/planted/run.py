"""Plant each fault in a copy of the source and run the tests that must catch it.

`python tests/planted/run.py WORD...` plants only the faults whose names hold one of the words. A fault is caught when a
test fails because of what it looked at; source that cannot even be run, tests that hang and tests that pass are errors.
The same tests must pass on a copy without a fault: that is the control.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # the tests' folder, as pytest has it

from crash.report import VARIABLE, record  # noqa: E402
from patience import IMPATIENT  # noqa: E402
from planted.fault import SOURCE, DoesNotFit, Fault  # noqa: E402
from planted.faults import FAULTS  # noqa: E402

SIDE_BY_SIDE = 1 + (os.cpu_count() or 1)
SECONDS_MAX = 600
"""A test that hangs because of a fault has caught it, but nobody wants to wait for it: choose another one."""

CONTROL_SECONDS_MAX = 1800
"""The control runs what all the faults together do, and nothing in it may be hurried."""

NOT_RUN = re.compile(r"\b(?:SyntaxError|NameError|UnboundLocalError|ImportError|ModuleNotFoundError): .*")
FIRST = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[(.*?)\])?(?: - |$)", re.MULTILINE)
HERE = """\
import os
import midstride

if not midstride.__file__.startswith(os.environ["PLANTED"]):
    raise SystemExit(f"the tests would run {midstride.__file__}, which is not the copy")
"""


@dataclass(frozen=True)
class Caught:
    """What came of a fault: the test that failed, or *error*; *seconds* is how long that took."""

    name: str
    test: str
    error: str
    seconds: float


def plant(fault: Fault) -> Caught:
    """Run the fault's tests against the source that it is in."""
    begun = time.monotonic()
    try:
        code, words = run_tests(fault.tests, fault)
        test, error = judged(code, words)
    except (DoesNotFit, SyntaxError) as misfit:
        test, error = "", str(misfit)
    return Caught(fault.name, test, error, time.monotonic() - begun)


def judged(code: int, words: str) -> tuple[str, str]:
    """Return the test that failed, or what is wrong with the fault or the suite."""
    broken = NOT_RUN.search(words)
    failed = FIRST.search(words)
    if code == 0:
        return "", "NOT CAUGHT: the tests pass all the same"
    if code != 1 or failed is None:
        return "", f"pytest ended with {code} instead of failing:\n{words[-2000:]}"
    if broken is not None:
        return "", f"the planted source cannot be run: {broken[0]}"
    return failed[1].removeprefix("tests/"), ""


def control(faults: Sequence[Fault]) -> str:
    """Return what fails without a fault; nothing, if all is well."""
    words = ""
    for tests in without_repeats(faults):
        code, said = run_tests(tests, None)
        words += said if code else ""
    return words


def without_repeats(faults: Sequence[Fault]) -> Iterator[tuple[str, ...]]:
    """Yield selections that cover those of *faults*: whatever needs no `-k` in one go, the others one by one."""
    plain = {test for fault in faults if "-k" not in fault.tests for test in fault.tests}
    files = {test for test in plain if "::" not in test}
    yield tuple(sorted(test for test in plain if test in files or test.split("::")[0] not in files))
    for tests in sorted({fault.tests for fault in faults if "-k" in fault.tests}):
        if not files.issuperset(tests[:-2]):
            yield tests


def run_tests(tests: Sequence[str], fault: Fault | None) -> tuple[int, str]:
    """Run *tests* against a copy of the source with *fault* in it; return pytest's exit code and what it said."""
    if not tests:
        return 0, ""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(os.path.realpath(name))
        copy = folder / "source"
        shutil.copytree(SOURCE, copy)  # with what is compiled: a planted file is newer, and compiled anew
        if fault is not None:
            compile(fault.planted(), fault.file, "exec")
            (copy / "midstride" / fault.file).write_text(fault.planted(), "utf-8")
        (copy / "planted_here.py").write_text(HERE, "utf-8")
        (folder / "tmp").mkdir()
        more = {"PYTHONPATH": str(copy), "PLANTED": str(copy), "TMPDIR": str(folder / "tmp")}
        more["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
        more |= {} if fault is None else {IMPATIENT: "1"}
        options = ["-p", "planted_here", "-p", "no:cacheprovider", "-x", "-q", "--tb=short"]
        kept = {
            name: value for name, value in os.environ.items() if name != VARIABLE
        }  # they are no points of their own
        seconds_max = CONTROL_SECONDS_MAX if fault is None else SECONDS_MAX
        return ended([sys.executable, "-m", "pytest", *options, *tests], kept | more, seconds_max)


def ended(command: Sequence[str], environment: dict[str, str], seconds_max: float) -> tuple[int, str]:
    """Return the exit code and the words of *command*, which is ended with all that it started when it hangs."""
    process = subprocess.Popen(
        command,
        cwd=SOURCE.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        words, _ = process.communicate(timeout=seconds_max)
        return process.returncode, words
    except subprocess.TimeoutExpired:
        return -1, f"it took more than {seconds_max:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def main(words: Sequence[str]) -> int:
    """Plant the faults, print what came of each, and return the exit code."""
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    width = max((len(fault.name) for fault in chosen), default=0)
    begun, wrong = time.monotonic(), 0
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        unplanted = pool.submit(control, chosen)
        for caught in pool.map(plant, chosen):
            print(f"{caught.name:{width}}  {caught.seconds:5.1f} s  {caught.test or '-'}", flush=True)
            if caught.error:
                wrong += 1
                print(f"    {caught.error}", flush=True)
        failing = unplanted.result()
    if failing:
        print(f"Without a fault the same tests must pass, and do not:\n{failing}")
    print(f"{len(chosen) - wrong} of {len(chosen)} faults were caught, in {time.monotonic() - begun:.0f} s")
    record("a fault is planted in the source", "tests/planted", len(chosen), len(chosen) - wrong)
    return 0 if chosen and not wrong and not failing else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
