"""Run a job: build the rows of all ranks, time them, and answer what would be if durations or edges were different."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from job_simulator.critical_path import PathPart, walk_back
from job_simulator.lateness import Approach, account
from job_simulator.pipeline import Bubble, measure_bubble
from job_simulator.process import Meeting, Process, Shared
from job_simulator.settings import START_NS, Delay, Job
from job_simulator.timed_graph import GPU_KINDS, Duration, Edge, Graph, Kind, Lag, Reason, Row
from job_simulator.training import Training


@dataclass(frozen=True)
class Collective:
    """One collective, or one send with its receive, in true time."""

    number: int
    """Its place in the job, by its first start."""
    group: str
    """Name of the process group."""
    description: str
    ranks: tuple[int, ...]
    """Who takes part, in ascending order."""
    collective: str
    """As PyTorch notes it: allreduce, all_to_all, ...; "send" for a pair of a send and a receive."""
    is_p2p: bool
    seq: int | None
    """The sequence number in the group; NULL between two ranks, where each rank counts its own."""
    step: int
    rows: dict[int, int]
    """The number of the kernel's row by rank."""
    starts_ns: dict[int, int]
    ends_ns: dict[int, int]

    @property
    def last_ns(self) -> int:
        """The start on the rank that comes last."""
        return max(self.starts_ns.values())

    @property
    def last_rank(self) -> int:
        """The rank that comes last; of several the lowest."""
        return min(rank for rank, start_ns in self.starts_ns.items() if start_ns == self.last_ns)

    @property
    def waits_ns(self) -> dict[int, int]:
        """How long each rank waits for the last one."""
        return {rank: self.last_ns - start_ns for rank, start_ns in self.starts_ns.items()}

    @property
    def removable_ns(self) -> int:
        """How much earlier all would have entered if the last rank had come with the last but one."""
        starts_ns = sorted(self.starts_ns.values())
        return starts_ns[-1] - starts_ns[-2]


@dataclass(frozen=True)
class RankTotals:
    """Figures of one rank over all its collectives; sends and receives are none."""

    collectives: int
    wait_ns: int
    times_last: int
    caused_wait_ns: int
    removable_ns: int


class Simulation:
    """A job with its times: `starts_ns` and `ends_ns` of each row of `rows`, in true time."""

    def __init__(self, job: Job) -> None:
        self.job = job
        shared = Shared(job)
        self.processes = [Process(shared, rank) for rank in range(job.ranks)]
        with _no_garbage_collection():
            for process in self.processes:
                Training(process).run()
            self.graph: Graph = shared.graph
            self.meetings: list[Meeting] = list(shared.meetings.values())
            self.starts_ns, self.ends_ns = self.graph.times(START_NS)

    @property
    def rows(self) -> list[Row]:
        """All rows of all ranks, and the meetings that join the rows of a collective."""
        return self.graph.rows

    @cached_property
    def end_ns(self) -> int:
        """When the last row of the job ends."""
        return max(self.ends_ns)

    @property
    def window_ns(self) -> int:
        """How long the job takes."""
        return self.end_ns - START_NS

    @cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """All collectives in the order of their first starts."""
        found = sorted(
            self.meetings, key=lambda each: (min(self.starts_ns[row] for row in each.members.values()), each.row.number)
        )
        return tuple(self._collective(number, meeting) for number, meeting in enumerate(found, start=1))

    def _collective(self, number: int, meeting: Meeting) -> Collective:
        rows = dict(sorted(meeting.members.items()))
        return Collective(
            number=number,
            group=meeting.group.name,
            description=meeting.group.description,
            ranks=tuple(rows),
            collective="send" if meeting.is_p2p else meeting.message.collective,
            is_p2p=meeting.is_p2p,
            seq=meeting.seq,
            step=meeting.row.step,
            rows=rows,
            starts_ns={rank: self.starts_ns[row] for rank, row in rows.items()},
            ends_ns={rank: self.ends_ns[row] for rank, row in rows.items()},
        )

    def totals(self) -> dict[int, RankTotals]:
        """Return each rank's waits, how often it comes last, and what that costs; sends and receives do not count."""
        counted = [each for each in self.collectives if not each.is_p2p]
        totals = {}
        for rank in range(self.job.ranks):
            own = [each for each in counted if rank in each.starts_ns]
            last = [each for each in own if each.last_rank == rank]
            totals[rank] = RankTotals(
                collectives=len(own),
                wait_ns=sum(each.waits_ns[rank] for each in own),
                times_last=len(last),
                caused_wait_ns=sum(sum(each.waits_ns.values()) for each in last),
                removable_ns=sum(each.removable_ns for each in last),
            )
        return totals

    def approaches(self, collective: Collective) -> dict[int, Approach]:
        """Return what each rank of a collective does since all of its ranks were last together, in true time."""
        together = [
            each.last_ns
            for each in self.collectives
            if not each.is_p2p
            and set(each.ranks) >= set(collective.ranks)
            and each.last_ns < min(collective.starts_ns.values())
        ]
        begin_ns = max(together, default=START_NS)
        times = (self.starts_ns, self.ends_ns)
        return {
            rank: account(self.processes[rank].rows, times, begin_ns, entry_ns)
            for rank, entry_ns in collective.starts_ns.items()
        }

    def bubbles(self) -> list[Bubble]:
        """Return the pipeline bubble of each rank in each step, in true time."""
        times = (self.starts_ns, self.ends_ns)
        return [
            measure_bubble(self.processes[rank].rows, times, (rank, self.job.stage(rank), step))
            for rank in range(self.job.ranks)
            for step in range(self.job.steps)
        ]

    def offset_ns(self, rank: int, reference: int = 0, at_ns: int = START_NS) -> int:
        """Return what added to a rank's clock gives the reference rank's, at a true time."""
        return self.job.offset_ns(rank, reference, at_ns)

    def critical_path(self) -> tuple[PathPart, ...]:
        """Return the path by the backward walk: its parts fill the window from the job's start to its last end."""
        return tuple(walk_back(self.rows, self.starts_ns, self.ends_ns, START_NS))

    def what_if(self, duration: Duration | None = None, lag: Lag | None = None) -> int:
        """Return how long the job would take with other durations of rows and other lags of edges.

        The order of all launches stays. A duration of a meeting is the time of the transfer.
        """
        return max(self.graph.times(START_NS, duration, lag)[1]) - START_NS

    def what_if_scaled(self, chosen: Callable[[Row], bool], percent: int) -> int:
        """Return how long the job would take if the chosen rows took `percent` of their time."""
        return self.what_if(lambda row: row.dur_ns * percent // 100 if chosen(row) else row.dur_ns)

    def what_if_ideal_network(self) -> int:
        """Return how long the job would take if no transfer took any time."""
        return self.what_if_scaled(lambda row: row.kind is Kind.MEETING, 0)

    def what_if_no_launch_gaps(self) -> int:
        """Return how long the job would take if rows of the GPU started without the lag behind their launch."""
        return self.what_if(lag=lambda _, edge: 0 if edge.reason is Reason.LAUNCH else edge.lag_ns)

    def what_if_no_gaps(self) -> int:
        """Return how long the job would take if rows of the GPU started without any lag."""

        def lag(row: Row, edge: Edge) -> int:
            is_gap = row.kind in GPU_KINDS and edge.reason in (Reason.LAUNCH, Reason.STREAM, Reason.EVENT)
            return 0 if is_gap else edge.lag_ns

        return self.what_if(lag=lag)

    def what_if_without_waits(self, rank: int) -> int:
        """Return how long the job would take if no other rank waited for this one in a collective."""

        def lag(row: Row, edge: Edge) -> int | None:
            is_late = row.kind is Kind.MEETING and self.rows[edge.row].rank == rank
            return None if is_late else edge.lag_ns

        return self.what_if(lag=lag)

    def without(self, *delays: Delay) -> "Simulation":
        """Run the job anew without some of its delays."""
        kept = tuple(delay for delay in self.job.delays if delay not in delays)
        return Simulation(replace(self.job, delays=kept))

    def gpu_rows(self, rank: int) -> list[Row]:
        """Return the kernels, copies and memsets of a rank."""
        return [row for row in self.processes[rank].rows if row.kind in GPU_KINDS]

    def write_kineto(self, folder: Path) -> list[Path]:
        """Write one trace of each rank, as Kineto does, by the rank's own clock; return the files."""
        from job_simulator.kineto_files import kineto_text

        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"rank{rank}.pt.trace.json" for rank in range(self.job.ranks)]
        for rank, path in enumerate(paths):
            path.write_text(kineto_text(self, rank, path.name))
        return paths


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Suspend the collector: it would search millions of objects that all stay, in three quarters of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def simulate(job: Job) -> Simulation:
    """Simulate a job."""
    return Simulation(job)
