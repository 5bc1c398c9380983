"""Where an export shows each source: those of one clock at their recorded distances, others one after another."""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from tracelab.errors import NoDataError

_GAP = 20  # between two clocks: one part in so many of what the export shows before
_US = 1_000


@dataclass(frozen=True)
class Span:
    """When one source's events begin and end, on its own clock; `profiled`: a profiler recorded them."""

    run: str
    source: str
    clock: str | None
    profiled: bool
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Clock:
    """Sources whose times can be compared. Their zero is the first event; the export shows it at `shown_at_ns`."""

    run: str
    sources: tuple[str, ...]
    shared: bool
    zero_ns: int
    last_ns: int
    shown_at_ns: int = 0

    @property
    def shift_ns(self) -> int:
        """What is added to a time of these sources."""
        return self.shown_at_ns - self.zero_ns


def spans(con: duckdb.DuckDBPyConnection, runs: Iterable[str]) -> list[Span]:
    """The spans of the sources of these runs that have any event."""
    rows = con.execute(
        "select run, source, clock, profiled, first_ns, last_ns from source_spans join sources using (run, source) "
        "where list_contains($runs, run) order by run, source",
        {"runs": list(runs)},
    ).fetchall()
    return [Span(*row) for row in rows]


def clocks(found: Iterable[Span]) -> list[Clock]:
    """The clocks, each behind the one before. Times since 1970 are one clock within a run, others a source's own."""
    groups: dict[tuple[str, str], list[Span]] = {}
    for span in found:
        groups.setdefault((span.run, "" if span.clock == "unix" else span.source), []).append(span)
    if not groups:
        raise NoDataError("nothing recorded has a place in time; ingest a profiler's timeline first")
    placed: list[Clock] = []
    end = 0
    for (run, own), members in sorted(groups.items()):
        timed = [span for span in members if span.profiled] or members
        zero, last = min(span.first_ns for span in timed), max(span.last_ns for span in timed)
        at = -(-(end + end // _GAP) // _US) * _US  # whole microseconds
        placed.append(Clock(run, tuple(span.source for span in members), not own, zero, last, at))
        end = at + last - zero
    return placed


def told(placed: list[Clock]) -> list[str]:
    """What must be known of the times of an export with more than one clock."""
    if len(placed) == 1:
        return []
    ways = {clock.run: sum(other.run == clock.run for other in placed) for clock in placed}
    lines = [
        f"The {count} clocks in run {run} have no common beginning: they stand one after another, "
        "so compare no times between them."
        for run, count in ways.items()
        if count > 1
    ]
    if len(ways) > 1:
        lines.append(f"The {len(ways)} runs stand one after another, each from its own beginning.")
    return lines
