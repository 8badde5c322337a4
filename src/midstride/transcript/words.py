"""The honest words for a call whose result is missing; they tell four states apart, as the run's own words do.

never started / interrupted, so that nobody knows / denied / done, with the result lost. The first three say what
`midstride.core.words` says, in the same words; a test holds the two together.
"""

from __future__ import annotations

from midstride.transcript.values import Json, written

ARGUMENTS_SHOWN = 300
"""Characters of a call's arguments that are repeated to the model."""

STATES = ("not started", "unknown", "denied", "lost")
"""What can be known of a call without a result."""


def asked_for(name: Json, arguments: Json) -> str:
    """Return a call in one line: its tool and its arguments, shortened."""
    text = arguments if isinstance(arguments, str) else written(arguments)
    shown = text if len(text) <= ARGUMENTS_SHOWN else text[:ARGUMENTS_SHOWN] + "..."
    return f"{name if isinstance(name, str) and name else 'the call'}({shown})"


def unknown(what: str) -> str:
    """Return the text for a call that may or may not have happened."""
    return (
        f"Outcome unknown: {what} may or may not have taken effect (whether it started is not recorded). "
        "The transcript holds no result for it. It was not run again. Do not assume either outcome and do not simply "
        "repeat it: check in another way whether it took effect, or ask a person."
    )


def not_started(why: str) -> str:
    """Return the text for a call that certainly never began."""
    return f"Not started: {why} It had no effect."


def denied() -> str:
    """Return the text for a call that was said no to before it began."""
    return "Denied: a person decided that this call is not to be run. It had no effect."


def lost(what: str) -> str:
    """Return the text for a call that has happened and whose result is lost."""
    return f"Done: {what} took effect, but its result was lost. Do not repeat it."


def failed(why: str) -> str:
    """Return the text for a call that ended without its effect."""
    return f"Failed: {why}"


def for_state(state: str, what: str) -> tuple[str, bool]:
    """Return the text for a state, and whether it is an error."""
    if state == "not started":
        return not_started("the run was stopped before this call began."), True
    if state == "denied":
        return denied(), True
    if state == "lost":
        return lost(what), False
    return unknown(what), True
