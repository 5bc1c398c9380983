"""`python -m tracelab` is the command line."""

from tracelab.entry import run

run()
