"""Faults in what is saved before what, and in what happens to results."""

from __future__ import annotations

from planted.effects import CRASHES, KILLED_BEHIND_SEND, ORACLE
from planted.fault import Fault

SETTLE = ("tests/core/test_settle.py",)
TRANSACTIONS = ("tests/drive/test_transactional.py",)

SAVING = [
    # ---- before a tool starts
    Fault(
        "the intent is not written",
        "After a crash the call looks as if it had never started, and is run.",
        "core/settle.py",
        "    if move.intend:\n        desk.write(intent(move.call, terms))\n",
        "",
        KILLED_BEHIND_SEND,
    ),
    Fault(
        "the intent is written after the tool has started",
        "A crash in the tool leaves no intent behind.",
        "core/settle.py",
        "if (move.intend or not _unsaved_can_wait(desk)) and not (yield from _flush(desk)):",
        "if not move.intend and not _unsaved_can_wait(desk) and not (yield from _flush(desk)):",
        CRASHES,
    ),
    Fault(
        "a tool is started by a blocking driver that has lost its lease",
        "A forked child has its parent's intent too, and both send.",
        "drive/blocking.py",
        "            self.shell.check_newest()  # a child that was forked since has the intent, and not the run\n",
        "            pass\n",
        ("tests/drive/test_lost_lease.py",),
    ),
    Fault(
        "a tool is started by an asynchronous driver that has lost its lease",
        "A forked child has its parent's intent too, and both send.",
        "drive/asynchronous.py",
        "await self._looked(shell.check_newest)",
        "pass",
        ("tests/drive/test_lost_lease.py",),
    ),
    # ---- before the model is asked
    Fault(
        "results are sent before they are saved",
        "After a crash the model is told something else than it was told before.",
        "core/settle.py",
        "        desk.write(checked)\n    if not (yield from _flush(desk)):\n        return\n",
        "        desk.write(checked)\n",
        CRASHES,
    ),
    Fault(
        "the model's answer is given back before it is saved",
        "A loop of one's own shows an answer that no resume knows of.",
        "core/settle.py",
        "        yield from _save(desk, lambda run: _answer(run, value, restored=desk.restored))\n",
        "        desk.write(*_answer(desk.run, value))\n",
        ("tests/drive/test_own_loop.py",),
    ),
    Fault(
        "a request that breaks the API's rules is sent",
        "The API answers 400, and a poisoned transcript never recovers.",
        "core/settle.py",
        "        if (yield from _flush(desk)):\n            raise InvalidTranscript(checked)\n        return\n",
        "        checked = None\n",
        SETTLE,
    ),
    # ---- results
    Fault(
        "a result is forgotten when somebody spoke meanwhile",
        "The effect has happened, and the journal never hears of it.",
        "core/settle.py",
        "    desk.in_hand = desk.written + desk.in_hand\n",
        "",
        CRASHES[:1],
    ),
    Fault(
        "a cancelled run loses the result of the tool that runs",
        "It is reported as unknown, though the tool said what it did.",
        "core/settle.py",
        "if call is not None:\n            desk.write(*_bodies(",
        "if call is not None and not desk.run.cancelling:\n            desk.write(*_bodies(",
        ("tests/drive/test_outside.py", "-k", "real_result"),
    ),
    Fault(
        "a cancelled run does not wait for the tool that runs",
        "Its call is settled as unknown while it is still at work.",
        "core/moves.py",
        "if call.key in live.running:",
        "if call.key in live.running and not run.cancelling:",
        ("tests/core/test_moves.py",),
    ),
    Fault(
        "a result that comes late is dropped",
        "What was told as unknown stays so, though the tool said that it happened.",
        "core/settle.py",
        "    if call.state is CallState.UNKNOWN:\n        return (_late_truth(call, content),)\n",
        "    if call.state is CallState.UNKNOWN:\n        return ()\n",
        SETTLE,
    ),
    Fault(
        "a result is recorded twice",
        "The second one overwrites what the model was told.",
        "core/run.py",
        "    _C.SETTLED: {},\n}",
        '    _C.SETTLED: {"settled": _C.SETTLED},\n}',
        ORACLE,
    ),
    Fault(
        "a result that came between two drivers is forgotten",
        "The next one in this process finds the attempt dead and repeats it.",
        "drive/attempts_here.py",
        "known = _attempts.get(key)",
        "known = None",
        ("tests/drive/test_attempts.py", "-k", "outlives or between_two_drivers"),
    ),
    Fault(
        "a result that could not be saved is forgotten",
        "The disk was full for a moment, and what the tool said is gone.",
        "drive/attempts.py",
        "self._ended = [*(e for e in ended if not e.alive), *self._ended]",
        "pass",
        ("tests/drive/test_left_results.py",),
    ),
    Fault(
        "a result that its driver has not heard of is left when the run is let go",
        "The process ends, and the next one has to doubt what was known.",
        "drive/attempts.py",
        "self._report(ended, None, self.late)  # while the run is still held\n",
        "pass\n",
        ("tests/drive/test_left_results.py",),
    ),
    Fault(
        "the late result of a former driver is accepted",
        "It settles a call that another process has judged since and may be running again.",
        "drive/shell.py",
        "if call is None or not (settled or (begun and ours)):",
        "if call is None or not (settled or begun):",
        ("tests/drive/test_lost_lease.py",),
    ),
    Fault(
        "a save that is cancelled is done by half",
        "The driver goes on beside a write that it does not wait for.",
        "threads.py",
        "        return await asyncio.shield(work)\n",
        "        return await work\n",
        ("tests/drive/test_threads.py", "-k", "wait_that_is_cancelled"),
    ),
    # ---- transactions
    Fault(
        "a transactional tool's rows are committed though it failed",
        "The model is told that it failed, and the seat is booked.",
        "drive/transact.py",
        "                raise _RolledBack(ended)\n",
        "                return ended\n",
        TRANSACTIONS,
    ),
    Fault(
        "a transactional tool's rows are committed without the entries",
        "A crash between the two books the seat and forgets it.",
        "stores/sqlite.py",
        "            rows.add(self.connection, rows.Addition(self._run_id, entries, token, over=over), self._vault)\n",
        '            self.connection.execute("commit")\n'
        '            self.connection.execute("begin immediate")\n'
        "            rows.add(self.connection, rows.Addition(self._run_id, entries, token, over=over), self._vault)\n",
        TRANSACTIONS,
    ),
    Fault(
        "a transactional tool's entries are committed without the rows",
        "The model is told that a seat is booked, and it is not.",
        "stores/sqlite.py",
        "            rows.add(self.connection, rows.Addition(self._run_id, entries, token, over=over), self._vault)\n",
        '            self.connection.execute("rollback")\n'
        '            self.connection.execute("begin immediate")\n'
        "            rows.add(self.connection, rows.Addition(self._run_id, entries, token, over=over), self._vault)\n",
        TRANSACTIONS,
    ),
    Fault(
        "a tool may commit its transaction itself",
        "What it wrote stays, whatever becomes of its result.",
        "stores/tool_connection.py",
        "_REFUSED = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH,",
        "_REFUSED = frozenset({sqlite3.SQLITE_ATTACH,",
        ("tests/stores/test_sqlite.py", "-k", "may_not_end_the_transaction"),
    ),
]
