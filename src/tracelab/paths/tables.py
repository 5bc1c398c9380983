"""Compute the tables of critical paths from the rows of one run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.allocator import return_freed_memory
from tracelab.paths.clocks import refuse_clocks
from tracelab.paths.columns import (
    NONE,
    Array,
    boolean_column,
    narrow_column,
    nullable_column,
    number_column,
    text_column,
)
from tracelab.paths.graph import Graph
from tracelab.paths.nodes import CAUSES
from tracelab.paths.packing import read_graph
from tracelab.paths.recording import CpuRows, Relations
from tracelab.paths.scope import find_scope_rows, read_scope
from tracelab.paths.unexplained import UnexplainedTime, measure_unexplained
from tracelab.paths.walk import Path, classify, path_classes
from tracelab.paths.windows import find_windows, walk_windows, window_ns

Params = Mapping[str, str | int | float | bool | None]


def compute_paths(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `path_rows` and `path_runs`: the critical path of a run, or of a step or scope of it."""
    graph = read_graph(relations, check)
    step, scope = None if params["step"] is None else int(params["step"]), read_scope(relations)
    windows = find_windows(graph, relations, step, scope, check).of(graph)
    if not windows:
        return {}
    length_ns, chosen, names = window_ns(windows), find_scope_rows(graph, relations, scope), path_classes(graph)
    is_unknown = np.array([name == "unknown" for name in names], dtype=bool)
    return_freed_memory()
    describe, parts = _RowTable(graph, windows[0].start, step).describe, []
    unknown_ns, late_ns, unexplained, number = 0, 0, UnexplainedTime(0, 0), 1
    late_rank: int | None = None
    for path in walk_windows(graph, windows, check):
        check()
        classes = classify(graph, path)
        rows = describe(path, classes, number)
        parts.append(rows if chosen is None else rows.filter(boolean_column(chosen.on_path(graph, path))))
        if number == 1 and (late_ns := unrecorded_ns(graph, path, is_unknown=bool(is_unknown[classes[0]]))):
            late_rank = int(graph.ranks(path.node[:1])[0])
        unknown_ns += int((path.end - path.start)[is_unknown[classes]].sum())
        unexplained += measure_unexplained(graph, path, classes)
        number += rows.num_rows
        last_rank = int(graph.ranks(path.node[-1:])[0])
    runs = pa.table(
        {
            name: nullable_column([value])
            for name, value in {
                "step": step,
                "window_ns": length_ns,
                "span_ns": windows[-1].end - windows[0].start,
                "unknown_ns": unknown_ns,
                "ranks": len(graph.recording.clocks),
                "ranks_left_out": graph.recording.ranks_left_out,
                "clamped": graph.clamped,
                "last_rank": last_rank,
                "late_rank": late_rank,
                "late_ns": late_ns,
                "unexplained_ns": unexplained.total_ns,
            }.items()
        }
        | {
            "unexplained_reason": text_column([unexplained.describe(length_ns)]),
            "clocks_reason": text_column([refuse_clocks(graph, relations)]),
        }
    )
    return {"path_rows": pa.concat_tables(parts, promote_options="permissive"), "path_runs": runs}


def unrecorded_ns(graph: Graph, path: Path, *, is_unknown: bool) -> int:
    """Return how long a path begins with time before the recording of its rank; 0 unless its first class is unknown."""
    if not is_unknown:
        return 0
    rank = int(graph.ranks(path.node[:1])[0])
    return max(0, min(int(path.end[0]), graph.recording.first_start(rank)) - int(path.start[0]))


class _Texts:
    """Texts of which columns are made."""

    def __init__(self, texts: Sequence[str | None]) -> None:
        self._column = text_column(texts)
        self._is_null = np.array([text is None for text in texts], dtype=bool)
        self._kind = np.min_scalar_type(-len(texts))

    def column(self, numbers: Array) -> "pa.Array[Any]":
        """Return a column of the texts of these numbers; -1 is the last text."""
        place = np.where(numbers < 0, len(self._is_null) - 1, numbers).astype(self._kind)
        is_null = self._is_null[place] if self._is_null.any() else None
        return pa.DictionaryArray.from_arrays(number_column(place, is_null), self._column)


class _RowTable:
    """Describes stretches of a path as rows of `path_rows`, their times since `begin`."""

    def __init__(self, graph: Graph, begin: int, step: int | None) -> None:
        self._graph, self._begin, self._step = graph, begin, step
        gpu, cpu, sources = graph.recording.gpu, graph.recording.cpu, graph.recording.sources
        self._ranks = np.array(sorted(graph.recording.clocks))
        self._sources = _Texts([sources.get(rank) for rank in self._ranks.tolist()])
        self._classes, self._causes = _Texts(path_classes(graph)), _Texts(CAUSES)
        self._kinds, self._names = _Texts(("gap", "gpu", "cpu")), _Texts([*gpu.names, *cpu.names])
        self._ops = _Texts(cpu.names)

    def describe(self, path: Path, classes: Array, first: int) -> pa.Table:
        """Return the rows of stretches of known classes, in the narrowest types that hold them; `first` is a number."""
        graph, node, segment = self._graph, path.node, path.segment
        gpu, cpu = graph.recording.gpu, graph.recording.cpu
        is_gpu, ranks = segment < 0, graph.ranks(node)
        gpu_rows, cpu_rows = node[is_gpu] - graph.gpu_from, graph.segments.row[segment[~is_gpu]]
        lane = gpu.lane[gpu_rows]

        def join(of_gpu: Array, of_cpu: Array | int) -> Array:
            column = np.empty(len(node), dtype=np.result_type(of_gpu, np.int32))
            column[is_gpu], column[~is_gpu] = of_gpu, of_cpu
            return column

        cpu_names = _names_of(cpu, cpu_rows) + len(gpu.names)
        ops = _names_of(cpu, graph.nesting.innermost_ops(join(graph.launch_row[gpu_rows], cpu_rows)))
        columns = {
            "number": narrow_column(np.arange(first, first + len(node))),
            "rank": narrow_column(ranks),
            "source": self._sources.column(np.searchsorted(self._ranks, ranks)),
            "at_ns": number_column(path.start - self._begin),
            "dur_ns": narrow_column(path.end - path.start),
            "class": self._classes.column(classes),
            "kind": self._kinds.column(np.where(path.gap > 0, 0, np.where(is_gpu, 1, 2))),
            "name": self._names.column(join(gpu.name[gpu_rows], cpu_names)),
            "op": self._ops.column(ops),
            "device": _nullable(join(gpu.device_of_lane[lane], NONE)),
            "stream": _nullable(join(gpu.stream_of_lane[lane], NONE)),
            "tid": _nullable(join(np.full(1, NONE), cpu.tid_of_lane[graph.segments.thread[segment[~is_gpu]]])),
            "start_ns": number_column(graph.recording.to_own_clocks(ranks, path.start)),
            "cause": self._causes.column(path.cause),
            "step": _repeat(self._step, len(node)),
        }
        return pa.table(columns)


def _repeat(number: int | None, length: int) -> "pa.Array[Any]":
    """Return a column of one number, or of NULL, as a dictionary with one item."""
    place = number_column(np.zeros(length, np.int8), np.full(length, number is None))
    return pa.DictionaryArray.from_arrays(place, number_column(np.array([number or 0])))


def _names_of(cpu: CpuRows, rows: Array) -> Array:
    """Return the number of the name of CPU rows; of -1, no row, that of the last name, which is NULL."""
    none = np.full(len(rows), len(cpu.names) - 1)
    return np.where(rows >= 0, cpu.name[rows], none) if cpu.count else none


def _nullable(values: Array) -> "pa.Array[Any]":
    return narrow_column(values, values == NONE)
