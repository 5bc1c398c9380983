"""Chrome traces as torch.profiler (Kineto) writes them, from torch 1.8 on, and those of other tools."""

from tracelab.readers.kineto.probe import WHAT, glimpse, sniff, span
from tracelab.readers.kineto.read import VERSION, read

__all__ = ["VERSION", "WHAT", "glimpse", "read", "sniff", "span"]
