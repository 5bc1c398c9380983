"""Export runs as a Chrome JSON trace for Perfetto, written in batches from SQL."""

from tracelab.export.trace import ExportResult, Request, write

__all__ = ["ExportResult", "Request", "write"]
