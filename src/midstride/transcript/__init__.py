"""What the model APIs demand of a transcript, and the smallest honest change that mends one: pure and public."""

from midstride.transcript.check import Checker, check
from midstride.transcript.draft import Change
from midstride.transcript.finding import Finding, Level
from midstride.transcript.guess import guess_provider
from midstride.transcript.registry import Entry, entries, remedy
from midstride.transcript.repair import Repair, repair

__all__ = [
    "Change",
    "Checker",
    "Entry",
    "Finding",
    "Level",
    "Repair",
    "check",
    "entries",
    "guess_provider",
    "remedy",
    "repair",
]
