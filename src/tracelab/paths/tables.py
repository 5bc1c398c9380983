"""Compute the tables of critical paths from the rows of one run."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array
from tracelab.paths.graph import CAUSES, Graph, build_graph, first_of
from tracelab.paths.recording import Relations
from tracelab.paths.steps import find_step_marks
from tracelab.paths.walk import Path, Window, classify, walk_back, whole_window

Params = Mapping[str, str | int | float | bool | None]


def compute_paths(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `path_rows` and `path_runs`: the critical path of a run, or of one of its steps."""
    graph = build_graph(relations, check)
    step = params["step"]
    window = whole_window(graph) if step is None else find_step_marks(graph, relations, int(step)).window(graph)
    if window.node < 0 or window.end <= window.start:
        return {}
    path = walk_back(graph, window, check)
    rows = describe_path(graph, path, window).append_column("step", _repeat(step, len(path.node)))
    late_ns = unrecorded_ns(graph, path)
    unknown = np.array([each == "unknown" for each in rows.column("class").to_pylist()], dtype=bool)
    runs = pa.table(
        {
            "step": _repeat(step, 1),
            "window_ns": [window.end - window.start],
            "unknown_ns": [int((path.end - path.start)[unknown].sum())],
            "ranks": [len(graph.recording.clocks)],
            "ranks_left_out": [graph.recording.ranks_left_out],
            "clamped": [graph.clamped],
            "last_rank": [int(graph.rank[path.node[-1]])],
            "late_rank": pa.array([int(graph.rank[path.node[0]]) if late_ns else None], pa.int32()),
            "late_ns": [late_ns],
        }
    )
    return {"path_rows": rows, "path_runs": runs}


def unrecorded_ns(graph: Graph, path: Path) -> int:
    """Return how long a path begins with time before the recording of its rank."""
    if classify(graph, path)[0] != "unknown":
        return 0
    rank = graph.rank[path.node[0]]
    starts = [rows.start[rows.rank == rank] for rows in (graph.recording.gpu, graph.recording.cpu)]
    first = min(int(each.min()) for each in starts if len(each))
    return max(0, min(int(path.end[0]), first) - int(path.start[0]))


def _repeat(value: object, count: int) -> "pa.Array[Any]":
    return pa.array([value] * count, pa.int64())


def describe_path(graph: Graph, path: Path, window: Window) -> pa.Table:
    """Return the rows of `path_rows`."""
    gpu, cpu, first = graph.recording.gpu, graph.recording.cpu, graph.gpu_from
    node, gaps = path.node, path.gap > 0
    is_gpu, row, ranks = node >= first, graph.row[node], graph.rank[node]
    tid_of_thread = first_of(cpu.lane, cpu.tid)
    tid = np.full(len(node), NONE)
    tid[~is_gpu] = tid_of_thread[graph.segments.thread[node[~is_gpu]]]
    gpu_rows = row[is_gpu]
    op = graph.op[node]
    columns: dict[str, object] = {
        "number": np.arange(1, len(node) + 1),
        "rank": ranks,
        "source": [graph.recording.sources.get(rank) for rank in ranks.tolist()],
        "at_ns": path.start - window.start,
        "dur_ns": path.end - path.start,
        "class": classify(graph, path),
        "kind": [("gap" if gap else "gpu" if on_gpu else "cpu") for gap, on_gpu in zip(gaps, is_gpu, strict=True)],
        "name": [
            gpu.names[gpu.name[each]] if on_gpu else cpu.names[cpu.name[each]] if each >= 0 else None
            for each, on_gpu in zip(row.tolist(), is_gpu.tolist(), strict=True)
        ],
        "op": [cpu.names[cpu.name[each]] if each >= 0 else None for each in op.tolist()],
        "device": _nullable(_scatter(is_gpu, gpu.device[gpu_rows])),
        "stream": _nullable(_scatter(is_gpu, gpu.stream[gpu_rows])),
        "tid": _nullable(tid),
        "start_ns": graph.recording.to_own_clocks(ranks, path.start),
        "cause": [CAUSES[each] for each in path.cause.tolist()],
    }
    return pa.table(columns)


def _scatter(some: Array, values: Array) -> Array:
    column = np.full(len(some), NONE)
    column[some] = values
    return column


def _nullable(values: Array) -> "pa.Array[Any]":
    return pa.array(values, pa.int64(), mask=values == NONE)
