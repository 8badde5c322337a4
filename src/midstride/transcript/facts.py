"""What is known beside the messages: about the request that will carry them, and about what the provider once sent.

Every fact may be absent; a rule that needs an absent one is silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from midstride.transcript.values import Json, field, is_list, strings_of

MANUAL = "enabled"
"""The type of a thinking setting with a budget: manual thinking."""

ASKED = {
    "strict-alternation": ("A07",),
    "bedrock": ("A06", "A07", "A53"),
    "deepseek-thinking": ("C15",),
    "gemini-3": ("C16",),
}
"""The rules that a target refuses besides those of level reject; the profile strict asks for all of level compat."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one check; *removed*: the last response counts as taken out of the list."""

    request: Mapping[str, Json]
    journal: Mapping[str, Json]
    removed: bool = False

    @classmethod
    def told(cls, request: Json, journal: Json) -> Facts:
        """Return the facts as given; what is no object tells nothing."""
        return cls(
            request if isinstance(request, Mapping) else {},
            journal if isinstance(journal, Mapping) else {},
        )

    # ---- the request

    def stopped(self, *reasons: str | None) -> bool:
        """Tell whether the last response is known to have ended for one of these reasons; None is a cut stream."""
        return "last_stop_reason" in self.request and self.request["last_stop_reason"] in reasons

    @property
    def stop_untold(self) -> bool:
        """Whether nobody says how the last response ended."""
        return "last_stop_reason" not in self.request

    @property
    def model_class(self) -> Json:
        """What the model can do, in one word; None if untold."""
        return field(self.request, "model_class")

    @property
    def thinking(self) -> Json:
        """The type of the thinking setting; None if untold."""
        return field(field(self.request, "thinking"), "type")

    @property
    def thinking_on(self) -> bool:
        """Whether the request is known to turn thinking on."""
        return self.thinking in (MANUAL, "adaptive")

    @property
    def manual(self) -> bool:
        """Whether thinking is manual: the API then looks where the blocks stand."""
        return bool(self.thinking == MANUAL)

    @property
    def tools(self) -> Sequence[Json] | None:
        """The tools as given, names or objects; None if untold."""
        tools = field(self.request, "tools")
        return tools if is_list(tools) else None

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that have one."""
        named = [one if isinstance(one, str) else field(one, "name") for one in self.tools or ()]
        return [name for name in named if isinstance(name, str)]

    @property
    def gone(self) -> tuple[str, ...]:
        """Ids that the server is known not to have any more."""
        return strings_of(field(self.request, "gone"))

    @property
    def no_container(self) -> bool:
        """Whether it is known that no container is named."""
        return "container" in self.request and self.request["container"] is None

    def asks(self, rule: str, level: str) -> bool:
        """Tell whether the target refuses what breaks a rule of this level."""
        profile = field(self.request, "profile")
        if level == "compat" and profile == "strict":
            return True
        asked = ASKED.get(profile, ()) if isinstance(profile, str) else ()
        return level == "reject" or rule[:3] in asked

    # ---- the journal

    def received(self, at: int) -> Json:
        """Return the content of message *at* as the provider sent it; None if unknown."""
        return field(self.told_of(at), "content")

    def told_of(self, at: int) -> Json:
        """Return what the journal holds of message *at*."""
        return field(self.journal, f"assistant_{at}")

    def remembered(self) -> Iterator[int]:
        """Yield the messages of which the journal holds something, by place."""
        if not self.journal:
            return
        names = [name for name in self.journal if isinstance(name, str) and name.startswith("assistant_")]
        numbers = [name.removeprefix("assistant_") for name in names]
        yield from sorted(int(one) for one in numbers if one.isascii() and one.isdigit() and len(one) < 10)

    def responses(self) -> list[tuple[str, list[Json]]]:
        """Return the responses that were received, oldest first: id and output items."""
        rows = field(self.journal, "responses")
        found = [(field(row, "id"), field(row, "output")) for row in (rows if is_list(rows) else ())]
        return [(one if isinstance(one, str) else "", list(output)) for one, output in found if is_list(output)]
