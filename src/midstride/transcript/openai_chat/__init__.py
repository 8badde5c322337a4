"""The rules of OpenAI Chat Completions: adding a rule is adding a function to one of these files."""

from midstride.transcript import generic
from midstride.transcript.openai_chat import ends, mends, rules
from midstride.transcript.openai_chat.message import History, Message
from midstride.transcript.rules import Provider, Rules
from midstride.transcript.values import Json, field


def _parts(message: Message) -> list[tuple[str, Json]]:
    calls = [(field(call, "id"), call) for call in message.calls]
    return [(message.answers, message.raw), *((one, call) for one, call in calls if isinstance(one, str))]


PROVIDER: Provider[Message, History] = Provider(
    read=Message.read,
    begin=History.empty,
    after=History.after,
    branch=History.branch,
    hidden_before=lambda history: 0,
    rules=Rules(generic.rules_for(_parts), rules.rules, ends.rules),
)
MENDS = mends.mends
