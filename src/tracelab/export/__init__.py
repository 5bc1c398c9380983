"""A store's runs as one trace that Perfetto's interface opens: Chrome's JSON, written in batches from SQL."""

from tracelab.export.trace import Exported, Request, write

__all__ = ["Exported", "Request", "write"]
