"""A sequence that only grows: versions share what they have in common, and none sees another's end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstride.core.growing import Growing


def test_an_older_version_stays_as_it_was() -> None:
    first = Growing(["a"])
    second = first.append("b")
    third = first.append("c")
    assert (list(first), list(second), list(third)) == (["a"], ["a", "b"], ["a", "c"])


def test_the_newest_version_shares_its_items() -> None:
    first = Growing(["a"])
    assert first.append("b")._items is first._items


def test_a_key_finds_its_items_oldest_first() -> None:
    grown = Growing[str]().append("a", "k").append("b").append("c", "k")
    assert (grown.under("k"), grown.under("none")) == (["a", "c"], [])


def test_an_older_version_does_not_find_what_came_later() -> None:
    first = Growing[str]().append("a", "k")
    second = first.append("b", "k")
    third = first.append("c", "k")
    assert (first.under("k"), second.under("k"), third.under("k")) == (["a"], ["a", "b"], ["a", "c"])


def test_it_reads_like_a_list() -> None:
    grown = Growing("abc").extend("de")
    assert (len(grown), grown[0], grown[-1], grown[1:3], grown[::-2]) == (5, "a", "e", ["b", "c"], ["e", "c", "a"])
    assert repr(Growing("ab")) == "Growing(['a', 'b'])"


@pytest.mark.parametrize("at", [2, -3])
def test_an_older_version_ends_where_it_ended(at: int) -> None:
    first = Growing("ab")
    first.append("c")
    with pytest.raises(IndexError):
        first[at]


def test_it_is_compared_by_value() -> None:
    assert Growing("ab") == Growing("a").append("b")
    assert Growing("ab") != ["a", "b"]
    with pytest.raises(TypeError):
        hash(Growing())


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(), st.sampled_from(["j", "k", None]))))
def test_any_tree_of_versions_is_like_lists(grown: list[tuple[int, int, str | None]]) -> None:
    versions: list[tuple[Growing[int], list[tuple[int, str | None]]]] = [(Growing(), [])]
    for which, item, key in grown:
        ours, theirs = versions[which % len(versions)]
        versions.append((ours.append(item, key), [*theirs, (item, key)]))
    for ours, theirs in versions:
        assert list(ours) == [item for item, _ in theirs]
        assert ours.under("k") == [item for item, key in theirs if key == "k"]
