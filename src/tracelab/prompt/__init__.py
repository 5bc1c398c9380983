"""The prompt of `tracelab sql`: SELECTs and CREATE TEMP on a terminal, one conversation with one store."""

from tracelab.prompt import terminal
from tracelab.prompt.conversation import Conversation, converse

__all__ = ["Conversation", "converse", "terminal"]
