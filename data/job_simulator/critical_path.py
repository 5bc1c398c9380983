"""Find the critical path of timed rows by a walk back from the last end, each nanosecond charged once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from job_simulator.timed_graph import Edge, Kind, Reason, Row


@dataclass(frozen=True)
class PathPart:
    """A stretch of the critical path: time of one row, or a gap before it."""

    rank: int
    part: str
    """compute, communication (the transfer), memcpy, memset, host, loader or call; or a gap: launch (from the start of
    the launching call), stream or event (between two rows of the GPU), handover (between threads), awaited (from the
    end of the GPU row to the return of the blocking call)."""
    row: int
    """The number of the row that it belongs to; for a gap the row behind it."""
    start_ns: int
    end_ns: int

    @property
    def dur_ns(self) -> int:
        """Length of the stretch."""
        return self.end_ns - self.start_ns


PARTS = {Kind.KERNEL: "compute"}
PREFERENCE = {
    Reason.STREAM: 0,
    Reason.EVENT: 1,
    Reason.MEETING: 2,
    Reason.LAUNCH: 3,
    Reason.HANDOVER: 4,
    Reason.THREAD: 5,
}
"""Of rows that bind at the same moment the walk takes one of the GPU first, and of the same stream before others."""


def walk_back(
    rows: Sequence[Row], starts_ns: Sequence[int], ends_ns: Sequence[int], start_ns: int
) -> Iterator[PathPart]:
    """Yield the parts of the path from the row that ends last back to `start_ns`.

    From each row the walk goes to the one that binds it last: of the row before it on its stream, the rows of other
    streams that it waits for, and the call that launched it, the one with the latest moment; in a collective to the
    rank that comes last; from a call that waits for the GPU to the row that it waits for.
    """
    number = max(range(len(rows)), key=lambda each: (ends_ns[each], rows[each].kind is not Kind.MEETING, -each))
    now_ns = ends_ns[number]

    def moment_ns(edge: Edge) -> int:
        return (ends_ns if edge.is_end else starts_ns)[edge.row]

    while now_ns > start_ns:
        row = rows[number]
        if row.kind is Kind.COMMUNICATION and row.meeting is not None:
            meeting = rows[row.meeting]
            last = max(meeting.starts_after, key=lambda edge: (starts_ns[edge.row], -rows[edge.row].rank))
            yield PathPart(row.rank, "communication", number, starts_ns[last.row], now_ns)
            number, now_ns = last.row, starts_ns[last.row]
            row = rows[number]
        elif awaited := [edge for edge in row.ends_after if moment_ns(edge) > starts_ns[number]]:
            last = max(awaited, key=lambda edge: (moment_ns(edge), -edge.row))
            yield PathPart(row.rank, "awaited", number, moment_ns(last), now_ns)
            number, now_ns = last.row, moment_ns(last)
            continue
        elif now_ns > starts_ns[number]:
            yield PathPart(row.rank, PARTS.get(row.kind, row.kind.value), number, starts_ns[number], now_ns)
            now_ns = starts_ns[number]
        if not row.starts_after:
            break
        binding = max(row.starts_after, key=lambda edge: (moment_ns(edge), -PREFERENCE[edge.reason], -edge.row))
        if moment_ns(binding) < now_ns:
            yield PathPart(row.rank, binding.reason.value, number, moment_ns(binding), now_ns)
            now_ns = moment_ns(binding)
        number = binding.row
