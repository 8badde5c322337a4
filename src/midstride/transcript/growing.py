"""What is remembered of a list that grows, and of a longer one that is only looked at and forgotten."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Index(Generic[V]):
    """Values filed under keys, in the order in which they came; one that lies over another grows by itself."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: Index[V] | None = None) -> None:
        self._below = below
        self._own: dict[Hashable, list[V]] = {}

    def add(self, key: Hashable, value: V) -> None:
        """File a value."""
        self._own.setdefault(key, []).append(value)

    def all(self, key: Hashable) -> Iterator[V]:
        """Yield the values under a key, oldest first."""
        if self._below is not None:
            yield from self._below.all(key)
        yield from self._own.get(key, ())

    def newest(self, key: Hashable) -> Iterator[V]:
        """Yield the values under a key, newest first."""
        yield from reversed(self._own.get(key, ()))
        if self._below is not None:
            yield from self._below.newest(key)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._own or (self._below is not None and key in self._below)
