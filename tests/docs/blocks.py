"""The fenced blocks of a page, and a folder in which they are run in order, as a reader would by hand.

python               run in the page's own namespace, which all its python blocks share
python title="F"     written to the file F, for the shell blocks behind it
sh                   run by bash, with the `midstride` and `python` of these tests first on the path
text                 right behind one of those: what it printed; `...` stands for anything
ini, json, console   shown only: a test of its own reads them
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("python", "sh")
SHOWN = ("ini", "crontab", "json")
FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?[^\n]*\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of *page*; *line* is where its text begins, so that a traceback names the page's own line."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str


def blocks_of(page):
    """Return the fenced blocks of the page at this path under the root, in order."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    return [Block(path, text.count("\n", 0, at.start(3)) + 1, at[1], at[2], at[3]) for at in FENCE.finditer(text)]


def block_with(page, words, language="python"):
    """Return the text of the page's only block in this language that holds *words*."""
    (found,) = [block.text for block in blocks_of(page) if block.language == language and words in block.text]
    return found


class Reader:
    """Runs a page's blocks in *folder*, which must be the current one; *settings* are put into the environment."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.names = {"__name__": "__main__"}
        self.environment = environment(**settings)
        self.printed = ""

    def read(self, page):
        """Run every block of the page, and hold what is printed against what the page says is printed."""
        for block in blocks_of(page):
            self._run(block)

    def _run(self, block):
        match block.language:
            case "python" if block.title:
                (self.folder / block.title).write_text(block.text, encoding="utf-8")
            case "python":
                self.printed = self._python(block)
            case "sh":
                self.printed = self.shell(block.text)
            case "text":
                assert_printed(self.printed, block)
            case language:
                assert language in SHOWN, f"{block.page.name}:{block.line}: nothing runs a block in {language!r}"

    def _python(self, block):
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.names)
        return printed.getvalue()

    def shell(self, text):
        """Run a script and return what it prints; whatever fails in it fails the test."""
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


def environment(**settings):
    """Return the environment of a reader's terminal: nothing of midstride's or of these tests is set but *settings*."""
    ours = ("MIDSTRIDE_", "ANTHROPIC_", "PYTEST_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join((str(Path(sys.prefix) / "bin"), os.environ["PATH"]))
    return {**own, "PATH": path, "COLUMNS": "100", "NO_PROXY": "*", "no_proxy": "*", **settings}


def assert_printed(printed, block):
    """Hold what was printed against a text block, blind to line breaks and to the width of columns."""
    wanted, found = " ".join(block.text.split()), " ".join(printed.split())
    assert fits(found, wanted.split("...")), f"{block.page.name}:{block.line} says\n{wanted}\nbut it is\n{found}"


def fits(found, parts):
    """Tell whether *found* is *parts* in their order with anything between them."""
    first, *others = parts
    if not others:
        return found == first
    at = len(first) if found.startswith(first) else -1
    for part in others[:-1]:
        place = found.find(part, at) if at >= 0 else -1
        at = place + len(part) if place >= 0 else -1
    return 0 <= at <= len(found) - len(others[-1]) and found.endswith(others[-1])


def table_under(page, heading):
    """Return the cells of the first table under a heading of the page, without its head."""
    text = f"\n{(ROOT / page).read_text(encoding='utf-8')}".partition(f"\n{heading}\n")[2]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].strip().splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def code_in(cell):
    """Return what a table's cell has in code style."""
    return re.findall(r"`([^`]+)`", cell)
