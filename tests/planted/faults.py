"""All faults: those that hurt most, and those that are easily made."""

from __future__ import annotations

from planted.batches import BATCHES
from planted.effects import EFFECTS
from planted.fault import Fault
from planted.ledger import LEDGER
from planted.polling import POLLING
from planted.removing import REMOVING
from planted.runs import RUNS
from planted.saving import SAVING
from planted.stores import STORES
from planted.transcript import TRANSCRIPT

FAULTS: list[Fault] = [*EFFECTS, *POLLING, *SAVING, *TRANSCRIPT, *RUNS, *STORES, *LEDGER, *BATCHES, *REMOVING]
