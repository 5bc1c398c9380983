"""Describe a distributed training job: its parallel layout, what delays which rank, and how ranks record."""

from dataclasses import dataclass
from functools import cached_property

BASE_NS = 226 * 7_889_238 * 10**9
"""Kineto counts from the start of a quarter of a year; this one began on 2 July 2026."""

START_NS = BASE_NS + 4_450_000_123_456_789
"""When every rank begins, in true time."""

PERCENT = 100


@dataclass(frozen=True)
class SlowCompute:
    """All kernels of a rank that compute take `percent` of their time in the steps `first` to `last`."""

    rank: int
    percent: int
    first: int = 0
    last: int = 10**9


@dataclass(frozen=True)
class SlowHost:
    """All work of a rank's CPU threads takes `percent` of its time in the steps `first` to `last`."""

    rank: int
    percent: int
    first: int = 0
    last: int = 10**9


@dataclass(frozen=True)
class LoaderStall:
    """The data loader keeps a rank waiting `stall_ns` longer at the beginning of a step."""

    rank: int
    step: int
    stall_ns: int


@dataclass(frozen=True)
class HostPause:
    """The main thread of a rank pauses before the first forward pass of a step, as for garbage collection."""

    rank: int
    step: int
    pause_ns: int


@dataclass(frozen=True)
class SlowLink:
    """All transfers in which a rank takes part take `percent` of their time in the steps `first` to `last`."""

    rank: int
    percent: int
    first: int = 0
    last: int = 10**9


Delay = SlowCompute | SlowHost | LoaderStall | HostPause | SlowLink


@dataclass(frozen=True)
class Clock:
    """A rank's clock: ahead of true time by `offset_ns` at the beginning, and by `drift_ppb` more each second."""

    offset_ns: int = 0
    drift_ppb: int = 0

    def reading_ns(self, true_ns: int) -> int:
        """Return what the clock shows at a true time."""
        return true_ns + self.offset_ns + self.drift_ppb * (true_ns - START_NS) // 10**9


@dataclass(frozen=True)
class Cut:
    """The recording of a rank begins `after_ns` later than the job; what starts earlier is missing."""

    rank: int
    after_ns: int


@dataclass(frozen=True)
class Group:
    """A process group: one name, description and list of ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]

    @property
    def stride(self) -> int:
        """Distance of neighboring ranks; 1 in a group of one."""
        return self.ranks[1] - self.ranks[0] if len(self.ranks) > 1 else 1


@dataclass(frozen=True)
class Job:
    """A training job of `ranks` GPUs, one process each; everything follows from these settings.

    Ranks are numbered as Megatron does: neighbors share a tensor group, then come data and pipeline groups.
    `expert` divides each data group into groups whose ranks exchange tokens by all-to-all; with `sharded` the ranks of
    a data group gather the parameters of each layer, and scatter gradients instead of reducing them. `delays` are
    injected, `clocks` has one entry for each rank (none: all exact), and `omitted` are arguments that the profiler
    leaves out, as ("Seq", "Comms Id").
    """

    ranks: int = 8
    pipeline: int = 1
    tensor: int = 1
    expert: int = 1
    sharded: bool = False
    steps: int = 3
    microbatches: int = 0
    layers: int = 2
    seed: int = 0
    delays: tuple[Delay, ...] = ()
    clocks: tuple[Clock, ...] = ()
    cuts: tuple[Cut, ...] = ()
    omitted: tuple[str, ...] = ()
    end_jitter_ns: int = 1_500
    gpus_per_host: int = 8
    name: str = "simulated"

    def __post_init__(self) -> None:
        if self.ranks % (self.pipeline * self.tensor) or self.data % self.expert:
            raise ValueError("pipeline * tensor must divide ranks, and expert the ranks of a data group")
        if self.clocks and len(self.clocks) != self.ranks:
            raise ValueError(f"{len(self.clocks)} clocks for {self.ranks} ranks; describe all or none")

    @property
    def data(self) -> int:
        """Size of the data-parallel groups."""
        return self.ranks // (self.pipeline * self.tensor)

    @property
    def microbatches_per_step(self) -> int:
        """`microbatches`, or by default one for each stage of the pipeline."""
        return self.microbatches or self.pipeline

    def device(self, rank: int) -> int:
        """Return the device of a rank on its host."""
        return rank % self.gpus_per_host

    def host(self, rank: int) -> str | None:
        """Return the name of a rank's host, where the ranks of each host have one clock; else None."""
        hosts = [self.clocks[at : at + self.gpus_per_host] for at in range(0, self.ranks, self.gpus_per_host)]
        if any(len(set(clocks)) > 1 for clocks in hosts):
            return None
        return f"node{rank // self.gpus_per_host}"

    def stage(self, rank: int) -> int:
        """Return the pipeline stage of a rank."""
        return rank // (self.tensor * self.data)

    def clock(self, rank: int) -> Clock:
        """Return the clock of a rank."""
        return self.clocks[rank] if self.clocks else Clock()

    def offset_ns(self, rank: int, reference: int = 0, at_ns: int = START_NS) -> int:
        """Return what added to a rank's clock gives the reference rank's, at a true time."""
        return self.clock(reference).reading_ns(at_ns) - self.clock(rank).reading_ns(at_ns)

    def cut_ns(self, rank: int) -> int:
        """Return when the recording of a rank begins, in true time."""
        return START_NS + max((cut.after_ns for cut in self.cuts if cut.rank == rank), default=0)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All process groups with their numbered names, the default group first."""
        stages = range(0, self.ranks, self.tensor * self.data)
        tensor = [tuple(range(at, at + self.tensor)) for at in range(0, self.ranks, self.tensor)]
        data = [
            tuple(range(at + lane, at + self.tensor * self.data, self.tensor))
            for at in stages
            for lane in range(self.tensor)
        ]
        pipeline = [tuple(range(at, self.ranks, self.tensor * self.data)) for at in range(self.tensor * self.data)]
        expert = [
            ranks[at : at + self.expert] for ranks in data if self.expert > 1 for at in range(0, self.data, self.expert)
        ]
        described = [("default_pg", tuple(range(self.ranks)))]
        described += [("DATA_PARALLEL_GROUP", ranks) for ranks in data]
        described += [("TENSOR_MODEL_PARALLEL_GROUP", ranks) for ranks in tensor]
        described += [("PIPELINE_MODEL_PARALLEL_GROUP", ranks) for ranks in pipeline]
        described += [("EXPERT_MODEL_PARALLEL_GROUP", ranks) for ranks in expert]
        return tuple(Group(str(number), *each) for number, each in enumerate(described))

    def group(self, rank: int, description: str) -> Group:
        """Return the group of a description that a rank is in."""
        return self._groups_of_ranks[rank, description]

    @cached_property
    def _groups_of_ranks(self) -> dict[tuple[int, str], Group]:
        return {(rank, group.description): group for group in self.groups for rank in group.ranks}
