"""Build the wheel and use it as a newcomer would: `python scripts/try_wheel.py` in a checkout's environment.

In a new virtual environment of this Python: what is inside, the demo, and one run that is killed and resumed from the
command line.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES, KINDS = ROOT / "examples", {".py", ".md", ".csv"}

AGENT = '''
import os, pathlib, signal
from midstride import Agent, models, tool

@tool.read_only
def look() -> str:
    """Die the first time."""
    seen = pathlib.Path("seen")
    if not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "all is well"

agent = Agent(models.Scripted([[("look", {})], "Done."]), [look])
'''


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        look_inside(wheel)
        bin_folder = install(wheel, Path(folder) / "venv")
        try_demo(bin_folder, Path(folder))
        try_kill(bin_folder, Path(folder))
    print(f"{wheel.name} works on Python {sys.version.split()[0]}")


def build(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    return next(folder.glob("*.whl"))


def look_inside(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    strange = [name for name in names if not name.startswith(("midstride/", "midstride-")) or "test_" in name]
    wanted = {
        "midstride/py.typed",
        "midstride/stores/schema.sql",
        "midstride/stores/claims.sql",
        *(f"midstride/demo/{path.relative_to(ROOT)}" for path in EXAMPLES.rglob("*") if path.suffix in KINDS),
    }
    if strange or not wanted <= set(names):
        sys.exit(f"the wheel holds {strange}, and lacks {sorted(wanted - set(names))}")


def install(wheel: Path, place: Path) -> Path:
    venv.create(place, with_pip=True)
    pip = [place / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--constraint", ROOT / "constraints.txt", f"{wheel}[demo]"], check=True)
    return place / "bin"


def try_demo(bin_folder: Path, folder: Path) -> None:
    told = json.loads(run(bin_folder, folder, "demo", "--json").stdout)
    counts = {name: told[name]["mails"] for name in ("naive", "unsafe", "verifiable")}
    if counts != {"naive": 2, "unsafe": 1, "verifiable": 1}:
        sys.exit(f"the demo's mailboxes hold {counts}")


def try_kill(bin_folder: Path, folder: Path) -> None:
    (folder / "agent.py").write_text(AGENT)
    killed = run(bin_folder, folder, "run", "agent.py:agent", "--task", "look", "--id", "one", ends=-signal.SIGKILL)
    resumed = json.loads(run(bin_folder, folder, "resume", "one", "--json").stdout)
    if (resumed["status"], resumed["answer"], resumed["turns"]) != ("done", "Done.", 2):
        sys.exit(f"after {killed.returncode} the resume says {resumed}")


def run(bin_folder: Path, folder: Path, *arguments: str, ends: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MIDSTRIDE_STORE": f"sqlite:{folder}/runs.db"}
    command = [bin_folder / "midstride", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != ends:
        sys.exit(f"midstride {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done


if __name__ == "__main__":
    main()
