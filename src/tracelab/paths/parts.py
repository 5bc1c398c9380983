"""Divide a recording into parts of whole processes.

Nothing but collectives connects processes. The arrays of a part are small: they stay in the cache, and what is freed
serves the next one.
"""

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from tracelab.paths.columns import Array
from tracelab.paths.recording import CpuRows, GpuRows, Recording, Rows, Syncs

_LEAST_ROWS = 400_000
"""Rows of a part, where processes suffice: each part costs some hundred calls of numpy."""


@dataclass(frozen=True)
class Part:
    """A recording of some of the processes of another one, and where its lanes and rows begin in that."""

    recording: Recording
    first_thread: int
    first_cpu_row: int
    first_gpu_row: int


def split_recording(recording: Recording) -> list[Part]:
    """Divide a recording into parts; one part where lanes are not in the order of processes, as without process ids."""
    gpu, cpu, syncs = recording.gpu, recording.cpu, recording.syncs
    whole = [Part(recording, 0, 0, 0)]
    owners = (gpu.process_of_lane, cpu.process_of_lane, syncs.process)
    if any((owner[1:] < owner[:-1]).any() for owner in owners):
        return whole
    cuts = _choose_cuts(gpu, cpu)
    if len(cuts) < 3:  # noqa: PLR2004  the first and the last one
        return whole
    bounds = [np.searchsorted(owner, cuts).tolist() for owner in owners]
    cut = [[slice(*pair) for pair in pairwise(each)] for each in bounds]
    return [_select_part(recording, *some) for some in zip(*cut, strict=True)]


def _select_part(recording: Recording, gpu_lanes: slice, cpu_lanes: slice, syncs: slice) -> Part:
    gpu_rows, cpu_rows = _rows_of(recording.gpu, gpu_lanes), _rows_of(recording.cpu, cpu_lanes)
    some = replace(
        recording,
        gpu=_select(recording.gpu, gpu_lanes, gpu_rows),
        cpu=_select(recording.cpu, cpu_lanes, cpu_rows),
        syncs=_select_columns(recording.syncs, syncs, syncs),
    )
    return Part(some, cpu_lanes.start, cpu_rows.start, gpu_rows.start)


def _rows_of(rows: Rows, lanes: slice) -> slice:
    since, until = np.searchsorted(rows.lane, (lanes.start, lanes.stop)).tolist()
    return slice(since, until)


def _choose_cuts(gpu: GpuRows, cpu: CpuRows) -> Array:
    """Return the numbers of the processes that parts begin with, and behind them one more than the last number."""
    count = 1 + max(int(rows.process_of_lane.max(initial=-1)) for rows in (gpu, cpu))
    rows = np.zeros(count, dtype=np.int64)
    for each in (gpu, cpu):
        np.add.at(rows, each.process_of_lane, np.bincount(each.lane, minlength=len(each.process_of_lane)))
    sizes, cuts = 0, [0]
    for process, size in enumerate(rows.tolist()):
        if sizes >= _LEAST_ROWS:
            cuts.append(process)
            sizes = 0
        sizes += size
    return np.array([*cuts, np.iinfo(np.int64).max])


_Rows = TypeVar("_Rows", GpuRows, CpuRows)
_Table = TypeVar("_Table", GpuRows, CpuRows, Syncs)


def _select(rows: _Rows, lanes: slice, some: slice) -> _Rows:
    """Return the rows of some lanes, as views but for the numbers of the lanes."""
    return replace(_select_columns(rows, lanes, some), lane=rows.lane[some] - lanes.start)


def _select_columns(rows: _Table, lanes: slice, some: slice) -> _Table:
    columns = {each.name: getattr(rows, each.name) for each in fields(rows)}
    views: dict[str, Any] = {
        name: column[lanes if name.endswith("_of_lane") else some]
        for name, column in columns.items()
        if isinstance(column, np.ndarray)
    }
    return replace(rows, **views)
