"""What nvprof wrote: its database, its traces and summaries as CSV, and what it printed on a console."""

from tracelab.readers.nvprof.probe import WHAT, glimpse, sniff, span
from tracelab.readers.nvprof.read import VERSION, read

__all__ = ["VERSION", "WHAT", "glimpse", "read", "sniff", "span"]
