"""Chrome traces as torch.profiler (Kineto) writes them, from torch 1.8 on, and those of other tools."""

from tracelab.readers.kineto.read import VERSION, glimpse, read, sniff, span

__all__ = ["VERSION", "glimpse", "read", "sniff", "span"]
