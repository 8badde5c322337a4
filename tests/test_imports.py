"""The rooms face one way, the core imports next to nothing, and nothing happens when midstride is imported."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import midstride

ROOT = Path(midstride.__file__).parent

ROOMS = {
    "hidden": set(),
    "errors": {"hidden"},
    "redaction": {"errors", "hidden"},
    "core": {"errors"},
    "transcript": {"errors"},
    "threads": set(),
    "tools": {"errors", "core", "threads"},
    "stores": {"errors", "core"},
    "models": {"errors", "core"},
    "drive": {"errors", "core", "transcript", "threads", "tools", "stores", "models", "visible", "hidden", "redaction"},
    "agent": {"errors", "core", "transcript", "threads", "tools", "stores", "models", "drive"},
    "ledger": {"errors", "core", "transcript", "threads", "tools", "stores", "models", "drive", "hidden"},
    "integrations": {"errors", "core", "models", "drive", "visible", "hidden", "redaction"},
    "visible": set(),
}
"""Which rooms a room may look into, besides itself; whatever is not here may look into all of them."""

PURE = {"__future__", "dataclasses", "enum", "typing", "collections.abc", "json", "hashlib"}

DEVELOPMENT = {"pytest", "hypothesis", "mypy", "ruff", "coverage", "_pytest"}


MCP = ROOT / "tools" / "mcp"
WHEN_ASKED = set(MCP.glob("*.py")) - {MCP / "__init__.py"}
"""Files that are imported when `mcp_tools` is first called, and with them the SDK."""


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def files(*rooms):
    return sorted(path for path in ROOT.rglob("*.py") if not rooms or room_of(path) in rooms)


def imports_of(path, *, lazy=True):
    """Return the names of the modules that a file imports; without *lazy* only those that are imported with it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree) if lazy else _at_import(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT.parent).parts[: -node.level] if node.level else ()
            base = ".".join([*package, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names if base == "midstride"}
    return found


def _at_import(node):
    """Walk what runs when the module is imported: no body of a function, and nothing for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            yield from (inner for other in child.orelse for inner in [other, *_at_import(other)])
            continue
        yield child
        yield from _at_import(child)


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


# ---- the rooms


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_looks_one_way(room):
    wrong = {}
    for path in files(room):
        into = {name.split(".")[1] for name in imports_of(path) if name.startswith("midstride.")}
        if into - ROOMS[room] - {room}:
            wrong[str(path.relative_to(ROOT))] = into - ROOMS[room] - {room}
    assert wrong == {}


def test_every_room_is_there():
    assert {room_of(path) for path in files()} >= set(ROOMS)


@pytest.mark.parametrize("path", files("core", "transcript"), ids=lambda path: str(path.relative_to(ROOT)))
def test_core_and_transcript_import_next_to_nothing(path):
    outside = {name for name in imports_of(path) if not name.startswith("midstride")}
    assert outside <= PURE


def test_the_development_tools_are_not_imported():
    assert [path for path in names(files()) if _tops(ROOT / path) & DEVELOPMENT] == ["testing/plugin.py"]


def test_the_pytest_plugin_imports_nothing_of_midstride_before_a_test_asks():
    own = imports_of(ROOT / "testing" / "plugin.py", lazy=False)
    assert own <= {"__future__", "shlex", "collections.abc", "typing", "pytest"}


def _tops(path):
    return {name.split(".")[0] for name in imports_of(path)}


def test_the_demo_does_not_look_into_the_command_line():
    assert [name for path in files("demo") for name in imports_of(path) if name.startswith("midstride.cli")] == []


def test_only_pydantic_is_imported_with_the_package():
    rooms = {*ROOMS, "__init__"} - {"integrations"}
    core = [path for path in files() if room_of(path) in rooms and path not in WHEN_ASKED]
    known = {"midstride", "pydantic", "pydantic_core", *sys.stdlib_module_names}
    strange = {name for path in core for name in imports_of(path, lazy=False) if name.split(".")[0] not in known}
    assert strange == set()


# ---- nothing happens at import


def python(program, tmp_path, *options):
    """Run *program* in a process of its own, in an empty folder."""
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error", *options, "-c", program]
    ran = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_an_import_makes_no_file_no_thread_and_no_noise(tmp_path):
    program = (
        "import os, threading, midstride, midstride.testing\n"
        "assert threading.active_count() == 1\n"
        "assert os.listdir('.') == [], os.listdir('.')\n"
    )
    assert python(program, tmp_path) == ""


def test_an_import_opens_no_file_for_writing_no_connection_and_no_process(tmp_path):
    program = (
        "import sys\n"
        "seen = []\n"
        "def hook(event, args):\n"
        "    if event == 'open' and isinstance(args[1], str) and set(args[1]) & set('wax+'):\n"
        "        seen.append((event, args[0]))\n"
        "    if event.split('.')[0] in ('socket', 'subprocess', 'sqlite3') or event in ('os.fork', 'os.mkdir'):\n"
        "        seen.append((event, *map(str, args)))\n"
        "sys.addaudithook(hook)\n"
        "import midstride\n"
        "assert seen == [], seen\n"
    )
    assert python(program, tmp_path, "-B") == ""


def test_the_sdk_is_imported_by_the_first_request_and_not_before(tmp_path):
    program = (
        "import sys, midstride\n"
        "midstride.Agent(midstride.models.Anthropic('claude-opus-5'))\n"
        "later = {'anthropic', 'httpx2', 'mcp', 'jsonschema', 'rich', 'typer', 'aiosmtpd'}\n"
        "assert {m.split('.')[0] for m in sys.modules} & later == set()\n"
    )
    assert python(program, tmp_path) == ""


def test_without_the_sdk_the_error_names_the_extra(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['anthropic'] = None\n"
        "import midstride\n"
        "agent = midstride.Agent(midstride.models.Anthropic('claude-opus-5'), store='memory:')\n"
        "try:\n"
        "    agent.run('go')\n"
        "except midstride.MidstrideError as error:\n"
        "    print(error)\n"
    )
    assert python(program, tmp_path) == "models.Anthropic needs the SDK: pip install 'midstride[anthropic]'\n"


def test_without_the_mcp_package_the_error_names_the_extra(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['mcp'] = None\n"
        "import midstride\n"
        "try:\n"
        "    midstride.mcp_tools('http://127.0.0.1:1/mcp')\n"
        "except midstride.MidstrideError as error:\n"
        "    print(error)\n"
    )
    wanted = "tools of an MCP server need the mcp package: pip install 'midstride[mcp]'\n"
    assert python(program, tmp_path) == wanted


def test_without_opentelemetry_the_error_names_the_extra(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "import midstride\n"
        "try:\n"
        "    from midstride.integrations.opentelemetry import Telemetry\n"
        "except midstride.MidstrideError as error:\n"
        "    print(error)\n"
    )
    assert python(program, tmp_path) == "telemetry needs OpenTelemetry's API: pip install 'midstride[opentelemetry]'\n"


def test_without_cryptography_the_error_names_the_extra_and_a_plain_store_needs_it_not(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['cryptography.hazmat.primitives.ciphers.aead'] = None\n"
        "import midstride\n"
        "agent = midstride.Agent(midstride.models.Scripted(['Done.']), store='sqlite:runs.db')\n"
        "assert agent.run('go').answer == 'Done.'\n"
        "assert 'cryptography' not in sys.modules\n"
        "try:\n"
        "    midstride.stores.AesGcm(bytes(32))\n"
        "except midstride.MidstrideError as error:\n"
        "    print(error)\n"
    )
    assert python(program, tmp_path) == "AesGcm needs cryptography: pip install 'midstride[encryption]'\n"


def test_nothing_of_opentelemetry_is_imported_unless_it_is_configured(tmp_path):
    program = (
        "import sys, midstride\n"
        "with midstride.Run('memory:', 'own', 'go') as run: pass\n"
        "agent = midstride.Agent(midstride.models.Scripted(['Done.']), store='memory:')\n"
        "assert agent.run('go').answer == 'Done.'\n"
        "assert [m for m in sys.modules if 'opentelemetry' in m or 'integrations' in m] == []\n"
    )
    assert python(program, tmp_path) == ""


def test_the_library_installs_no_signal_handlers_and_leaves_the_log_alone(tmp_path):
    program = (
        "import logging, signal\n"
        "before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]\n"
        "import midstride\n"
        "midstride.Agent(midstride.models.Scripted(['Done.']), store='memory:').run('go')\n"
        "assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before\n"
        "assert logging.getLogger().handlers == []\n"
        "assert [type(h) for h in logging.getLogger('midstride').handlers] == [logging.NullHandler]\n"
    )
    assert python(program, tmp_path) == ""
