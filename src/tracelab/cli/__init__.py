"""The command line: one module a verb, imported when the verb is used; `tracelab --help` imports none of them."""

from tracelab.cli.group import main

__all__ = ["main"]
