"""Measure the bubbles of a pipeline: time in which a rank neither computes nor takes part in other communication."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from job_simulator.timed_graph import Kind, Row

PIPELINE_GROUP = "PIPELINE_MODEL_PARALLEL_GROUP"


@dataclass(frozen=True)
class Bubble:
    """The bubble of one rank in one step, in three parts."""

    rank: int
    stage: int
    step: int
    window_ns: int
    """From the start of the first kernel of a forward pass to the end of the last one of a backward pass."""
    compute_ns: int
    """Time of the window in which any kernel computes."""
    communication_ns: int
    """Time in which collectives other than sends and receives run, and nothing computes."""
    warm_up_ns: int
    """The rest of the window until the first kernel of a backward pass."""
    steady_ns: int
    """The rest between both."""
    drain_ns: int
    """The rest after the last kernel of a forward pass, where a backward pass has begun."""

    @property
    def bubble_ns(self) -> int:
        """The whole bubble."""
        return self.warm_up_ns + self.steady_ns + self.drain_ns


def measure_bubble(
    rows: Iterable[Row], times: tuple[Sequence[int], Sequence[int]], place: tuple[int, int, int]
) -> Bubble:
    """Return the bubble of a rank, its stage and a step (`place`) by its kernels, over all boundary points."""
    starts_ns, ends_ns = times
    rank, stage, step = place
    kernels = [row for row in rows if row.step == step and row.kind in (Kind.KERNEL, Kind.COMMUNICATION)]
    compute = [row for row in kernels if row.kind is Kind.KERNEL and row.phase]
    forward = [row for row in compute if row.phase and row.phase[0] == "forward"]
    backward = [row for row in compute if row.phase and row.phase[0] == "backward"]
    begin_ns, end_ns = min(starts_ns[row.number] for row in forward), max(ends_ns[row.number] for row in backward)
    first_backward_ns = min(starts_ns[row.number] for row in backward)
    last_forward_ns = max(first_backward_ns, *(ends_ns[row.number] for row in forward))
    points = {begin_ns, end_ns, first_backward_ns, last_forward_ns}
    points |= {each[row.number] for row in kernels for each in times if begin_ns < each[row.number] < end_ns}
    spent = dict.fromkeys(("compute", "communication", "warm_up", "steady", "drain"), 0)
    for at_ns, until_ns in pairwise(sorted(points)):
        active = [row for row in kernels if starts_ns[row.number] <= at_ns and ends_ns[row.number] >= until_ns]
        if any(row.kind is Kind.KERNEL for row in active):
            part = "compute"
        elif any(row.args.get("Process Group Description") != PIPELINE_GROUP for row in active):
            part = "communication"
        elif until_ns <= first_backward_ns:
            part = "warm_up"
        else:
            part = "drain" if at_ns >= last_forward_ns else "steady"
        spent[part] += until_ns - at_ns
    return Bubble(rank, stage, step, end_ns - begin_ns, **{f"{name}_ns": ns for name, ns in spent.items()})
