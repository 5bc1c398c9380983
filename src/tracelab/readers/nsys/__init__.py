"""Read Nsight Systems: SQLite exports, folders of Parquet files, and reports if nsys is installed."""

from tracelab.readers.nsys.probe import DESCRIPTION, is_source, probe_file, sniff, time_span_ns
from tracelab.readers.nsys.read import VERSION, read

__all__ = ["DESCRIPTION", "VERSION", "is_source", "probe_file", "read", "sniff", "time_span_ns"]
