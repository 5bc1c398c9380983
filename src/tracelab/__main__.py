"""`python -m tracelab` is the command line."""

from tracelab.cli import run

run()
