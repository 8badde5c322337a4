"""Faults of the ledger: a call of somebody else's loop is made twice, not at all, or told wrongly."""

from __future__ import annotations

from planted.fault import Fault

ONCE = ("tests/ledger/test_once.py",)
KEYS = ("tests/ledger/test_business_keys.py",)

LEDGER = [
    Fault(
        "a ledger claims no key",
        "The same deed is done again under another call id.",
        "ledger/shell.py",
        "claim=Claim(key, self._instead_of()))",
        "claim=None)",
        KEYS,
    ),
    Fault(
        "a ledger's claim is given to whoever asks",
        "Two processes do the same deed.",
        "stores/fence.py",
        "    if owner not in (None, run_id, claim.instead_of):\n",
        "    if owner is not None and not owner:\n",
        ("tests/stores/test_memory.py", "-k", "owner"),
    ),
    Fault(
        "a ledger's claim is no part of its transaction",
        "A refused intent is on disk all the same.",
        "stores/rows.py",
        "    if new.claim is not None:\n",
        "    if new.claim is not None:\n"
        '        connection.execute("commit")\n'
        '        connection.execute("begin immediate")\n',
        ("tests/stores/test_sqlite.py", "-k", "owner"),
    ),
    Fault(
        "a ledger takes other arguments for the same call",
        "The second of two calls gets the first one's result, and is forgotten.",
        "ledger/shell.py",
        "        if self.plan.task is not None and run.begun.task != self.plan.task:\n",
        "        if self.plan.task is not None and run.begun.task is None:\n",
        ONCE,
    ),
    Fault(
        "a ledger's scope may hold a slash",
        "Two calls are one run.",
        "ledger/deed.py",
        "_escaped(scope, 'scope', '/')",
        "_escaped(scope, 'scope', '')",
        ("tests/ledger/test_ids.py",),
    ),
    Fault(
        "a ledger returns what is in doubt as a result",
        "The framework takes an unknown outcome for a success.",
        "ledger/outcome.py",
        '    if call.outcome in ("ok", "told", "already done"):\n',
        '    if call.outcome in ("ok", "told", "already done", "unknown"):\n',
        ONCE,
    ),
    Fault(
        "a ledger makes a call anew whatever a person said",
        "A person says that it happened, and it happens again.",
        "core/fold.py",
        'any(c.verdict == "allow" for c in run.calls)',
        "any(c.verdict is not None for c in run.calls)",
        ("tests/core/test_ledger.py",),
    ),
    Fault(
        "a ledger looks up another call than the first one",
        "It is not found under a key that it never had, and is done again.",
        "ledger/ledger.py",
        "OneCall(Toolbox([deed.tool]), owner, run.begun.nonce, partial(self.store.keep, owner))",
        'OneCall(Toolbox([deed.tool]), owner, "", partial(self.store.keep, owner))',
        KEYS,
    ),
    Fault(
        "a ledger leaves a first call that was cut off as it is",
        "Nobody makes it again, and its key is stuck.",
        "ledger/ledger.py",
        'if claim_of(run.calls[0]) == "open":',
        'if claim_of(run.calls[0]) == "":',
        KEYS,
    ),
]
