"""A command that a tool runs: in a session of its own, and with an end that its call brings, whatever becomes of us.

Its whole group is killed when it has ended itself (it may have left something behind), when its time is over, when its
call is (a `Leash` ends every command of one call), and with this process, however that ends (`group.py`). What a
command moves into a session of its own lives on: nobody promises that.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from midstride.errors import DeclarationError
from midstride.tools.group import OUTPUT_MAX, SHELL, Bell, Group, Guard, Kept
from midstride.tools.seconds import Seconds, span_of

__all__ = ["CallEnded", "Command", "CommandFailed", "Completed", "Leash"]

Word = str | os.PathLike[str]

ERROR_TAIL = 2_000
"""Characters of a failed command's output that its error repeats."""

GATE = 'read -r _ && exec "$@"'


class CallEnded(Exception):
    """The call that this command ran for is over: its time is, it was cancelled, or nobody drives its run any more."""

    def __init__(self) -> None:
        super().__init__("the command was ended, since its call is over")


class CommandFailed(subprocess.CalledProcessError):
    """A command ended with another code than 0, and its tool had asked for `check`; what it wrote last is repeated."""

    def __str__(self) -> str:
        wrote = (self.stderr or self.output or "").strip()[-ERROR_TAIL:]
        return f"{super().__str__()}{' It wrote: ' + wrote if wrote else ''}"


@dataclass(frozen=True, slots=True)
class Completed:
    """What came of a command: *returncode* is its exit code, or minus the number of the signal that ended it.

    *out* and *err* are what it wrote, as bytes; *left_out* is how many bytes of the middle of each were not kept.
    """

    argv: tuple[str, ...]
    returncode: int
    out: bytes
    err: bytes
    left_out: tuple[int, int] = (0, 0)

    @property
    def stdout(self) -> str:
        """Return what it wrote to standard output, as text; what is no UTF-8 is U+FFFD."""
        return _text(self.out, self.left_out[0])

    @property
    def stderr(self) -> str:
        """Return what it wrote to standard error, as text; nothing where that was merged into standard output."""
        return _text(self.err, self.left_out[1])


def _text(data: bytes, left_out: int) -> str:
    if not left_out:
        return data.decode("utf-8", "replace")
    half = OUTPUT_MAX // 2
    parts = [part.decode("utf-8", "replace") for part in (data[:half], data[half:])]
    return f"\n[{left_out:,} bytes were left out]\n".join(parts)


# ---- what ends commands


class Leash:
    """Ends the commands of one call; once it is cut, no other begins."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._commands: set[Command] = set()
        self._is_cut = False

    @contextlib.contextmanager
    def holding(self, command: Command) -> Iterator[None]:
        """End *command* when the leash is cut within the block; raises CallEnded when it is cut already."""
        with self._mutex:
            if self._is_cut:
                raise CallEnded
            self._commands.add(command)
        try:
            yield
        finally:
            with self._mutex:
                self._commands.discard(command)

    def cut(self) -> bool:
        """End the commands that run, without waiting for it; tell whether there was one."""
        with self._mutex:
            self._is_cut = True
            for command in self._commands:
                command.end()
            return bool(self._commands)


LEASH: ContextVar[Leash | None] = ContextVar("midstride leash", default=None)
"""The leash of the call that is answered here; whoever starts an attempt sets it."""


# ---- a command


class Command:
    """One command, run once: `run` blocks until nothing of its group is left; `end` ends it, from any thread."""

    def __init__(
        self,
        argv: Sequence[Word],
        *,
        input: str | bytes | None = None,
        cwd: Word | None = None,
        env: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        check: bool = False,
        merge_stderr: bool = False,
    ) -> None:
        self._argv = _words(argv)
        self._input = input.encode() if isinstance(input, str) else input
        self._cwd, self._env = cwd, env
        self._timeout = None if timeout is None else span_of("timeout", timeout, "this command")
        self._check, self._merge = check, merge_stderr
        self._mutex = threading.Lock()
        self._bell: Bell | None = None
        self._is_over = False

    def end(self) -> None:
        """End the command, also one that has not begun; `run` raises CallEnded."""
        with self._mutex:
            self._is_over = True
            if self._bell is not None:
                self._bell.ring(b"c")

    def run(self, leash: Leash | None = None) -> Completed:
        """Run it to its end, which comes with *leash* at the latest.

        Raises what `subprocess.run` does: FileNotFoundError, PermissionError, TimeoutExpired; and CallEnded.
        """
        program = _found(self._argv[0], self._cwd, self._env)
        with contextlib.ExitStack() as stack:
            stack.enter_context((leash or Leash()).holding(self))
            bell = Bell()
            stack.callback(bell.close)
            with self._mutex:
                self._bell = bell
                if self._is_over:
                    raise CallEnded
            stack.callback(self._forget_bell)
            done = self._attended(stack, bell, program)
        if self._check and done.returncode:
            raise CommandFailed(done.returncode, list(self._argv), done.stdout, done.stderr)
        return done

    def _forget_bell(self) -> None:
        with self._mutex:
            self._bell = None

    def _attended(self, stack: contextlib.ExitStack, bell: Bell, program: str) -> Completed:
        guard = Guard()
        stack.callback(guard.dismiss)
        process = self._gated(program)
        held = Group(process, guard, bell)
        stack.callback(held.close)
        guard.watch(process.pid)
        outputs = [Kept(), Kept()]
        why = held.talk(b"go\n" + (self._input or b""), outputs, self._timeout)
        held.kill()
        held.drain(outputs)
        if why == "over":
            raise CallEnded
        if why == "late":
            assert self._timeout is not None
            out, err = (kept.data().decode("utf-8", "replace") for kept in outputs)
            raise subprocess.TimeoutExpired(list(self._argv), self._timeout, out, err)
        out_bytes, err_bytes = (kept.data() for kept in outputs)
        left_out = (outputs[0].left_out, outputs[1].left_out)
        return Completed(self._argv, process.returncode, out_bytes, err_bytes, left_out)

    def _gated(self, program: str) -> subprocess.Popen[bytes]:
        gate = GATE if self._input is not None else f"{GATE} </dev/null"
        return subprocess.Popen(
            [SHELL, "-c", gate, "sh", *_carried(self._env), program, *self._argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if self._merge else subprocess.PIPE,
            bufsize=0,
            cwd=self._cwd,
            env=self._env,
            start_new_session=True,
        )


def _words(argv: Sequence[Word]) -> tuple[str, ...]:
    if isinstance(argv, (str, bytes)) or not argv:
        raise DeclarationError(
            f"a command is a list of words, not {argv!r}: for a line of shell ['/bin/sh', '-c', line]"
        )
    return tuple(os.fsdecode(word) for word in argv)


def _found(name: str, cwd: Word | None, env: Mapping[str, str] | None) -> str:
    """Return *name* once there is such a program: the gate could only say by a code that there is none."""
    if os.sep in name:
        path = os.path.join(cwd or os.curdir, name)
        found = path if os.path.isfile(path) and os.access(path, os.X_OK) else None
    else:
        path = name
        found = shutil.which(name, path=(os.environ if env is None else env).get("PATH", os.defpath))
    if found is None:
        error = PermissionError if os.path.exists(path) and os.sep in name else FileNotFoundError
        raise error(f"there is no program {name!r} that can be run")
    return os.path.abspath(found) if name.startswith("-") else name  # a shell would take it for an option


def _carried(env: Mapping[str, str] | None) -> list[str]:
    """Return the words that carry variables past a shell which drops what it could not name itself."""
    given = os.environ if env is None else env
    odd = [f"{name}={value}" for name, value in given.items() if not (name.isascii() and name.isidentifier())]
    return ["/usr/bin/env", *odd] if odd else []
