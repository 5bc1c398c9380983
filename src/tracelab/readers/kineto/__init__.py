"""Chrome traces as torch.profiler (Kineto) writes them, from torch 1.8 on, and those of other tools."""

from tracelab.readers.kineto.probe import DESCRIPTION, probe_file, sniff, time_span_ns
from tracelab.readers.kineto.read import VERSION, read, read_many

__all__ = ["DESCRIPTION", "VERSION", "probe_file", "read", "read_many", "sniff", "time_span_ns"]
