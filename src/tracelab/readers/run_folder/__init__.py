"""Read the files of run folders, and the figures of nvbandwidth and nccl-tests."""

from tracelab.readers.run_folder.probe import DESCRIPTION, probe_file, sniff, time_span_ns
from tracelab.readers.run_folder.read import VERSION, read

__all__ = ["DESCRIPTION", "VERSION", "probe_file", "read", "sniff", "time_span_ns"]
