"""tracelab: profiler traces of GPU training in one exact SQL schema."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracelab.client import Lab

__version__ = "0.1.0"


def open(  # noqa: A001  tracelab.open("lab") reads as what it does
    store: Path | str | None = None,
    *,
    memory_limit: str | None = None,
    timeout_s: float | None = None,
    aligned: bool = False,
) -> "Lab":
    """Open a store for queries: `tracelab.open("lab").query("kernel_summary").pl()` returns a polars DataFrame.

    Without a path it opens $TRACELAB_STORE, else ./lab, as on the command line. `memory_limit` is DuckDB's, such as
    "2GB"; `timeout_s` is the longest time of one call, in seconds, of at most a year. With `aligned`, the times of all
    ranks of a run are on the clock of the lowest.
    """
    from tracelab.client import Lab
    from tracelab.schema import store_path

    return Lab(store_path(store), memory_limit, timeout_s, aligned)
