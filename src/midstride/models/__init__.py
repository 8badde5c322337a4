"""The model APIs, and a scripted model for tests."""

from midstride.models.anthropic import Anthropic
from midstride.models.contract import Draft, Model
from midstride.models.openai_chat import OpenAIChat
from midstride.models.openai_responses import OpenAIResponses
from midstride.models.scripted import Scripted

__all__ = ["Anthropic", "Draft", "Model", "OpenAIChat", "OpenAIResponses", "Scripted"]
