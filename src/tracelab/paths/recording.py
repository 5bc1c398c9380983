"""The rows of one run as arrays: one source a rank, times on one clock from the run's first row on."""

from collections.abc import Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array, floats, joint_numbers, numbers, run_starts
from tracelab.paths.order import SortedRows, sort_cpu_rows, sort_gpu_rows, sort_syncs

Relations = MutableMapping[str, pa.Table]

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
    """Rows in the order of their lanes: streams or threads; `process` numbers the processes of all relations."""

    lane: Array
    rank_of_lane: Array
    pid_of_lane: Array
    process_of_lane: Array
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

    def ranks(self, some: Array | slice = slice(None)) -> Array:
        """Return the rank of each row, or of each of some."""
        return self.rank_of_lane[self.lane[some]]

    def processes(self, some: Array) -> Array:
        """Return the process of each of some rows."""
        return self.process_of_lane[self.lane[some]]


@dataclass(frozen=True)
class GpuRows(Rows):
    """Kernels, copies, memsets and whole graphs."""

    device_of_lane: Array
    stream_of_lane: Array
    classes: list[str | None]
    row_class: Array
    collectives: list[str | None]
    collective: Array


@dataclass(frozen=True)
class CpuRows(Rows):
    """Ops, API calls and ranges; an outer row comes before those inside it."""

    tid_of_lane: Array
    kind: Array
    kinds: list[str | None]
    sequence: Array
    forward_tid: Array

    def of_kind(self, *kinds: str, rows: Array | slice = slice(None)) -> Array:
        """Return for each row, or each of some, whether it is of one of the kinds."""
        return np.array([kind in kinds for kind in self.kinds], dtype=bool)[self.kind[rows]]


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

    def first_start(self, rank: int) -> int:
        """Return when the recording of a rank begins."""
        return self.reach(rank)[0]

    def reach(self, rank: int) -> tuple[int, int]:
        """Return when the recording of a rank begins and ends."""
        return self._reaches[rank]

    @cached_property
    def _reaches(self) -> dict[int, tuple[int, int]]:
        reaches: dict[int, tuple[int, int]] = {}
        for rows in (self.gpu, self.cpu):
            firsts = run_starts(rows.lane)
            if len(firsts):
                begins, ends = np.minimum.reduceat(rows.start, firsts), np.maximum.reduceat(rows.end, firsts)
                for rank, begin, end in zip(rows.ranks(firsts).tolist(), begins.tolist(), ends.tolist(), strict=True):
                    earliest, latest = reaches.get(rank, (begin, end))
                    reaches[rank] = min(earliest, begin), max(latest, end)
        return reaches

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
    """Choose a source for each rank, align the clocks, and number processes, streams and threads.

    Takes `gpu`, `cpu` and `syncs` out of the relations: what is copied from them is freed.
    """
    with ThreadPoolExecutor(1) as other_core:
        cpu_sorted = other_core.submit(sort_cpu_rows, relations.pop("cpu"))
        gpu_sorted = sort_gpu_rows(relations.pop("gpu"))
        tables = {"gpu": gpu_sorted, "cpu": cpu_sorted.result(), "syncs": sort_syncs(relations.pop("syncs"))}
        sources, names = _number_sources(tables)
        clocks = _read_clocks(relations["collectives"])
        chosen, left_out = _choose_sources(tables, sources, clocks)
        kept = {name: table.keep(np.repeat(chosen[sources[name]], table.lengths)) for name, table in tables.items()}
        starts = {name: _align(table, "start_ns", clocks) for name, table in kept.items()}
        base = min((int(starts[name].min()) for name in ("gpu", "cpu") if len(starts[name])), default=0)
        for name, start in starts.items():
            start -= base  # noqa: PLW2901  in place
            fits = start < LONGEST_NS
            if name != "syncs" and not fits.all():
                kept[name], starts[name] = kept[name].keep(fits), start[fits]
        lanes = [[table.numbers_of_lanes(column) for column in ("rank", "pid")] for table in kept.values()]
        processes = dict(zip(kept, joint_numbers(*lanes), strict=True))
        cpu_read = other_core.submit(_cpu_rows, kept["cpu"], processes["cpu"], starts["cpu"], clocks, base)
        gpu = _gpu_rows(kept["gpu"], processes["gpu"], starts["gpu"], clocks, base)
        cpu = cpu_read.result()
    ranks = {int(rank) for rows in (gpu, cpu) for rank in rows.rank_of_lane}
    return Recording(
        gpu,
        cpu,
        _syncs(kept["syncs"], processes["syncs"], starts["syncs"]),
        {rank: clocks.get(rank, Clock()) for rank in ranks},
        {rank: name for place, (rank, name) in names.items() if chosen[place]},
        int(max(gpu.end.max(initial=0), cpu.end.max(initial=0))),
        left_out,
        base,
    )


def _number_sources(tables: Mapping[str, SortedRows]) -> tuple[dict[str, Array], dict[int, tuple[int, str | None]]]:
    """Number the combinations of rank and source alike in all tables; return those of lanes, and what each is."""
    names: dict[str | None, int] = {}
    columns = []
    for table in tables.values():
        place, texts = table.codes_of_lanes("source")
        known = np.array([names.setdefault(text, len(names)) for text in texts])
        columns.append([table.numbers_of_lanes("rank"), known[place]])
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


def _align(rows: SortedRows, name: str, clocks: Mapping[int, Clock]) -> Array:
    """Return a new array of times on the common clock."""
    column = rows.numbers(name)
    aligned = column if column.flags.writeable else column.copy()
    ranks = rows.numbers_of_lanes("rank")
    heads = run_starts(ranks)  # lanes are in the order of ranks
    bounds = np.append(rows.first[heads], len(rows)).tolist()
    for rank, since, until in zip(ranks[heads].tolist(), bounds, bounds[1:], strict=False):
        if clocks.get(rank, Clock()) != Clock():
            aligned[since:until] = clocks[rank].aligned(aligned[since:until])
    return aligned


def _choose_sources(
    tables: Mapping[str, SortedRows], sources: Mapping[str, Array], clocks: Mapping[int, Clock]
) -> tuple[Array, int]:
    """Choose for each rank the source with the most GPU rows, and the ranks whose clocks agree.

    Return for each source whether it counts, and how many ranks do not. Without a common clock that is the rank with
    the most GPU rows alone.
    """
    count = 1 + max((int(places.max(initial=-1)) for places in sources.values()), default=-1)
    rank_of = np.zeros(count, dtype=np.int64)
    weights = np.zeros((2, count), dtype=np.int64)
    for name, places in sources.items():
        rank_of[places] = tables[name].numbers_of_lanes("rank")
        if name != "syncs":
            np.add.at(weights[int(name == "cpu")], places, tables[name].lengths)
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


def _keys(rows: SortedRows, process: Array, name: str) -> Array:
    """Return process and correlation of each row as one number."""
    correlation = rows.numbers(name)
    if len(correlation) and not correlation.strides[0]:
        return correlation  # of no row
    keys: Array = np.repeat(process * MOST_CORRELATION, rows.lengths)
    keys += correlation
    keys[(correlation < 0) | (correlation >= MOST_CORRELATION)] = NONE
    return keys


def _ends(rows: SortedRows, start: Array, clocks: Mapping[int, Clock], base: int) -> Array:
    ends = _align(rows, "end_ns", clocks)
    ends -= base
    ends -= start
    np.clip(ends, 0, LONGEST_NS, out=ends)
    ends += start
    return ends


def _gpu_rows(rows: SortedRows, process: Array, start: Array, clocks: Mapping[int, Clock], base: int) -> GpuRows:
    name, names = rows.codes("name")
    row_class, classes = rows.codes("class")
    collective, collectives = rows.codes("collective")
    return GpuRows(
        lane=np.repeat(np.arange(len(process), dtype=np.int32), rows.lengths),
        rank_of_lane=rows.numbers_of_lanes("rank"),
        pid_of_lane=rows.numbers_of_lanes("pid"),
        process_of_lane=process,
        start=start,
        end=_ends(rows, start, clocks, base),
        key=_keys(rows, process, "correlation"),
        name=name,
        names=names,
        device_of_lane=rows.numbers_of_lanes("device"),
        stream_of_lane=rows.numbers_of_lanes("stream"),
        classes=classes,
        row_class=row_class,
        collectives=collectives,
        collective=collective,
    )


def _cpu_rows(rows: SortedRows, process: Array, start: Array, clocks: Mapping[int, Clock], base: int) -> CpuRows:
    name, names = rows.codes("name")
    kind, kinds = rows.codes("kind")
    return CpuRows(
        lane=np.repeat(np.arange(len(process), dtype=np.int32), rows.lengths),
        rank_of_lane=rows.numbers_of_lanes("rank"),
        pid_of_lane=rows.numbers_of_lanes("pid"),
        process_of_lane=process,
        start=start,
        end=_ends(rows, start, clocks, base),
        key=_keys(rows, process, "correlation"),
        name=name,
        names=names,
        tid_of_lane=rows.numbers_of_lanes("tid"),
        kind=kind,
        kinds=kinds,
        sequence=rows.numbers("sequence_number"),
        forward_tid=rows.numbers("forward_tid"),
    )


def _syncs(rows: SortedRows, process: Array, start: Array) -> Syncs:
    kind, kinds = rows.codes("kind")
    return Syncs(
        process=np.repeat(process, rows.lengths),
        device=rows.numbers("device"),
        stream=rows.numbers("stream"),
        kind=kind,
        kinds=kinds,
        start=start,
        key=_keys(rows, process, "correlation"),
        awaited_stream=rows.numbers("waits_for_stream"),
        awaited_key=_keys(rows, process, "waits_for_correlation"),
    )
