"""Nsight Compute: its CSV pages, its console text, and its reports through NVIDIA's own module."""

from tracelab.readers.ncu.ends import WHAT, glimpse, sniff, span
from tracelab.readers.ncu.read import VERSION, read

__all__ = ["VERSION", "WHAT", "glimpse", "read", "sniff", "span"]
