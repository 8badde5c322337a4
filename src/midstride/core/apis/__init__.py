"""The model APIs, by name; each is one file and one class."""

from __future__ import annotations

from midstride.core.apis.anthropic import AnthropicMessages
from midstride.core.apis.contract import Answered, Api, LastAnswer, ModelCall, Usage
from midstride.core.apis.ledger import LedgerCalls
from midstride.core.apis.openai_chat import OpenAIChat
from midstride.core.apis.openai_responses import OpenAIResponses
from midstride.errors import DeclarationError

__all__ = [
    "APIS",
    "Answered",
    "AnthropicMessages",
    "Api",
    "LastAnswer",
    "LedgerCalls",
    "ModelCall",
    "OpenAIChat",
    "OpenAIResponses",
    "Usage",
    "api_named",
]

APIS: dict[str, Api] = {api.name: api for api in (AnthropicMessages(), OpenAIChat(), OpenAIResponses(), LedgerCalls())}


def api_named(name: str) -> Api:
    """Return the API called *name*; DeclarationError names those that there are."""
    if name not in APIS:
        known = ", ".join(api.name for api in APIS.values() if api.loops)
        raise DeclarationError(f"there is no api {name!r}; there are: {known}")
    return APIS[name]
