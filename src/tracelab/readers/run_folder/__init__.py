"""What `tracelab collect` wrote into a run folder, and what nvbandwidth and nccl-tests printed: ceilings, too."""

from tracelab.readers.run_folder.probe import WHAT, glimpse, sniff, span
from tracelab.readers.run_folder.read import VERSION, read

__all__ = ["VERSION", "WHAT", "glimpse", "read", "sniff", "span"]
