"""Read nvprof: databases, traces and summaries as CSV, and console output."""

from tracelab.readers.nvprof.probe import DESCRIPTION, probe_file, sniff, time_span_ns
from tracelab.readers.nvprof.read import VERSION, read

__all__ = ["DESCRIPTION", "VERSION", "probe_file", "read", "sniff", "time_span_ns"]
