"""Find the rows of threads that belong to modules of a network, by the frames that PyTorch records of them."""

import numpy as np

from tracelab.paths.columns import Array, codes, joint_numbers, last_at_most, numbers
from tracelab.paths.dependencies import backward_flows
from tracelab.paths.recording import Recording, Relations


def name_modules(relations: Relations) -> list[str | None]:
    """Return the names of the modules that have frames; the last one is NULL."""
    return codes(relations["modules"], "name")[1]


def mark_modules(recording: Recording, relations: Relations, wanted: Array) -> Array:
    """Return for each CPU row whether it begins in a frame of a wanted module, or its forward op does.

    `wanted` is by name of `name_modules`. A backward op runs on a thread of autograd, which has no frames of modules.
    """
    cpu, table = recording.cpu, relations["modules"]
    name, _ = codes(table, "name")
    source, sources = codes(table, "source")
    rank = numbers(table, "rank")
    is_chosen = np.zeros(len(rank), dtype=bool)
    for each, chosen in recording.sources.items():
        known = np.array([text == chosen for text in sources], dtype=bool)
        is_chosen |= (rank == each) & known[source]
    some = np.flatnonzero(is_chosen & wanted[name])
    if not len(some) or not cpu.count:
        return np.zeros(cpu.count, dtype=bool)
    rank = rank[some]
    thread, own = joint_numbers([rank, numbers(table, "tid")[some]], [cpu.rank_of_lane, cpu.tid_of_lane])
    span = int(cpu.end.max()) + 2
    start, end = (
        thread * span + np.clip(recording.from_own_clocks(rank, numbers(table, column)[some]), 0, span - 1)
        for column in ("start_ns", "end_ns")
    )
    order = np.argsort(start, kind="stable")
    latest = np.maximum.accumulate(end[order])
    moment = (own * span)[cpu.lane] + cpu.start
    place = last_at_most(start[order], moment)
    inside: Array = (place >= 0) & (latest[np.maximum(place, 0)] > moment)
    backward, forward = backward_flows(cpu)
    inside[backward[inside[forward]]] = True
    return inside
