"""Nsight Systems exports: SQLite files, folders of Parquet files, and reports where nsys is there to export them."""

from tracelab.readers.nsys.probe import WHAT, glimpse, is_source, sniff, span
from tracelab.readers.nsys.read import VERSION, read

__all__ = ["VERSION", "WHAT", "glimpse", "is_source", "read", "sniff", "span"]
