"""Find runs without steps in whose recordings the GPUs have little to do at first, as while a program starts."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from tracelab.output.labels import Quantity, format_scaled
from tracelab.resources import QUERIES

REFERENCED = (QUERIES / "summary" / "start_up.sql").read_text(encoding="utf-8")
"""The SQL that `find_start_ups` needs in a session."""
_LEAST_SHARE = 0.1
"""Share of the windows that passes before the GPUs have done 1 % of their work, from which on it is stated."""
_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))


@dataclass(frozen=True)
class StartUp:
    """How long GPUs wait until they have done 1 % of their work, of their windows; `at_ns` is when the first has."""

    start_up_ns: int
    window_ns: int
    at_ns: int | None
    """On the axis of the option --from; None where the clocks of the run's sources cannot be compared."""

    @property
    def amount(self) -> str:
        """Return its length and share in words."""
        waited, windows = (format_scaled(each, Quantity.DURATION) for each in (self.start_up_ns, self.window_ns))
        return f"{waited} of {windows} ({100 * self.start_up_ns / self.window_ns:.1f} %)"

    def describe(self, lost_ns: int) -> str:
        """Return how much of a loss may be before the work begins, in words."""
        amount = format_scaled(min(lost_ns, self.start_up_ns), Quantity.DURATION)
        return f"{amount} of the loss precede the first 1 % of the GPUs' work, as while a program starts or waits"

    @property
    def sentence(self) -> str:
        """Return what the figures of a run include, and how to leave it out."""
        time = "TIME" if self.at_ns is None else format_time(self.at_ns)
        return (
            f"The figures include {self.amount} in which the GPUs have not yet done 1 % of their work, as while a "
            f"program starts or waits for a first request. --from {time} leaves out what precedes that time."
        )


def find_start_ups(con: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> dict[str, StartUp]:
    """Return the start-ups that take a tenth of the windows of a run or more, by run."""
    if not runs:
        return {}
    rows = con.execute(REFERENCED, {"runs": list(runs), "least": _LEAST_SHARE}).fetchall()
    return {run: StartUp(start_up_ns, window_ns, at_ns) for run, start_up_ns, window_ns, at_ns in rows}


def format_time(ns: int) -> str:
    """Format a time for the option --from with three digits after the point, never later than it is."""
    for unit, size in _UNITS:
        if ns >= size:
            whole, fraction = divmod(ns * 1_000 // size, 1_000)
            return f"{whole}.{fraction:03}".rstrip("0").rstrip(".") + unit
    return str(ns)
