"""Faults in what goes on at once, in the commands of tools, and in what is counted."""

from __future__ import annotations

from planted.fault import Fault

PARALLEL, COMMANDS, COMMAND = (
    "tests/drive/test_parallel.py",
    "tests/drive/test_context_run.py",
    "tests/tools/test_running_commands.py",
)

BATCHES = [
    # ---- at once
    Fault(
        "more calls go on at once than the program allows",
        "Fifty reads of one answer are fifty connections to whatever they read.",
        "drive/shell.py",
        "            parallel=self.plan.parallel,\n",
        "            parallel=self.plan.parallel + 1,\n",
        (PARALLEL, "-k", "so_many_reads"),
    ),
    Fault(
        "what blocks shares the event loop's threads",
        "Tools that hang in them keep the results of others from being saved.",
        "threads.py",
        "    work = _begun(function, arguments, lane)\n",
        "    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))\n",
        (PARALLEL, "-k", "fill_the_loops"),
    ),
    Fault(
        "reads that ended beside a crash are forgotten",
        "What was read is read again.",
        "drive/shell.py",
        "call.state in (CallState.INTENDED, CallState.ACCEPTED, CallState.NEW)",
        "call.state in (CallState.INTENDED, CallState.ACCEPTED)",
        (PARALLEL, "-k", "beside_a_crash"),
    ),
    # ---- commands
    Fault(
        "nobody watches a command",
        "It outlives the process that started it.",
        "tools/group.py",
        '        self._lifeline.write(b"%d\\n" % group)\n',
        "        pass\n",
        (COMMAND, "-k", "dies_with_a_process"),
    ),
    Fault(
        "a command does not wait for its guard",
        "A process that dies as it starts one leaves it behind.",
        "tools/command.py",
        "GATE = 'read -r _ && exec \"$@\"'",
        "GATE = 'exec \"$@\"'",
        (COMMAND, "-k", "dies_before"),
    ),
    Fault(
        "a forked child keeps its copies of what the guards read",
        "The guard does not see that its process has ended.",
        "tools/group.py",
        "            lifeline.close()\n",
        "            pass\n",
        (COMMAND, "-k", "forked_meanwhile"),
    ),
    Fault(
        "only the command itself is killed",
        "What it has started goes on.",
        "tools/group.py",
        "os.killpg(self._process.pid, signal.SIGKILL)",
        "os.kill(self._process.pid, signal.SIGKILL)",
        (COMMAND, "-k", "background or all_of_its_group"),
    ),
    Fault(
        "a command outlasts its call's time",
        "Its tool counts as alive for ever.",
        "drive/attempts.py",
        "        had_commands = self.leash.cut()\n",
        "        had_commands = False\n",
        (COMMANDS, "-k", "ends_with_its_calls_time"),
    ),
    Fault(
        "a command outlasts its driver",
        "After Ctrl-C it goes on, and the run stays held.",
        "drive/attempts.py",
        "            self._end_commands()\n",
        "            pass\n",
        (COMMANDS, "-k", "ctrl_c"),
    ),
    # ---- counters
    Fault(
        "a cost is not recorded",
        "A limit on cost limits nothing.",
        "core/settle.py",
        "Responded(answered.response, answered.calls, answered.cost)",
        "Responded(answered.response, answered.calls)",
        ("tests/drive/test_cost.py",),
    ),
    Fault(
        "the tokens of a compaction are left out",
        "The run takes more than its limit says.",
        "core/apis/anthropic.py",
        "        billed = [_billed(one) for one in samples or (counts,)]\n",
        "        billed = [_billed(counts)]\n",
        ("tests/core/test_api_anthropic.py",),
    ),
]
