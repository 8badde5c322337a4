"""The plugin as a stranger uses it: a test module of his own in an empty folder, and pytest."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

STRANGERS = '''
import pytest
from midstride import Agent, models, tool
from midstride.stores import MemoryStore
from midstride.testing import CrashFailure, Scene

ONE = {}


def scene_of(declare):
    def scene(folder):
        outbox = []

        @declare
        def send(n: int) -> str:
            """Send."""
            outbox.append(n)
            return f"sent {n}"

        agent = Agent(models.Scripted([[("send", {"n": 1})], "Done."]), [send])
        return Scene(lambda process: process.agent(agent).run("go", "run"), effects=lambda: outbox)

    return scene


def test_declared_rightly(crash_everywhere):
    assert crash_everywhere(scene_of(tool)).plans == {1: 19, 2: 60}


def test_declared_wrongly(crash_everywhere):
    crash_everywhere(scene_of(tool.idempotent(key_life=60)))


def test_each_kind(each_store, memory_store, sqlite_store, checkpoint_store, settable_clock, fake_model):
    assert each_store in (memory_store, sqlite_store, checkpoint_store)
    assert settable_clock.now() == settable_clock.at
    assert fake_model(["x"]).url.startswith("http://")


@pytest.mark.store_conformance(make_store=lambda folder: ONE.setdefault(folder, MemoryStore()), processes=False)
def test_my_store(store_check, tmp_path):
    store_check(tmp_path)
'''


def pytest_in(folder, *arguments):
    """Run pytest in *folder* as its user does; return its exit code and what it printed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    # Options of these tests' own user are none of the stranger's.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "test_mine.py").write_text(STRANGERS)
    return folder


def replay_in(printed):
    (line,) = {line.removeprefix("E").strip() for line in printed.splitlines() if "replay: " in line and line[0] == "E"}
    return shlex.split(line.partition("replay: ")[2])


def test_what_is_wrong_is_found_and_its_one_line_replays_it(strangers):
    code, printed = pytest_in(strangers, "--strict-markers", "-W", "error")
    assert (code, "1 failed, 53 passed" in printed) == (1, True), printed
    assert "more often than without a death: 1 (x1)" in printed
    program, *arguments = replay_in(printed)
    assert (program, arguments[-2:]) == ("pytest", ["--crash-plan", "send 1.0 after"])
    code, again = pytest_in(strangers, *arguments)
    assert (code, "1 failed" in again, replay_in(again)) == (1, True, [program, *arguments])


def test_a_plan_that_holds_passes_alone(strangers):
    code, printed = pytest_in(strangers, "-k", "wrongly", "--crash-plan", "append 1 after")
    assert (code, "1 passed" in printed) == (0, True), printed


def test_all_plans_are_carried_out_where_that_is_asked_for(strangers):
    code, printed = pytest_in(strangers, "-k", "rightly", "--crash=long")
    assert (code, "{2: 261, 1: 19}" in printed or "{1: 19, 2: 261}" in printed) == (1, True), printed


@pytest.mark.parametrize("marked", ["", "@pytest.mark.store_conformance(lambda folder: None)\n"])
def test_a_store_check_without_its_store_says_what_is_wanted(marked, tmp_path):
    (tmp_path / "test_mine.py").write_text(f"import pytest\n\n{marked}def test_it(store_check): ...\n")
    code, printed = pytest_in(tmp_path)
    assert (code, "@pytest.mark.store_conformance(make_store=lambda folder: ...)" in printed) == (2, True), printed


def test_pytest_starts_without_what_no_test_asks_for(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    loaded = {name for name in sys.modules if name.startswith('midstride')}\n"
        "    assert loaded == {'midstride', 'midstride.testing', 'midstride.testing.plugin'}\n"
        "    assert 'pydantic' not in sys.modules\n"
    )
    code, printed = pytest_in(tmp_path)
    assert code == 0, printed


def test_the_plugin_is_an_entry_point_that_can_be_left_out(tmp_path):
    (tmp_path / "test_mine.py").write_text("def test_it(settable_clock): ...\n")
    assert pytest_in(tmp_path)[0] == 0
    code, printed = pytest_in(tmp_path, "-p", "no:midstride")
    assert (code, "fixture 'settable_clock' not found" in printed) == (1, True)


def test_the_docs_show_every_fixture():
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    from midstride.testing import plugin

    fixtures = [name for name, thing in vars(plugin).items() if type(thing).__name__ == "FixtureFunctionDefinition"]
    assert len(fixtures) == 7
    assert [name for name in [*fixtures, "store_check"] if f"`{name}`" not in page] == []
