"""The prompt of `tracelab sql`: SELECTs and CREATE TEMP on a terminal, one conversation with one store."""

from tracelab.sql.repl import terminal
from tracelab.sql.repl.shell import Shell, run_shell

__all__ = ["Conversation", "converse", "terminal"]
