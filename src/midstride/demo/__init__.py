"""The incident, on real things: a mail server takes a mail, SIGKILL before its answer comes, the program is run again.

    python -m midstride.demo [--json] [--keep]

The program is `examples/notes.py`. The model is the fake model server, or the real API where ANTHROPIC_API_KEY is set;
the mail server is real and on loopback; what counts is its mailbox.
"""

from pathlib import Path

_HERE = Path(__file__).parent
_IN_WHEEL = _HERE / "examples"
EXAMPLES = _IN_WHEEL if _IN_WHEEL.is_dir() else _HERE.parents[2] / "examples"
"""The folder of the examples: a wheel has them in this package, a checkout at its root."""
