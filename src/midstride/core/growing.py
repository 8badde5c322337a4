"""A sequence that only grows: appending costs the same at item 3,000 as at item 3, and older versions stay.

Versions share one list; a version knows how much of it is its own. Appending to the newest version extends the shared
list, appending to an older one copies its part first. An item may bear a key, by which it is found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Growing(Sequence[T], Generic[T]):
    """An immutable sequence with cheap `append`."""

    __slots__ = ("_by_key", "_items", "_size")

    def __init__(self, items: Sequence[T] = (), by_key: dict[str, list[int]] | None = None) -> None:
        self._items = list(items)
        self._size = len(self._items)
        self._by_key: dict[str, list[int]] = by_key if by_key is not None else {}

    def append(self, item: T, key: str | None = None) -> Growing[T]:
        """Return this sequence with *item* behind it; with a *key*, `under` finds it again."""
        if len(self._items) == self._size:
            grown = Growing[T].__new__(Growing)
            grown._items, grown._by_key = self._items, self._by_key
        else:
            own = {k: [at for at in places if at < self._size] for k, places in self._by_key.items()}
            grown = Growing(self._items[: self._size], own)
        grown._items.append(item)
        grown._size = self._size + 1
        if key is not None:
            grown._by_key.setdefault(key, []).append(self._size)
        return grown

    def extend(self, items: Sequence[T]) -> Growing[T]:
        """Return this sequence with *items* behind it."""
        grown = self
        for item in items:
            grown = grown.append(item)
        return grown

    def under(self, key: str) -> list[T]:
        """Return the items that were appended with *key*, oldest first."""
        return [self._items[at] for at in self._by_key.get(key, ()) if at < self._size]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._size)
            return self._items[start:stop:step] if step > 0 else self._items[: self._size][at]
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._items[at % self._size]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items[: self._size])  # a copy at C speed; what grows meanwhile is not ours

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Growing) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # compared by value, like a list

    def __repr__(self) -> str:
        return f"Growing({list(self)!r})"
