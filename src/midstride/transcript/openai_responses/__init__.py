"""The rules of OpenAI Responses: adding a rule is adding a function to one of these files."""

from midstride.transcript import generic
from midstride.transcript.draft import MendRow, Mends
from midstride.transcript.openai_responses import content, mend_pairs, mends, pairing, state
from midstride.transcript.openai_responses.item import History, Item
from midstride.transcript.rules import Provider, Rules
from midstride.transcript.values import Json


def _parts(item: Item) -> list[tuple[str, Json]]:
    return [(item.call or item.id, item.raw)]


PROVIDER: Provider[Item, History] = Provider(
    read=Item.read,
    begin=History.empty,
    after=History.after,
    branch=History.branch,
    hidden_before=lambda history: 0,
    rules=Rules(generic.rules_for(_parts), content.rules, pairing.rules, state.rules),
)

PAIRS_LAST = ("R03", "R04", "R06", "R07", "R15", "R17", "G05")
"""Rules about opaque state: their mends come behind those of calls and outputs."""


def _rows(last: bool) -> list[MendRow]:
    return [row for row in mends.mends.rows if (row[0][0] in PAIRS_LAST) is last]


MENDS = Mends(mends.answered, [*mend_pairs.early.rows, *_rows(False), *mend_pairs.mends.rows, *_rows(True)])
