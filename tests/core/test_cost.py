"""What an answer cost: exact to the billionth, by prices that are prices, of the model that answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.making import TAKEN, final
from midstride.core.apis import Usage
from midstride.core.cost import Prices, amount, billionths, check_limits, check_prices, prices_of
from midstride.core.journal import Extended, Head, Limits, Responded, Started, decode, seal
from midstride.errors import DeclarationError

PRICES = Prices(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
OTHER = Prices(input=1, output=5)


@pytest.mark.parametrize(
    ("prices", "usage", "cost"),
    [
        (PRICES, Usage(), "0"),
        (PRICES, Usage(0, 1_000_000, 0, 0, 0), "3"),
        (PRICES, Usage(0, 0, 1_000_000, 0, 0), "15"),
        (PRICES, Usage(0, 0, 0, 1_000_000, 0), "0.3"),
        (PRICES, Usage(0, 0, 0, 0, 1_000_000), "3.75"),
        (PRICES, Usage(999, 1, 2, 3, 4), "0.0000489"),
        (OTHER, Usage(0, 1, 0, 10, 100), "0.000111"),
        (Prices(0.0375, 0), Usage(0, 1), "0.000000038"),
        (Prices(0, 0), Usage(0, 10, 10), "0"),
    ],
)
def test_tokens_cost_their_price_for_a_million(prices: Prices, usage: Usage, cost: str) -> None:
    assert amount(prices.cost(usage)) == cost


def test_a_sum_of_many_costs_does_not_drift() -> None:
    one = Prices(0.1, 0).cost(Usage(0, 1))
    assert (one, amount(sum([one] * 10_000_000))) == (100, "1")
    assert billionths(0.1) * 3 == billionths(0.3)  # which 0.1 * 3 == 0.3 is not


@pytest.mark.parametrize("wrong", [-0.1, float("inf"), float("nan"), "3", True, None])
def test_what_is_no_price_is_refused_where_it_is_declared(wrong: Any) -> None:
    with pytest.raises(DeclarationError, match="wanted a number, 0 or more, for a million tokens"):
        Prices(input=3, output=wrong)
    if wrong is not None:
        with pytest.raises(DeclarationError, match="cache_read="):
            Prices(input=3, output=3, cache_read=wrong)


def test_prices_are_found_by_the_name_that_the_answer_bears_and_then_by_the_one_asked_for() -> None:
    several = {"big": PRICES, "small": OTHER}
    assert prices_of(several, "big", "small") is PRICES
    assert prices_of(several, "big-2026", "small") is OTHER
    assert prices_of(several, ["big"], None) is None
    assert prices_of(OTHER, "any") is OTHER
    assert prices_of(None, "any") is None


@pytest.mark.parametrize(
    ("cost", "prices", "said"),
    [
        (None, 3.0, "3.0 is no price"),
        (None, {"big": 3.0}, "3.0 is no price"),
        (5.0, None, r"a limit on cost \(5\) needs prices"),
        (5.0, {}, "needs the prices of 'big': prices= has none"),
        (5.0, {"small": OTHER}, "needs the prices of 'big': prices= has 'small'"),
        (0, PRICES, "the limit cost=0 is none"),
        ("5", PRICES, "the limit cost='5' is none"),
    ],
)
def test_a_limit_on_cost_without_its_prices_is_refused(cost: Any, prices: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        check_prices(Limits(cost=cost), prices, "big")


@pytest.mark.parametrize("prices", [PRICES, {"big": PRICES}])
def test_a_limit_on_cost_with_its_prices_is_none_the_worse(prices: Any) -> None:
    check_prices(Limits(cost=5), prices, "big")
    check_prices(Limits(cost=5), prices)
    check_prices(None, None)


def test_a_journal_without_costs_has_the_lines_it_always_had() -> None:
    lines = [e.text for e in seal([Extended(Limits()), final()], Head(), 1.0)]
    assert lines[0].endswith('"kind":"extended","limits":{"turns":40,"tokens":null,"seconds":null},"by":""}')
    assert lines[1].endswith('"calls":[]}')


def test_a_cost_and_its_limit_are_read_as_they_were_written() -> None:
    begun = Started("t", "anthropic", [], "n", limits=Limits(cost=2.5))
    for body in (begun, Responded(final().response, cost=12_345), Responded(final().response, cost=0), TAKEN):
        (entry,) = seal([body], Head(), 1.0)
        assert decode(entry.text, entry.digest, 1).body == body
    assert json.loads(seal([begun], Head(), 1.0)[0].text)["limits"]["cost"] == 2.5


@pytest.mark.parametrize(
    ("limit", "value"),
    [("turns", -1), ("turns", "3"), ("turns", True), ("tokens", 1.5), ("seconds", float("inf")), ("cost", 9_000_000)],
)
def test_a_limit_that_cannot_be_reached_or_recorded_is_none(limit: str, value: Any) -> None:
    with pytest.raises(DeclarationError, match=f"the limit {limit}={value!r} is none: wanted"):
        check_limits(Limits(**{limit: value}))


def test_limits_are_limits() -> None:
    check_prices(None, PRICES)
    check_prices(Limits(), PRICES)
    check_limits(Limits(turns=0, tokens=None, seconds=1.5, cost=8_999_999.0))
    with pytest.raises(DeclarationError, match="are no limits: give limits=Limits"):
        check_limits({"turns": 3})  # type: ignore[arg-type]
