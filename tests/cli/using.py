"""The command line, used as its users use it: real processes, a real terminal, real signals."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import midstride.cli
from cli.agents import pay
from midstride import Run, Runs
from midstride.core.journal import Asked, seal
from midstride.stores import SqliteStore

AGENTS = Path(__file__).with_name("agents.py")
MIDSTRIDE = [sys.executable, "-m", "midstride.cli"]
STORE = ".midstride/runs.db"
SECONDS = 60


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class User:
    """Somebody in *folder*, where `agents.py` is; what is set in the environment besides is *environment*."""

    def __init__(self, folder, **environment):
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment = {**kept, "PYTHONIOENCODING": "utf-8", **environment}

    def start(self, *words, **more):
        """Start a command and do not wait for it."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            [*MIDSTRIDE, *words], cwd=self.folder, env=self.environment, **{**pipes, "encoding": "utf-8", **more}
        )

    def do(self, *words, **more):
        """Run a command to its end."""
        return end_of(self.start(*words, **more))

    def do_forked(self, *words):
        """Run a command in a forked process, which has imported everything already: for the many."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not matter to the child
                pid = os.fork()
            if pid == 0:
                self._be_it([os.fsdecode(word) for word in words], out.fileno(), err.fileno())
            _, status = os.waitpid(pid, 0)
            out.seek(0), err.seek(0)
            return Ended(os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode())

    def _be_it(self, words, out, err):
        code = 70
        try:
            os.dup2(out, 1)
            os.dup2(err, 2)
            sys.stdout, sys.stderr = open(1, "w", encoding="utf-8"), open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(self.environment)
            sys.argv = ["midstride", *words]
            midstride.cli.main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdout.flush()
            os._exit(code)

    def shell(self, line):
        """Run a line of shell in which `midstride` is the command."""
        script = f'midstride() {{ {sys.executable} -m midstride.cli "$@"; }}; {line}'
        process = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, timeout=SECONDS
        )
        return Ended(process.returncode, process.stdout.decode("utf-8", "replace"), process.stderr.decode("utf-8"))

    def sent(self):
        """Return the effects of the tools."""
        path = self.folder / "sent"
        return path.read_text().split() if path.exists() else []

    def journals(self):
        """Return every journal of the default store, as it is stored."""
        path = self.folder / STORE
        if not path.exists():
            return {}
        store = SqliteStore(path)
        try:
            return {run_id: [entry.text for entry in store.read(run_id)] for run_id in store.runs()}
        finally:
            store.close()

    def kinds(self, run_id):
        """Return the kinds of the run's entries."""
        return [re.search(r'"kind":"(\w+)"', text)[1] for text in self.journals()[run_id]]

    @contextmanager
    def runs(self):
        """Lend the library's view of the default store."""
        runs = Runs(SqliteStore(self.folder / STORE))
        try:
            yield runs
        finally:
            runs.close()

    def files(self):
        """Return what is in the folder: names and contents."""
        return {
            p: p.read_bytes() for p in sorted(self.folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts
        }

    def gate(self, name):
        """Return a gate that holds the tool *name*."""
        return Gate(self.folder, name)


def end_of(process, seconds=SECONDS):
    """Wait until the command has ended, and return how."""
    out, err = process.communicate(timeout=seconds)
    return Ended(process.returncode, out, err)


def wait_for(process, words):
    """Read what the process writes until *words* come."""
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without {words!r}")


class Gate:
    """Two named pipes: the tool opens the first one when it has begun, and the second one to wait."""

    def __init__(self, folder, name):
        self._begun, self._go = folder / f"{name}.gate", folder / f"{name}.go"
        os.mkfifo(self._begun)
        os.mkfifo(self._go)
        self._listening = os.open(self._begun, os.O_RDONLY | os.O_NONBLOCK)

    def arrived(self):
        """Wait until the tool waits at the gate."""
        poll = select.poll()
        poll.register(self._listening, 0)  # a writer that has come and gone is a hang-up
        assert poll.poll(SECONDS * 1000), "the tool did not begin"

    def open(self):
        """Let the tool go on, and every later one pass."""
        self._begun.unlink()
        self._opened = os.open(self._go, os.O_RDWR)


class Terminal:
    """A command on a terminal of its own; *seen* is all that it has written so far, as the terminal gets it."""

    def __init__(self, user, *words, columns=100, stdout=None, **environment):
        self._master, slave = pty.openpty()
        env = {**user.environment, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40", **environment}
        self.process = subprocess.Popen(
            [*MIDSTRIDE, *words],
            cwd=user.folder,
            env=env,
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def sees(self, words):
        """Read on until *words* stand on the terminal."""
        while words not in plain(self.seen):
            assert self._read(), f"it ended, and {words!r} was not there:\n{plain(self.seen)}"
        return plain(self.seen)

    def end(self):
        """Read to the end and return the exit code."""
        while self._read():
            pass
        self.process.wait(SECONDS)
        os.close(self._master)
        return self.process.returncode

    def hang_up(self):
        """Close the terminal, as a window that is closed does."""
        os.close(self._master)

    def _read(self):
        ready, _, _ = select.select([self._master], [], [], SECONDS)
        assert ready, f"nothing came for {SECONDS} s:\n{plain(self.seen)}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how a pty says that its other side is closed
            data = b""
        self.seen += data.decode("utf-8", "replace")
        return bool(data)


def approval_asked(user, id="r"):
    """Make a run whose call `pay` waits for an approval, and that no process drives."""
    block = {"type": "tool_use", "id": "toolu_1_0", "name": "pay", "input": {"cents": 100}}
    with Run(f"sqlite:{user.folder / STORE}", id, "t", tools=[pay]) as run:
        next(run).respond({"role": "assistant", "content": [block], "stop_reason": "tool_use"})
    with user.runs() as runs:
        found = runs.get(id)
        runs.store.append(id, seal([Asked(1, 0, "approval")], found.head, 0), token=found.token)


def plain(text):
    """Return *text* without what colours it or moves the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


def stop(process, number=signal.SIGTERM):
    """Send a signal to a process that was started here."""
    os.kill(process.pid, number)
