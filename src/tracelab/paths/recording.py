"""The rows of one run as arrays: one source a rank, times on one clock from the run's first row on."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array, boolean_column, codes, floats, joint_numbers, numbers, run_starts
from tracelab.paths.order import sort_cpu_rows, sort_gpu_rows

Relations = Mapping[str, pa.Table]

MOST_CORRELATION = 1 << 40
"""Correlations beyond it link nothing: a process's number and a correlation are one key of 64 bits."""
LONGEST_NS = 1 << 51
"""Rows that begin later than 26 days after the first are left out, and longer ones cut: a thread's number and a time
are one key of 64 bits."""


@dataclass(frozen=True)
class Clock:
    """What moves times of a rank onto the common clock."""

    offset_ns: int = 0
    drift: float = 0.0
    from_ns: int = 0

    def aligned(self, time: Array) -> Array:
        """Return times of the rank's own clock by the common one."""
        moved: Array = time + self.offset_ns
        return moved if self.drift == 0 else moved + np.rint(self.drift * (time - self.from_ns)).astype(np.int64)

    def own(self, time: Array) -> Array:
        """Return times of the common clock by the rank's own one."""
        own: Array = time - self.offset_ns
        for _ in range(2 if self.drift else 0):
            own = time - self.offset_ns - np.rint(self.drift * (own - self.from_ns)).astype(np.int64)
        return own


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their streams or threads; `lane` numbers these, `process` the processes of all relations."""

    rank: Array
    process: Array
    lane: Array
    start: Array
    end: Array
    key: Array
    """Process and correlation as one number, NONE without a correlation."""
    name: Array
    names: list[str | None]

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.start)


@dataclass(frozen=True)
class GpuRows(Rows):
    """Kernels, copies, memsets and whole graphs."""

    device: Array
    stream: Array
    classes: list[str | None]
    row_class: Array
    collectives: list[str | None]
    collective: Array


@dataclass(frozen=True)
class CpuRows(Rows):
    """Ops, API calls and ranges; an outer row comes before those inside it."""

    tid: Array
    kind: Array
    kinds: list[str | None]
    sequence: Array
    forward_tid: Array

    def of_kind(self, *kinds: str) -> Array:
        """Return for each row whether it is of one of the kinds."""
        return np.array([kind in kinds for kind in self.kinds], dtype=bool)[self.kind]


@dataclass(frozen=True)
class Syncs:
    """Recorded synchronizations; ids are NONE where they are not recorded."""

    process: Array
    device: Array
    stream: Array
    kind: Array
    kinds: list[str | None]
    start: Array
    key: Array
    awaited_stream: Array
    awaited_key: Array


@dataclass(frozen=True)
class Recording:
    """The rows of one run; their times count from `base_ns` of the common clock."""

    gpu: GpuRows
    cpu: CpuRows
    syncs: Syncs
    clocks: dict[int, Clock]
    sources: dict[int, str | None]
    """By rank, the source that its rows are of."""
    window_ns: int
    ranks_left_out: int
    """Ranks whose clocks are not known."""
    base_ns: int

    def from_own_clocks(self, rank: Array, time: Array) -> Array:
        """Return times of ranks' own clocks as times here."""
        return align_times(rank, time, self.clocks) - self.base_ns

    def to_own_clocks(self, rank: Array, time: Array) -> Array:
        """Return times here by the ranks' own clocks."""
        own: Array = time + self.base_ns
        for each, clock in self.clocks.items():
            if clock != Clock():
                own[rank == each] = clock.own(own[rank == each])
        return own


def align_times(rank: Array, time: Array, clocks: Mapping[int, Clock]) -> Array:
    """Return times of ranks' own clocks by the common one."""
    moved: Array = time.copy()
    for each, clock in clocks.items():
        if clock != Clock():
            moved[rank == each] = clock.aligned(moved[rank == each])
    return moved


def read_recording(relations: Relations) -> Recording:
    """Choose a source for each rank, align the clocks, and number processes, streams and threads."""
    with ThreadPoolExecutor(1) as other_core:
        cpu_rows = other_core.submit(sort_cpu_rows, relations["cpu"])
        gpu_rows = sort_gpu_rows(relations["gpu"])
    tables = {"gpu": gpu_rows, "cpu": cpu_rows.result(), "syncs": relations["syncs"]}
    sources, names = _number_sources(tables)
    clocks = _read_clocks(relations["collectives"])
    chosen, left_out = _choose_sources(tables, sources, clocks)
    kept = {name: _keep(table, chosen[sources[name]]) for name, table in tables.items()}
    aligned = {name: _align(table, "start_ns", clocks) for name, table in kept.items()}
    starts = [aligned[name] for name in ("gpu", "cpu") if len(aligned[name])]
    base = int(min(each.min() for each in starts)) if starts else 0
    for name in ("gpu", "cpu"):
        fits = aligned[name] - base < LONGEST_NS
        if not fits.all():
            kept[name] = _keep(kept[name], fits)
            aligned[name] = aligned[name][fits]
    processes = joint_numbers(*([numbers(kept[name], column) for column in ("rank", "pid")] for name in tables))
    place = dict(zip(tables, processes, strict=True))
    ends = {name: _ends(kept[name], aligned[name], clocks) - base for name in ("gpu", "cpu")}
    gpu = _gpu_rows(kept["gpu"], place["gpu"], aligned["gpu"] - base, ends["gpu"])
    cpu = _cpu_rows(kept["cpu"], place["cpu"], aligned["cpu"] - base, ends["cpu"])
    ranks = {int(rank) for rows in (gpu, cpu) for rank in rows.rank[run_starts(rows.rank)]}
    return Recording(
        gpu,
        cpu,
        _syncs(kept["syncs"], place["syncs"], aligned["syncs"] - base),
        {rank: clocks.get(rank, Clock()) for rank in ranks},
        {rank: name for place, (rank, name) in names.items() if chosen[place]},
        int(max(gpu.end.max(initial=0), cpu.end.max(initial=0))),
        left_out,
        base,
    )


def _keep(table: pa.Table, some: Array) -> pa.Table:
    return table if some.all() else table.filter(boolean_column(some))


def _number_sources(tables: Mapping[str, pa.Table]) -> tuple[dict[str, Array], dict[int, tuple[int, str | None]]]:
    """Number the combinations of rank and source alike in all tables; return the numbers, and what each is."""
    names: dict[str | None, int] = {}
    columns = []
    for table in tables.values():
        place, texts = codes(table, "source")
        known = np.array([names.setdefault(text, len(names)) for text in texts])
        columns.append([numbers(table, "rank"), known[place]])
    numbered = joint_numbers(*columns)
    texts = list(names)
    of_number = {}
    for (rank, source), places in zip(columns, numbered, strict=True):
        for first in run_starts(places).tolist():
            of_number[int(places[first])] = (int(rank[first]), texts[int(source[first])])
    return dict(zip(tables, numbered, strict=True)), of_number


def _read_clocks(collectives: pa.Table) -> dict[int, Clock]:
    """Return the clocks of the largest group of ranks whose clocks are known by each other."""
    ranks, references = numbers(collectives, "rank"), numbers(collectives, "reference_rank")
    offsets, moments = numbers(collectives, "offset_ns"), numbers(collectives, "offset_time_ns")
    drifts = floats(collectives, "drift_ppb")
    first = np.unique(ranks, return_index=True)[1]
    known = first[(references[first] != NONE) & (offsets[first] != NONE)]
    if not len(known):
        return {}
    values, counts = np.unique(references[known], return_counts=True)
    group = known[references[known] == values[np.argmax(counts)]]
    return {
        int(ranks[each]): Clock(int(offsets[each]), float(drifts[each]) / 1e9, int(moments[each]))
        for each in group.tolist()
    }


def _align(table: pa.Table, name: str, clocks: Mapping[int, Clock]) -> Array:
    return align_times(numbers(table, "rank"), numbers(table, name), clocks)


def _choose_sources(
    tables: Mapping[str, pa.Table], sources: Mapping[str, Array], clocks: Mapping[int, Clock]
) -> tuple[Array, int]:
    """Choose for each rank the source with the most GPU rows, and the ranks whose clocks agree.

    Return for each source whether it counts, and how many ranks do not. Without a common clock that is the rank with
    the most GPU rows alone.
    """
    count = 1 + max((int(places.max(initial=-1)) for places in sources.values()), default=-1)
    rank_of = np.zeros(count, dtype=np.int64)
    weights = np.zeros((2, count), dtype=np.int64)
    for name, places in sources.items():
        rank_of[places] = numbers(tables[name], "rank")
        if name != "syncs":
            weights[int(name == "cpu")] += np.bincount(places, minlength=count)
    best: dict[int, int] = {}
    for place in np.lexsort((-np.arange(count), weights[1], weights[0])):
        if weights[:, place].any():
            best[int(rank_of[place])] = int(place)
    aligned = [rank for rank in best if rank in clocks]
    if len(best) > 1 and not aligned:
        aligned = [max(best, key=lambda rank: (*weights[:, best[rank]], -rank))]
    ranks = aligned or list(best)
    chosen = np.zeros(count, dtype=bool)
    chosen[[best[rank] for rank in ranks]] = True
    return chosen, len(best) - len(ranks)


def _keys(process: Array, correlation: Array) -> Array:
    links = (correlation >= 0) & (correlation < MOST_CORRELATION)
    return np.where(links, process * MOST_CORRELATION + np.where(links, correlation, 0), NONE)


def _lanes(*columns: Array) -> Array:
    """Number runs of equal combinations: rows are sorted by these columns."""
    starts = run_starts(*columns)
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(columns[0])))


def _ends(table: pa.Table, start: Array, clocks: Mapping[int, Clock]) -> Array:
    ends: Array = start + np.clip(_align(table, "end_ns", clocks) - start, 0, LONGEST_NS)
    return ends


def _gpu_rows(table: pa.Table, process: Array, start: Array, end: Array) -> GpuRows:
    device, stream = numbers(table, "device"), numbers(table, "stream")
    name, names = codes(table, "name")
    row_class, classes = codes(table, "class")
    collective, collectives = codes(table, "collective")
    return GpuRows(
        rank=numbers(table, "rank"),
        process=process,
        lane=_lanes(process, device, stream),
        start=start,
        end=end,
        key=_keys(process, numbers(table, "correlation")),
        name=name,
        names=names,
        device=device,
        stream=stream,
        classes=classes,
        row_class=row_class,
        collectives=collectives,
        collective=collective,
    )


def _cpu_rows(table: pa.Table, process: Array, start: Array, end: Array) -> CpuRows:
    tid = numbers(table, "tid")
    name, names = codes(table, "name")
    kind, kinds = codes(table, "kind")
    return CpuRows(
        rank=numbers(table, "rank"),
        process=process,
        lane=_lanes(process, tid),
        start=start,
        end=end,
        key=_keys(process, numbers(table, "correlation")),
        name=name,
        names=names,
        tid=tid,
        kind=kind,
        kinds=kinds,
        sequence=numbers(table, "sequence_number"),
        forward_tid=numbers(table, "forward_tid"),
    )


def _syncs(table: pa.Table, process: Array, start: Array) -> Syncs:
    kind, kinds = codes(table, "kind")
    return Syncs(
        process=process,
        device=numbers(table, "device"),
        stream=numbers(table, "stream"),
        kind=kind,
        kinds=kinds,
        start=start,
        key=_keys(process, numbers(table, "correlation")),
        awaited_stream=numbers(table, "waits_for_stream"),
        awaited_key=_keys(process, numbers(table, "waits_for_correlation")),
    )
