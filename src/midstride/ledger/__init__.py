"""The ledger alone, for loops that are not ours: each effectful call is a run of its own."""

from midstride.ledger.ledger import Ledger

__all__ = ["Ledger"]
