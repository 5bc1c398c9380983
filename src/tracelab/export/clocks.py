"""Arrange clocks in an export: sources of one clock keep their distances, others follow one after another."""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from tracelab.errors import NoDataError

_GAP = 20  # between two clocks: one part in so many of what the export shows before
_US = 1_000
SHARED = ("unix", "aligned")
"""Kinds of clocks that the sources of a run share."""


@dataclass(frozen=True)
class Span:
    """Begin and end of one source's events on its own clock; `profiled`: a profiler recorded them."""

    run: str
    source: str
    clock: str | None
    profiled: bool
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Clock:
    """Sources with comparable times. Their zero is the first event, exported at `shown_at_ns`."""

    run: str
    sources: tuple[str, ...]
    shared: bool
    zero_ns: int
    last_ns: int
    shown_at_ns: int = 0

    @property
    def shift_ns(self) -> int:
        """Return the offset to add to a time of these sources."""
        return self.shown_at_ns - self.zero_ns


def read_spans(con: duckdb.DuckDBPyConnection, runs: Iterable[str]) -> list[Span]:
    """Read the spans of the runs' sources that have events."""
    rows = con.execute(
        "select run, source, clock, profiled, first_ns, last_ns from source_spans join sources using (run, source) "
        "where list_contains($runs, run) order by run, source",
        {"runs": list(runs)},
    ).fetchall()
    return [Span(*row) for row in rows]


def arrange_clocks(spans: Iterable[Span]) -> list[Clock]:
    """Place the clocks one after another. Times since 1970 share one clock within a run; others belong to a source."""
    groups: dict[tuple[str, str | None], list[Span]] = {}
    for span in spans:
        groups.setdefault((span.run, span.clock if span.clock in SHARED else span.source), []).append(span)
    if not groups:
        raise NoDataError("nothing recorded has a place in time; ingest a profiler's timeline first")
    clocks: list[Clock] = []
    end = 0
    for (run, own), members in sorted(groups.items(), key=str):
        timed = [span for span in members if span.profiled] or members
        zero, last = min(span.first_ns for span in timed), max(span.last_ns for span in timed)
        at = -(-(end + end // _GAP) // _US) * _US  # whole microseconds
        clocks.append(Clock(run, tuple(span.source for span in members), own in SHARED, zero, last, at))
        end = at + last - zero
    return clocks


def clock_notes(clocks: list[Clock]) -> list[str]:
    """Return notes on the times of an export with more than one clock."""
    if len(clocks) == 1:
        return []
    ways = {clock.run: sum(other.run == clock.run for other in clocks) for clock in clocks}
    lines = [
        f"The {count} clocks in run {run} have no common beginning: they follow one another, "
        "so compare no times between them."
        for run, count in ways.items()
        if count > 1
    ]
    if len(ways) > 1:
        lines.append(f"The {len(ways)} runs follow one another, each from its own beginning.")
    return lines
