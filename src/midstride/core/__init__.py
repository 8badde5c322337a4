"""The journal, the two state machines, the reconcile table: pure, and the only brain."""
