"""The incident, on real things: a mail server takes a mail, SIGKILL before its answer comes, the program is run again.

    python -m midstride.demo [--json] [--keep]

The program is `examples/notes.py`, which stands here as `examples` too. The model is the fake model server, or the
real API where ANTHROPIC_API_KEY is set; the mail server is real and on loopback; what counts is its mailbox.
"""
