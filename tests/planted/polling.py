"""Faults in what is done about work that another side has accepted."""

from __future__ import annotations

from planted.fault import Fault

ACCEPTED = ("tests/core/test_accepted.py",)
DRIVEN = ("tests/drive/test_accepted.py",)
KILLED = ("tests/proof/test_every_point_in_memory.py", "-k", "memory-blocking-render")

POLLING = [
    Fault(
        "a handle is not recorded",
        "The process dies while the job runs, and nobody finds it again.",
        "core/settle.py",
        "return accepted(call, ended.content, effective(call, desk.program))",
        "return ()",
        DRIVEN,
    ),
    Fault(
        "accepted work is begun again by the next process",
        "The film is rendered twice.",
        "core/reconcile.py",
        'CallState.ACCEPTED: "accepted"',
        'CallState.ACCEPTED: "new"',
        KILLED,
    ),
    Fault(
        "a poll that fails is a doubt",
        "The line is down for a minute, and the model is told that nobody knows of a job that runs on.",
        "core/polling.py",
        'if seen.answer == "failed":',
        'if seen.answer == "never":',
        ACCEPTED,
    ),
    Fault(
        "a poll that fails is asked again at the same pace for ever",
        "A service that is down is asked by every run every ten seconds.",
        "core/polling.py",
        "BACK_OFF[min(call.failures, len(BACK_OFF) - 1)]",
        "BACK_OFF[0]",
        ACCEPTED,
    ),
    Fault(
        "a job that failed is definite though an earlier attempt may have happened",
        "The model is told that nothing happened, and a mail went out.",
        "core/polling.py",
        "not (call.reruns or call.imported)",
        "call.attempts",
        ACCEPTED,
    ),
    Fault(
        "a run that waits does not say until when",
        "Whoever carries it on has to guess, and asks all the time or never.",
        "core/polling.py",
        "again_at=round(at, 3)",
        "again_at=None",
        ACCEPTED,
    ),
    Fault(
        "a handle is forgotten when the tool raises behind it",
        "The job was taken, and the model is told that nobody knows.",
        "drive/attempts.py",
        "return None if handed.accepted is None else",
        "return None if handed is not None else",
        DRIVEN,
    ),
    Fault(
        "the result that a poll gave is lost behind what others append",
        "The run is cancelled as the job is found done, and the model is told that nobody knows.",
        "core/settle.py",
        'desk.in_hand.append(Ended(move.call.key, "returned", seen.content))',
        'desk.write(Settled(*move.call.key, "ok", seen.content))',
        ACCEPTED,
    ),
    Fault(
        "a transactional tool may hand work over",
        "Its rows are rolled back, and the job runs on.",
        "tools/context.py",
        "if self._transaction is not None:\n            raise",
        "if self._transaction == ():\n            raise",
        ("tests/tools/test_context.py",),
    ),
]
