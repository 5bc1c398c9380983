"""What `tracelab collect` wrote into a run folder, and what nvbandwidth and nccl-tests printed: ceilings, too."""

from tracelab.readers.run.ends import WHAT, glimpse, sniff, span
from tracelab.readers.run.read import VERSION, read

__all__ = ["VERSION", "WHAT", "glimpse", "read", "sniff", "span"]
