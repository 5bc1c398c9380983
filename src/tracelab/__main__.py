"""`python -m tracelab` is the command line."""

from tracelab.cli import main

main(prog_name="tracelab")
