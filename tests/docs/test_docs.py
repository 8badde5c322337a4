"""Every page of the docs is run as it is printed, and its tables are those of the code."""

import configparser
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

import midstride
from docs.blocks import ROOT, Reader, block_with, blocks_of, code_in, environment, table_under
from midstride.cli.exits import MEANINGS, Exit
from midstride.core.journal import KINDS, OUTCOMES, OUTSIDE, Requested
from midstride.core.reconcile import EFFECTS
from midstride.drive.outside import VERDICTS
from midstride.drive.stop import GRACE_SECONDS
from midstride.stores import AesGcm, Claim, SqliteStore
from midstride.testing.conformance import append_claiming, begin
from midstride.tools.declare import NEEDED, OPTIONS

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
KNOWN = {"python", "sh", "text", "ini", "crontab", "json"}
RUN_HERE = [
    "save-points.md",
    "dangling-calls.md",
    "ledger.md",
    "operations.md",
    "watching.md",
    "privacy.md",
    "exit-codes.md",
    "journal.md",
    "testing.md",
    "transcripts.md",
    "mcp.md",
]
BIN = Path(sys.prefix) / "bin"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_page_does_what_it_says(page, folder):
    Reader(folder).read(f"docs/{page}")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_a_block_that_nothing_runs(page):
    assert [block.line for block in blocks_of(f"docs/{page}") if block.language not in KNOWN] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_shows_is_used_by_one_of_its_commands(page):
    blocks = blocks_of(f"docs/{page}")
    commands = "".join(block.text for block in blocks if block.language == "sh")
    files = [block.title for block in blocks if block.title and block.language == "python"]
    assert [name for name in files if name not in commands] == []


def test_every_page_is_in_the_sites_contents():
    contents = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(contents) == PAGES


def test_the_reference_has_every_public_name():
    drawn = re.findall(
        r"^::: midstride\.(?:[\w.]+\.)?(\w+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE
    )
    renamed = {"tool": "Declare", "MidstrideError": "errors", "models": "Scripted"}
    assert {renamed.get(name, name) for name in midstride.__all__} <= set(drawn)


# ---- tables


def test_the_table_of_exit_codes_is_that_of_the_code():
    rows = table_under("docs/exit-codes.md", "# Exit codes")
    assert rows == [[str(code.value), code.name, meaning] for code, meaning in MEANINGS.items()]


def test_the_table_of_kinds_is_that_of_the_code():
    rows = table_under("docs/journal.md", "## Kinds")
    told = [(code_in(kind)[0], tuple(code_in(names)), by == "anybody") for kind, names, by, _ in rows]
    assert told == [(kind, tuple(f.name for f in fields(body)), kind in OUTSIDE) for kind, body in KINDS.items()]


def test_the_journals_page_names_every_outcome_and_verdict():
    text = " ".join((ROOT / "docs" / "journal.md").read_text().split())
    outcomes = re.search(r"`outcome` in `settled` is one of (.*?)\.", text)[1]
    verdicts = re.search(r"`verdict` in `decided` is (.*?)\.", text)[1]
    assert (tuple(code_in(outcomes)), tuple(code_in(verdicts))) == (OUTCOMES, VERDICTS)


def test_the_journals_page_names_every_column_of_the_database(folder):
    with closing(SqliteStore(folder / "runs.db")) as store:
        store.lease("run").release()
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        columns = [row[1] for row in connection.execute("pragma table_info(midstride_entries)")]
    text = (ROOT / "docs" / "journal.md").read_text()
    told = re.search(r"has a row for each entry: (.*?)\. `midstride_runs`", text, re.DOTALL)[1]
    assert code_in(told) == columns


def test_the_privacy_page_says_of_every_column_what_stays_readable(folder):
    with closing(SqliteStore(folder / "runs.db", codec=AesGcm(b"k" * 32))) as store:
        append_claiming(store, begin(store), Requested(), claim=Claim("k"))
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        columns = connection.execute(
            "select m.name || '.' || c.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table'"
        ).fetchall()
    rows = table_under("docs/privacy.md", "### What is encrypted, and what stays readable")
    assert sorted(name for row in rows for name in code_in(row[0])) == sorted(name for (name,) in columns)


def test_the_table_of_effects_has_them_all():
    rows = table_under("docs/dangling-calls.md", "## It depends on what the tool does to the world")
    assert sorted(code_in(row[0])[0] for row in rows) == sorted(EFFECTS)


def effects_meant(cell):
    """Return the effects that the middle column of the table of options means."""
    named = set(code_in(cell.partition(";")[0]))
    if cell.startswith("all but"):
        return set(EFFECTS) - named
    return set(EFFECTS) if cell.startswith("all") else named


def test_the_table_of_options_is_that_of_the_code():
    rows = table_under("docs/tools.md", "## Options")
    told = {code_in(name)[0]: effects_meant(of) for name, of, _ in rows}
    real = {
        option: {effect for effect in EFFECTS if option in OPTIONS[effect].__annotations__}
        for effect in EFFECTS
        for option in OPTIONS[effect].__annotations__
    }
    assert told == real
    needed = {effect: option for option, of, _ in rows for effect in EFFECTS if "need" in of and f"`{effect}`" in of}
    assert {effect: code_in(option)[0] for effect, option in needed.items()} == {e: o for e, (o, _) in NEEDED.items()}


# ---- what only a machine with systemd or cron runs


def unit(folder, *, settled=False):
    """Return the unit's text; *settled* puts this machine's paths and user in place of the page's."""
    text = block_with("docs/operations.md", "[Service]", "ini")
    paths = {"/srv/notes/.venv/bin": str(BIN), "/srv/notes": str(folder), "User=notes": "User=root"}
    for told, here in paths.items() if settled else ():
        text = text.replace(told, here)
    return text


def service(text):
    parser = configparser.RawConfigParser()
    parser.optionxform = str
    parser.read_string(text)
    return parser["Service"]


def test_the_unit_restarts_what_a_restart_can_help(folder):
    kept_down = {int(code) for code in service(unit(folder))["RestartPreventExitStatus"].split()}
    assert kept_down == set(Exit) - {Exit.DONE, Exit.ELSEWHERE, Exit.INTERRUPTED}


def test_the_unit_gives_running_tools_their_grace(folder):
    assert float(service(unit(folder))["TimeoutStopSec"]) > GRACE_SECONDS


def test_the_units_command_runs(folder):
    (folder / "agent.py").write_text(
        "from midstride import Agent, models\nagent = Agent(models.Scripted(['Hello.']))\n"
    )
    command = service(unit(folder, settled=True))["ExecStart"]
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (0, "Hello.\n")


def test_the_unit_is_one_that_systemd_takes(folder):
    (folder / "secrets").touch()
    file = folder / "notes.service"
    file.write_text(unit(folder, settled=True))
    parser = configparser.RawConfigParser()
    parser.read(file)
    assert parser.sections() == ["Unit", "Service", "Install"]
    if verify := shutil.which("systemd-analyze"):
        done = subprocess.run([verify, "verify", file], capture_output=True, text=True, check=False)
        assert (done.returncode, "notes.service" in done.stderr) == (0, False)


def test_the_line_for_cron_carries_on_what_was_interrupted(folder):
    Reader(folder).shell("mkdir -p .venv && ln -s $(dirname $(command -v midstride)) .venv/bin")
    page = Reader(folder)
    (page.folder / "agent.py").write_text(block_with("docs/operations.md", "os.kill"))
    page.shell('midstride run agent.py:agent --id letter --task "Mail the team" || true')
    line = block_with("docs/operations.md", "resume --all", "crontab").strip()
    times, command = re.fullmatch(r"((?:\S+ ){5})(.+)", line).groups()
    assert times.split() == ["*/10", "*", "*", "*", "*"]
    page.shell(command.replace("/srv/notes", str(folder)) + " || echo $?")
    assert "waiting" in page.shell("midstride runs")
    assert "letter" in (folder / "resume.log").read_text()


def test_the_line_for_cron_removes_old_runs(folder):
    page = Reader(folder)
    page.shell("mkdir -p .venv && ln -s $(dirname $(command -v midstride)) .venv/bin")
    line = block_with("docs/operations.md", "gc --older-than", "crontab").strip()
    times, command = re.fullmatch(r"((?:\S+ ){5})(.+)", line).groups()
    assert times.split() == ["30", "4", "*", "*", "*"]
    page.shell(command.replace("/srv/notes", str(folder)))
    assert (folder / "gc.log").read_text() == "nothing was removed\n"


def test_the_timer_is_one_that_systemd_takes(folder):
    file = folder / "notes-gc.timer"
    file.write_text(block_with("docs/operations.md", "[Timer]", "ini"))
    parser = configparser.RawConfigParser()
    parser.read(file)
    assert parser.sections() == ["Unit", "Timer", "Install"]
