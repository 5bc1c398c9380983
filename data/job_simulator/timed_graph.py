"""Time rows that start and end after others: changed durations give the times that the rows would have."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What a row is. Meetings are in no trace: they join the rows of one collective."""

    HOST = "host"
    LOADER = "loader"
    CALL = "call"
    KERNEL = "kernel"
    COMMUNICATION = "communication"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    MEETING = "meeting"


GPU_KINDS = (Kind.KERNEL, Kind.COMMUNICATION, Kind.MEMCPY, Kind.MEMSET)
CPU_KINDS = (Kind.HOST, Kind.LOADER, Kind.CALL)


class Reason(StrEnum):
    """Why a row cannot start, or end, earlier."""

    THREAD = "thread"
    """The row before it on its thread."""
    HANDOVER = "handover"
    """Another thread of the process hands over to it, or returns to it."""
    LAUNCH = "launch"
    """The call that launches it."""
    STREAM = "stream"
    """The row before it on its stream."""
    EVENT = "event"
    """A row of another stream that its stream waits for."""
    MEETING = "meeting"
    """The other ranks of a collective."""
    AWAITED = "awaited"
    """The GPU row that a blocking call waits for."""


class Edge(NamedTuple):
    """A moment that comes `lag_ns` after the start or the end of another row at the earliest."""

    row: int
    is_end: bool
    lag_ns: int
    reason: Reason


_START, _END = False, True


def after_start(row: int, lag_ns: int, reason: Reason) -> Edge:
    """Return the moment so long after a row starts."""
    return Edge(row, _START, lag_ns, reason)


def after_end(row: int, lag_ns: int, reason: Reason) -> Edge:
    """Return the moment so long after a row ends."""
    return Edge(row, _END, lag_ns, reason)


@dataclass(slots=True)
class Row:
    """One interval on a thread or a stream of a rank: it lasts `dur_ns` unless `ends_after` makes it longer.

    The name of work of a thread is that of the innermost op or annotation; outside of all of them it is empty.
    """

    number: int
    rank: int
    kind: Kind
    name: str
    track: int
    dur_ns: int
    step: int
    starts_after: list[Edge]
    ends_after: list[Edge] = field(default_factory=list)
    args: dict[str, Any] = field(default_factory=dict)
    phase: tuple[str, int] | None = None
    """forward or backward, and the microbatch; None outside of both."""
    correlation: int | None = None
    meeting: int | None = None


Duration = Callable[[Row], int]
Lag = Callable[[Row, Edge], int | None]


@dataclass
class Graph:
    """Rows in the order of their numbers."""

    rows: list[Row] = field(default_factory=list)
    _order: list[int] = field(default_factory=list)
    _sorted: int = -1
    """How many rows `_order` is of."""

    def add(self, kind: Kind, name: str, place: tuple[int, int, int], dur_ns: int, after: list[Edge]) -> Row:
        """Append a row; `place` is its rank, its thread or stream, and its step."""
        rank, track, step = place
        row = Row(len(self.rows), rank, kind, name, track, dur_ns, step, after)
        self.rows.append(row)
        return row

    def times(
        self, start_ns: int, duration: Duration | None = None, lag: Lag | None = None
    ) -> tuple[list[int], list[int]]:
        """Return the start and the end of each row if all begin at `start_ns` and each row starts as soon as it can.

        `duration` and `lag` change durations and edges; without a lag an edge is left out.
        """
        if self._sorted != len(self.rows):
            self._order, self._sorted = self._sort(), len(self.rows)
        starts, ends = [start_ns] * len(self.rows), [start_ns] * len(self.rows)
        rows, count = self.rows, len(self.rows)
        for point in self._order:
            row = rows[point % count]
            if point < count:
                latest, edges = start_ns, row.starts_after
            else:
                latest = starts[row.number] + (row.dur_ns if duration is None else duration(row))
                edges = row.ends_after
            for edge in edges:
                lag_ns = edge.lag_ns if lag is None else lag(row, edge)
                if lag_ns is not None:
                    moment = (ends if edge.is_end else starts)[edge.row] + lag_ns
                    latest = max(latest, moment)
            (starts if point < count else ends)[row.number] = latest
            if point < count and not row.ends_after:
                ends[point] = latest + (row.dur_ns if duration is None else duration(row))
        return starts, ends

    def _sort(self) -> list[int]:
        """Return all moments in an order in which each comes after those it depends on.

        A row's number is its start, and its end too unless that waits for other rows: that is the number plus the
        number of all rows.
        """
        count = len(self.rows)
        followers: list[list[int]] = [[] for _ in range(2 * count)]
        missing = [0] * (2 * count)
        for row in self.rows:
            number = row.number
            missing[number] = len(row.starts_after)
            for edge in row.starts_after:
                followers[self._point(edge)].append(number)
            if row.ends_after:
                missing[count + number] = 1 + len(row.ends_after)
                followers[number].append(count + number)
                for edge in row.ends_after:
                    followers[self._point(edge)].append(count + number)
        order = [row.number for row in self.rows if not missing[row.number]]
        for point in order:
            for follower in followers[point]:
                missing[follower] -= 1
                if not missing[follower]:
                    order.append(follower)
        if any(missing):
            raise ValueError("the rows wait for each other in a circle; check the order of sends and receives")
        return order

    def _point(self, edge: Edge) -> int:
        waits_at_end = edge.is_end and self.rows[edge.row].ends_after
        return edge.row + len(self.rows) if waits_at_end else edge.row
