"""What an answer cost, worked out from its tokens and the prices that the program gives.

The rules of this file:

- A cost is a whole number of billionths of the currency's unit (`BILLION`): sums of whole numbers do not drift, and
  every JSON reader takes them exactly up to 9 million units. Each answer is rounded once, by half a billionth at most.
- It is worked out when the answer is recorded, and stored with it: later prices do not rewrite what was paid.
- The currency is the user's; nothing here knows one, or any price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from midstride.core.apis import Usage
from midstride.core.journal import Limits
from midstride.errors import DeclarationError

BILLION = 1_000_000_000
"""How many of a recorded cost are one unit of the currency."""

PER_TOKEN = 1_000
"""A price is for a million tokens: so many billionths of a token's cost are one of it."""


AMOUNT_MAX = 9_000_000
"""What an amount of the currency stays below: so far every JSON reader takes its billionths exactly."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model's tokens cost, in units of your currency for a million tokens: `Prices(input=3.0, output=15.0)`.

    *input* is for tokens that no cache had a part in, *output* for the answer's, thinking included. *cache_read* and
    *cache_write* are for what was read from the model's cache and written to it; None bills them as *input*. What is
    not counted in tokens (a server's searches, say) has no price here. Raises DeclarationError for what is no price.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if not _is_amount(value):
                raise DeclarationError(
                    f"the price {field.name}={value!r} is none: wanted a number, 0 or more, for a million tokens"
                )

    def cost(self, usage: Usage) -> int:
        """Return what an answer with this usage cost, in billionths of the currency's unit."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        millions = usage.input * self.input + usage.output * self.output
        millions += usage.cache_read * read + usage.cache_write * write
        return round(millions * PER_TOKEN)


PriceList = Prices | Mapping[str, Prices]
"""The prices of the one model that an agent uses, or of several by their names."""


def prices_of(prices: PriceList | None, *models: Any) -> Prices | None:
    """Return the prices of the first of *models* that has some: the name an answer bears, then the one asked for."""
    if not isinstance(prices, Mapping):
        return prices
    return next((prices[name] for name in models if isinstance(name, str) and name in prices), None)


def check_prices(limits: Limits | None, prices: PriceList | None, model: Any = None) -> None:
    """Raise DeclarationError unless *prices* are prices, and those that a limit on cost needs are there.

    *model* is the name of the model that will be asked, where it is known.
    """
    given = prices.values() if isinstance(prices, Mapping) else () if prices is None else (prices,)
    for one in given:
        if not isinstance(one, Prices):
            raise DeclarationError(
                f"{one!r} is no price: give prices=Prices(input=..., output=...), or one a model's name"
            )
    if limits is None:
        return
    check_limits(limits)
    most = limits.cost
    if most is None:
        return
    if prices is None:
        raise DeclarationError(
            f"a limit on cost ({most:g}) needs prices: give prices=Prices(input=..., output=...), for a million tokens"
        )
    if model is not None and isinstance(prices, Mapping) and model not in prices:
        has = ", ".join(map(repr, prices)) or "none"
        raise DeclarationError(f"a limit on cost ({most:g}) needs the prices of {model!r}: prices= has {has}")


def check_limits(limits: Limits) -> None:
    """Raise DeclarationError unless *limits* are limits that can be reached and be recorded."""
    if not isinstance(limits, Limits):
        raise DeclarationError(f"{limits!r} are no limits: give limits=Limits(turns=..., tokens=..., ...)")
    for name in ("turns", "tokens", "seconds"):
        most = getattr(limits, name)
        kinds = (int, float) if name == "seconds" else (int,)
        known = isinstance(most, kinds) and not isinstance(most, bool) and 0 <= most < float("inf")
        if most is not None and not known:
            wanted = "a finite number" if name == "seconds" else "a whole number"
            raise DeclarationError(f"the limit {name}={most!r} is none: wanted {wanted}, 0 or more")
    most = limits.cost
    if most is not None and (not _is_amount(most) or most == 0):
        raise DeclarationError(
            f"the limit cost={most!r} is none: wanted a number above 0 and below {AMOUNT_MAX:,}, in units of your "
            "currency"
        )


def billionths(amount: float) -> int:
    """Return an amount of the currency as it is recorded."""
    return round(amount * BILLION)


def amount(cost: int) -> str:
    """Return a recorded cost in units of the currency, exactly: "0.0123"."""
    units, rest = divmod(cost, BILLION)
    return f"{units}.{rest:09d}".rstrip("0").rstrip(".")


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < AMOUNT_MAX
