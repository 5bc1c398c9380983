"""What `tracelab collect` wrote into a run folder, and what nvbandwidth and nccl-tests printed: ceilings, too."""

from tracelab.readers.run_folder.probe import DESCRIPTION, probe_file, sniff, time_span_ns
from tracelab.readers.run_folder.read import VERSION, read

__all__ = ["DESCRIPTION", "VERSION", "probe_file", "read", "sniff", "time_span_ns"]
