"""tracelab: profiler traces of GPU training in one exact SQL schema."""

__version__ = "0.1.0"
