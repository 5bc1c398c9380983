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
from tracelab.paths.unexplained import measure_unexplained
from tracelab.paths.walk import Path, classify
from tracelab.paths.windows import find_windows, walk_windows, window_ns

Params = Mapping[str, str | int | float | bool | None]


def compute_paths(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `path_rows` and `path_runs`: the critical path of a run, or of a step or scope of it."""
    graph = read_graph(relations, check)
    step, scope = None if params["step"] is None else int(params["step"]), read_scope(relations)
    windows = find_windows(graph, relations, step, scope, check).of(graph)
    if not windows:
        return {}
    length_ns = window_ns(windows)
    return_freed_memory()
    path = walk_windows(graph, windows, check)
    return_freed_memory()
    classes, names = classify(graph, path)
    rows = describe_path(graph, path, (classes, names), windows[0].start).append_column(
        "step", _repeat(step, len(classes))
    )
    chosen = find_scope_rows(graph, relations, scope)
    if chosen is not None:
        rows = rows.filter(boolean_column(chosen.on_path(graph, path)))
    late_ns = unrecorded_ns(graph, path, is_unknown=names[classes[0]] == "unknown")
    unknown = np.array([name == "unknown" for name in names], dtype=bool)[classes]
    unexplained = measure_unexplained(graph, path)
    runs = pa.table(
        {
            name: nullable_column([value])
            for name, value in {
                "step": step,
                "window_ns": length_ns,
                "span_ns": windows[-1].end - windows[0].start,
                "unknown_ns": int((path.end - path.start)[unknown].sum()),
                "ranks": len(graph.recording.clocks),
                "ranks_left_out": graph.recording.ranks_left_out,
                "clamped": graph.clamped,
                "last_rank": int(graph.ranks(path.node[-1:])[0]),
                "late_rank": int(graph.ranks(path.node[:1])[0]) if late_ns else None,
                "late_ns": late_ns,
                "unexplained_ns": unexplained.total_ns,
            }.items()
        }
        | {
            "unexplained_reason": text_column([unexplained.describe(length_ns)]),
            "clocks_reason": text_column([refuse_clocks(graph, relations)]),
        }
    )
    return {"path_rows": rows, "path_runs": runs}


def unrecorded_ns(graph: Graph, path: Path, *, is_unknown: bool) -> int:
    """Return how long a path begins with time before the recording of its rank; 0 unless its first class is unknown."""
    if not is_unknown:
        return 0
    rank = int(graph.ranks(path.node[:1])[0])
    return max(0, min(int(path.end[0]), graph.recording.first_start(rank)) - int(path.start[0]))


def describe_path(graph: Graph, path: Path, classes: tuple[Array, list[str]], begin: int) -> pa.Table:
    """Return the rows of `path_rows`, their times since `begin`, in the narrowest types that hold them."""
    gpu, cpu, first = graph.recording.gpu, graph.recording.cpu, graph.gpu_from
    node, segment, gaps = path.node, path.segment, path.gap > 0
    is_gpu, ranks = segment < 0, graph.ranks(node)
    gpu_rows, cpu_rows = node[is_gpu] - first, graph.segments.row[segment[~is_gpu]]
    lane = gpu.lane[gpu_rows]
    known_ranks = np.unique(ranks)
    sources = [graph.recording.sources.get(rank) for rank in known_ranks.tolist()]

    def join(of_gpu: Array, of_cpu: Array | int) -> Array:
        column = np.empty(len(node), dtype=np.result_type(of_gpu, np.int32))
        column[is_gpu], column[~is_gpu] = of_gpu, of_cpu
        return column

    columns = {
        "number": narrow_column(np.arange(1, len(node) + 1)),
        "rank": narrow_column(ranks),
        "source": _texts(np.searchsorted(known_ranks, ranks), sources),
        "at_ns": number_column(path.start - begin),
        "dur_ns": narrow_column(path.end - path.start),
        "class": _texts(*classes),
        "kind": _texts(np.where(gaps, 0, np.where(is_gpu, 1, 2)), ["gap", "gpu", "cpu"]),
        "name": _texts(join(gpu.name[gpu_rows], _names_of(cpu, cpu_rows) + len(gpu.names)), [*gpu.names, *cpu.names]),
        "op": _texts(
            _names_of(cpu, graph.nesting.innermost_ops(join(graph.launch_row[gpu_rows], cpu_rows))), cpu.names
        ),
        "device": _nullable(join(gpu.device_of_lane[lane], NONE)),
        "stream": _nullable(join(gpu.stream_of_lane[lane], NONE)),
        "tid": _nullable(join(np.full(1, NONE), cpu.tid_of_lane[graph.segments.thread[segment[~is_gpu]]])),
        "start_ns": number_column(graph.recording.to_own_clocks(ranks, path.start)),
        "cause": _texts(path.cause, list(CAUSES)),
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


def _texts(numbers: Array, texts: Sequence[str | None]) -> "pa.Array[Any]":
    """Return a column of texts of these numbers; -1 is the last text."""
    place = np.where(numbers < 0, len(texts) - 1, numbers).astype(np.min_scalar_type(-len(texts)))
    is_null = np.array([text is None for text in texts], dtype=bool)[place]
    return pa.DictionaryArray.from_arrays(number_column(place, is_null), text_column(texts))


def _nullable(values: Array) -> "pa.Array[Any]":
    return narrow_column(values, values == NONE)
