"""Account for how ranks spend the time between two collectives, by brute force over all boundary points."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from job_simulator.timed_graph import GPU_KINDS, Kind, Row

LONGEST_OVERHEAD_NS = 30_000
LAYERS = {Kind.KERNEL: "compute", Kind.COMMUNICATION: "communication", Kind.MEMCPY: "copies", Kind.MEMSET: "copies"}


@dataclass(frozen=True)
class Approach:
    """What a rank does from the last common synchronization until it enters a collective; the parts fill the time."""

    begin_ns: int
    """When the last rank entered the collective before it that synchronized the same ranks, else the job's start."""
    entry_ns: int
    compute_ns: int
    communication_ns: int
    """Communication beside which nothing computes."""
    copies_ns: int
    """Copies and memsets beside which no kernel runs."""
    host_ns: int
    """Idle until work whose launching call ends after the idle time has begun."""
    dependency_ns: int
    """Idle for more than 30 µs until work that was launched before."""
    overhead_ns: int
    """Idle for less until work that was launched before."""

    @property
    def dur_ns(self) -> int:
        """Length of the approach."""
        return self.entry_ns - self.begin_ns


def account(rows: Sequence[Row], times: tuple[Sequence[int], Sequence[int]], begin_ns: int, entry_ns: int) -> Approach:
    """Return the approach of a rank by its rows, of which a part may lie outside; `times` are all starts and ends."""
    starts_ns, ends_ns = times
    on_device = [row for row in rows if row.kind in GPU_KINDS]
    calls = {row.correlation: row for row in rows if row.kind is Kind.CALL}
    spent = dict.fromkeys(("compute", "communication", "copies", "host", "dependency", "overhead"), 0)
    near = [row for row in on_device if ends_ns[row.number] > begin_ns and starts_ns[row.number] < entry_ns]
    points = {begin_ns, entry_ns}
    points |= {each[row.number] for row in near for each in times if begin_ns < each[row.number] < entry_ns}
    for start_ns, end_ns in pairwise(sorted(points)):
        active = {
            LAYERS[row.kind] for row in near if starts_ns[row.number] <= start_ns and ends_ns[row.number] >= end_ns
        }
        layer = next((each for each in spent if each in active), None)
        if layer is None:
            layer = _idle_cause(on_device, calls, times, start_ns)
        spent[layer] += end_ns - start_ns
    return Approach(begin_ns, entry_ns, **{f"{name}_ns": ns for name, ns in spent.items()})


def _idle_cause(
    rows: Sequence[Row], calls: dict[int | None, Row], times: tuple[Sequence[int], Sequence[int]], at_ns: int
) -> str:
    """Return the cause of an idle stretch by the work that ends it; the stretch may begin earlier."""
    starts_ns, ends_ns = times
    before_ns = max((ends_ns[row.number] for row in rows if ends_ns[row.number] <= at_ns), default=None)
    following = min(
        (row for row in rows if starts_ns[row.number] >= at_ns),
        key=lambda row: (starts_ns[row.number], ends_ns[calls[row.correlation].number]),
    )
    if before_ns is None or ends_ns[calls[following.correlation].number] > before_ns:
        return "host"
    gap_ns = starts_ns[following.number] - before_ns
    return "dependency" if gap_ns > LONGEST_OVERHEAD_NS else "overhead"
