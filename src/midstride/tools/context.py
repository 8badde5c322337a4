"""What a tool is told about the call it answers, beside the model's arguments."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, get_args, get_origin

from midstride.errors import DeclarationError
from midstride.threads import in_thread
from midstride.tools.answers import Accepted
from midstride.tools.command import Command, Completed, Leash, Word
from midstride.tools.seconds import Seconds

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)  # so that a plain `Context` is well typed under mypy --strict
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Context", "Handed", "is_context", "mentions_context"]


class Handed:
    """Where one attempt leaves word that the other side has accepted its work, even if it never returns."""

    accepted: Accepted | None = None


@dataclass(frozen=True, slots=True)
class Context(Generic[T]):
    """The call that is being answered; a tool gets it in a parameter annotated `Context` or `Context[Connection]`.

    *key* is the idempotency key: the same for every attempt of the call, and no other call's. *turn* and *index* say
    where the call stands in its run; *attempt* is 1 for the first one.
    """

    key: str
    run_id: str
    call_id: str
    turn: int
    index: int
    attempt: int = 1
    _transaction: T | None = field(default=None, repr=False, compare=False)
    _handed: Handed | None = field(default=None, repr=False, compare=False)
    _leash: Leash | None = field(default=None, repr=False, compare=False)

    @property
    def transaction(self) -> T:
        """The open connection of the store's database; what is written here commits together with the call's result.

        Raises DeclarationError when the tool is not transactional.
        """
        if self._transaction is None:
            raise DeclarationError(
                f"call {self.call_id} has no transaction, since its tool is not transactional: "
                "declare the tool with @tool.transactional, or open a connection of its own"
            )
        return self._transaction

    def accepted(self, handle: Any) -> Accepted:
        """Say that another side took the work and goes on by itself: `return context.accepted(job_id)`.

        *handle*, any JSON value, is what the tool's poll finds the work by, days later and in another process. Once
        said it counts, also when the tool raises or times out behind it; an ordinary result counts more. Raises
        DeclarationError for what is no handle, for a second one, and in a transactional tool.
        """
        if self._transaction is not None:
            raise DeclarationError(
                f"call {self.call_id} is transactional, so its result commits with its rows: work that another side "
                "goes on with needs a tool of its own, declared by what repeating it does"
            )
        accepted = Accepted(handle)
        if self._handed is None:
            return accepted  # no run is there to be told: a test called the tool
        before = self._handed.accepted
        if before is not None and before != accepted:
            raise DeclarationError(
                f"call {self.call_id} was accepted as {before.handle!r} before, and one call has one handle: give one "
                "that finds all of its work"
            )
        self._handed.accepted = accepted
        return accepted

    def run(
        self,
        argv: Sequence[Word],
        *,
        input: str | bytes | None = None,
        cwd: Word | None = None,
        env: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        check: bool = False,
        merge_stderr: bool = False,
    ) -> Completed:
        """Run a command, a list of words, in a session of its own, and wait for its end.

        The command and all of its group end with it, with the call (its time is over, it is cancelled, nobody drives
        the run any more: CallEnded is raised), and with this process, even by SIGKILL. *input* is what it reads, else
        nothing; *env* is all of its environment, else this process's. Beyond its *timeout*, in seconds or as a
        timedelta, it is killed, and subprocess.TimeoutExpired is raised; with *check* a code other than 0 is a
        CommandFailed. *merge_stderr* writes standard error into standard output. Raises FileNotFoundError and
        PermissionError for what cannot be run.
        """
        if _in_a_loop():
            raise DeclarationError(
                "context.run blocks, and would stop everything else in this event loop: await context.run_async"
            )
        return self._command(argv, input, cwd, env, timeout, check, merge_stderr).run(self._leash)

    async def run_async(
        self,
        argv: Sequence[Word],
        *,
        input: str | bytes | None = None,
        cwd: Word | None = None,
        env: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        check: bool = False,
        merge_stderr: bool = False,
    ) -> Completed:
        """Do the same without blocking the event loop; the command ends with its task, too."""
        command = self._command(argv, input, cwd, env, timeout, check, merge_stderr)
        return await in_thread(command.run, self._leash, on_cancel=command.end)

    def _command(
        self,
        argv: Sequence[Word],
        input: str | bytes | None,
        cwd: Word | None,
        env: Mapping[str, str] | None,
        timeout: Seconds | None,
        check: bool,
        merge_stderr: bool,
    ) -> Command:
        return Command(argv, input=input, cwd=cwd, env=env, timeout=timeout, check=check, merge_stderr=merge_stderr)

    def within(self, transaction: T) -> Context[T]:
        """Return this context with an open transaction; for whoever runs a transactional tool, also in a test."""
        return dataclasses.replace(self, _transaction=transaction)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_context(hint: Any) -> bool:
    """Tell whether a parameter with this type hint is given the context."""
    return hint is Context or get_origin(hint) is Context


def mentions_context(hint: Any) -> bool:
    """Tell whether the context stands anywhere in a type hint, as in `Context | None`: the model must never fill it."""
    inherits = isinstance(hint, type) and issubclass(hint, Context)
    return inherits or is_context(hint) or any(mentions_context(part) for part in get_args(hint))
