"""Secrets in what is shown: found by patterns, and replaced by their names.

A journal holds everything verbatim, since it is what the model is sent. What people and other systems are shown of it
goes through `redacted`, at the edge, and before anything is shortened: half a secret is none that a pattern knows.
"""

from midstride.hidden.patterns import Pattern, defaults
from midstride.hidden.redactor import Redactor, look_for, redacted, show_everything

__all__ = ["Pattern", "Redactor", "defaults", "look_for", "redacted", "show_everything"]
