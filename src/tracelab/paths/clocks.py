"""Refuse paths of processes whose clocks of CPU and GPU are apart: a path passes from one to the other."""

import numpy as np

from tracelab.paths.columns import NONE
from tracelab.paths.graph import Graph
from tracelab.paths.recording import Relations

_LARGEST_ERROR_NS = 1_000_000
"""The same limit as of the macros `launch_end` and `clocks_apart`."""
_LEAST_LAUNCHES = 4


def refuse_clocks(graph: Graph, relations: Relations) -> str | None:
    """Return why the clocks of CPU and GPU are apart, None where nothing shows that they are."""
    if relations["apart"].num_rows:
        return (
            "the clocks of CPU and GPU are apart, as synchronizations return before their work ends, so what a launch "
            "or a synchronization waits for is not known"
        )
    if early_ns := measure_early_rows(graph):
        return (
            f"the clocks of CPU and GPU are apart, as rows of GPUs begin {early_ns / 1e6:,.3f} ms (median) before "
            "their launch, so what a launch or a synchronization waits for is not known"
        )
    return None


def measure_early_rows(graph: Graph) -> int:
    """Return by how much rows of GPUs begin before their launch: the largest median of a process, else 0.

    It counts the processes in which most rows with a recorded launch, and at least four, do by over a millisecond.
    """
    gpu = graph.recording.gpu
    launched = np.flatnonzero(graph.launch_time != NONE)
    early_ns = graph.launch_time[launched] - gpu.start[launched]
    is_early = early_ns > _LARGEST_ERROR_NS
    if not is_early.any():
        return 0
    process = gpu.processes(launched)
    early, launches = np.bincount(process[is_early], minlength=int(process.max()) + 1), np.bincount(process)
    apart = np.flatnonzero((early >= _LEAST_LAUNCHES) & (2 * early > launches))
    return max((int(np.median(early_ns[is_early & (process == each)])) for each in apart), default=0)
