"""Every error midstride raises, in one tree; whose fault an error is decides its type.

    MidstrideError
    +- DeclarationError (also a TypeError)  yours: a tool, an agent or a store URL is declared wrongly
    +- RunError                             yours: what was asked does not fit the run
    |  +- TaskDiffers                       another task under a known id
    |  +- UnknownRun                        no run has this id
    |  +- Removed                           the run with this id was removed, and is not begun anew
    |  +- NotAllowed                        the run's state has no room for this (the empty cells of the tables)
    |  +- Interrupted                       it was asked to stop, and did; run the same program again
    +- JournalError                         the journal's: refused untouched
    |  +- Damaged                           cut, empty, flipped, or edited by hand
    |  +- Newer                             written by a newer midstride
    |  +- NotOurs                           a file that midstride did not write
    +- StoreError                           the disk's or the database's: it could not be read or written
    |  +- NotDurable                        a write failed so that nobody knows whether it is on disk
    |  +- KeyMissing                        it is encrypted with a key that was not given; give it and try again
    +- WorkerError                          another worker's
    |  +- Held                              a living process drives this run
    |  +- Fenced                            a newer holder has taken the run
    |  +- Moved                             somebody appended in between; read the tail and try again
    |  +- Claimed                           another run has the business key; look at that run
    +- ToolsUnavailable                     a server of tools could not be reached; run the same program again
    +- CallError                            a call through a ledger that gave no result; its text is for the model
    |  +- WrongArguments                    they do not fit the tool; nothing was written, nothing ran
    |  +- ToolFailed                        it failed for certain, and had no effect
    |  +- Denied                            a person said no, and it had no effect
    |  +- NeedsPerson                       a person has to act first; the text says how
    |  +- NotDone                           another side has the work; make the same call again later
    |  +- InDoubt                           nobody knows whether it took effect
    +- ModelError                           the model's, or its API's
       +- NotAResponse                      a stream that was cut, or a value that is no response
       +- ModelUnavailable                  asked again with back-off, in vain; the run can be resumed
       +- AccessRefused                     the key or the account is refused; set it right and resume
       +- RequestRefused                    the API refuses this request for good
       +- InvalidTranscript                 the request breaks a rule of the API, so it was not sent

A tool's exception is the model's to read and is none of these. `DidNotHappen` is for tools: see `midstride.tools`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from midstride.hidden import redacted

__all__ = [
    "AccessRefused",
    "CallError",
    "Claimed",
    "Damaged",
    "DeclarationError",
    "Denied",
    "Fenced",
    "Held",
    "Holder",
    "InDoubt",
    "Interrupted",
    "InvalidTranscript",
    "JournalError",
    "KeyMissing",
    "MidstrideError",
    "ModelError",
    "ModelUnavailable",
    "Moved",
    "NeedsPerson",
    "Newer",
    "NotAResponse",
    "NotAllowed",
    "NotDone",
    "NotOurs",
    "Removed",
    "RequestRefused",
    "RunError",
    "StoreError",
    "TaskDiffers",
    "ToolFailed",
    "ToolsUnavailable",
    "UnknownRun",
    "WorkerError",
    "WrongArguments",
]


class MidstrideError(Exception):
    """The root of the tree: `except MidstrideError` catches all that midstride raises itself.

    Its text ends up in logs and terminals, so what looks like a secret in what it quotes is replaced (docs/privacy.md).
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


class DeclarationError(MidstrideError, TypeError):
    """A tool, an agent or a store URL is declared wrongly; raised where it is declared."""


class RunError(MidstrideError):
    """What was asked does not fit the run."""


class TaskDiffers(RunError):
    """Another task under an id that is taken: the same id is the same piece of work, for ever."""


class UnknownRun(RunError):
    """No run in the store has this id."""


class Removed(RunError):
    """The run was removed: its id is the same work for ever, so nothing is begun under it; `at` is when."""

    def __init__(self, message: str, at: float) -> None:
        super().__init__(message)
        self.at = at


class NotAllowed(RunError):
    """A table has no cell for this entry in the run's state; nothing was written."""


class Interrupted(RunError):
    """The run was asked to stop and did, in order; nothing is lost, run the same program again."""


class JournalError(MidstrideError):
    """The journal cannot be used as it is; it was left untouched."""


class Damaged(JournalError):
    """The journal, or the file that holds it, is cut, empty, changed or edited by hand.

    `whole` holds the entries before the damage that could still be read, and were as they had been written.
    """

    def __init__(self, message: str, *, whole: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.whole = tuple(whole)


class Newer(JournalError):
    """The journal was written by a newer midstride than this one."""


class NotOurs(JournalError):
    """The file or database was not written by midstride."""


class StoreError(MidstrideError):
    """The store could not be read or written; what was acknowledged before is still there."""


class NotDurable(StoreError):
    """A write failed in such a way that nobody knows whether it is on disk: the next start goes by what is there."""


class KeyMissing(StoreError):
    """What is stored is encrypted with a key that was not given; nothing was changed.

    `key_id` names the key (the first bytes of its hash, in hex; "" where nobody knows). `entries` counts those of the
    run whose stored chain was checked all the same, from the first on, and is whole.
    """

    def __init__(self, message: str, key_id: str = "", entries: int = 0) -> None:
        super().__init__(message)
        self.key_id = key_id
        self.entries = entries


class WorkerError(MidstrideError):
    """Another worker is in the way."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that drives a run: its host, its pid, and since when (seconds since the epoch, if known)."""

    host: str
    pid: int
    since: float | None = None


class Held(WorkerError):
    """A living process drives the run; `holder` names it."""

    def __init__(self, message: str, holder: Holder) -> None:
        super().__init__(message)
        self.holder = holder


class Fenced(WorkerError):
    """A newer holder has taken the run; this one may write nothing more."""


class Moved(WorkerError):
    """The journal is longer than the writer believed; `seq` is its last entry's number."""

    def __init__(self, message: str, seq: int) -> None:
        super().__init__(message)
        self.seq = seq


class ToolsUnavailable(MidstrideError):
    """A server of tools could not be reached when the program asked for its tools; no run was touched."""


class Claimed(WorkerError):
    """Another run of the store has claimed the business key; `owner` is that run's id. Nothing was written."""

    def __init__(self, message: str, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class CallError(MidstrideError):
    """A call through a ledger gave no result; the text is fit for the model, and whole: it is the model's.

    `run_id` and `call_id` name the call that a person may look at, or decide about (`Runs.decide`).
    """

    def __init__(self, message: str, run_id: str, call_id: str) -> None:
        Exception.__init__(self, message)
        self.run_id = run_id
        self.call_id = call_id


class WrongArguments(CallError):
    """The arguments do not fit the tool: nothing was written and nothing ran, so the call id is still free."""


class ToolFailed(CallError):
    """The call failed for certain, and had no effect; the same call id fails the same way for ever."""


class Denied(CallError):
    """A person decided against the call, or called it off; it had no effect."""


class NeedsPerson(CallError):
    """A person has to act before the call can go on; the text says how."""


class NotDone(CallError):
    """Another side has accepted the work and goes on; the same call, made again, asks how it stands.

    `again_at` is when it is to be asked, in seconds since the epoch; before that time nobody is asked.
    """

    def __init__(self, message: str, run_id: str, call_id: str, again_at: float | None) -> None:
        super().__init__(message, run_id, call_id)
        self.again_at = again_at


class InDoubt(CallError):
    """The call, or the same deed under another id, may or may not have taken effect."""


class ModelError(MidstrideError):
    """The model's, or its API's."""


class NotAResponse(ModelError):
    """A stream that ended without a stop reason, or a value that is no response of the run's API."""


class ModelUnavailable(ModelError):
    """The model could not be reached, or was overloaded, at every try; the run can be resumed."""


class AccessRefused(ModelError):
    """The API refuses the key or the account (401, 402, 403); set it right and run the same program again."""


class RequestRefused(ModelError):
    """The API refuses this request for good (400, 404, 413, 422): asking again would not help."""


class InvalidTranscript(ModelError):
    """The next request would break a rule of the model's API, so it was not sent."""
