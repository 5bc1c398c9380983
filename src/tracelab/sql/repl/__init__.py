"""The interactive shell of `tracelab sql`: SELECTs, CREATE TEMP and dot commands over one store."""

from tracelab.sql.repl import terminal
from tracelab.sql.repl.loop import execute_input, run_shell
from tracelab.sql.repl.shell import Shell

__all__ = ["Shell", "execute_input", "run_shell", "terminal"]
