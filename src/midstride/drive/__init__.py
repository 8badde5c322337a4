"""The drivers: they perform the core's steps, blocking or asynchronous, and decide nothing themselves."""

from midstride.drive.asynchronous import AsyncRun, AsyncTurn
from midstride.drive.blocking import Run, Turn
from midstride.drive.clock import Clock
from midstride.drive.outside import Runs
from midstride.drive.removing import Removable
from midstride.drive.result import Draft, Result

__all__ = ["AsyncRun", "AsyncTurn", "Clock", "Draft", "Removable", "Result", "Run", "Runs", "Turn"]
