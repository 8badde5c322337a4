"""The rules of Anthropic Messages, by subject: adding a rule is adding a function to one of these files."""

from midstride.transcript import generic
from midstride.transcript.anthropic import (
    compared,
    content,
    ends,
    fields,
    limits,
    mend_content,
    mend_ends,
    mend_opaque,
    mend_pairs,
    mend_shape,
    pairing,
    servers,
    thinking,
)
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import id_of
from midstride.transcript.anthropic.message import Message
from midstride.transcript.draft import Mends
from midstride.transcript.rules import Provider, Rules
from midstride.transcript.values import Json


def _parts(message: Message) -> list[tuple[str, Json]]:
    return [(id_of(block), block) for block in message.blocks]


PROVIDER: Provider[Message, History] = Provider(
    read=Message.read,
    begin=History.empty,
    after=History.after,
    branch=History.branch,
    hidden_before=lambda history: history.hidden_before,
    rules=Rules(
        generic.rules_for(_parts),
        fields.rules,
        pairing.rules,
        content.rules,
        servers.rules,
        thinking.rules,
        compared.rules,
        limits.rules,
        ends.rules,
    ),
)

IN_ORDER = (
    mend_shape.mends,
    mend_opaque.early,
    mend_pairs.mends,
    mend_content.mends,
    mend_opaque.mends,
    mend_ends.mends,
)
"""The mends in the order of work: PROTOCOL's steps 1 to 9."""
MENDS = Mends(mend_shape.answered, [row for mends in IN_ORDER for row in mends.rows])
