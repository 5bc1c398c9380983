"""Compute what a run would take if rows were shorter, waits fell away or the network were another one."""

import re
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array
from tracelab.paths.graph import Graph, build_graph
from tracelab.paths.recording import Relations
from tracelab.paths.replay import Change, no_change, replay
from tracelab.paths.walk import classify, node_classes, walk_back, whole_window

Params = Mapping[str, str | int | float | bool | None]

LARGEST_ERROR_RATIO = 0.01
"""A replay without a change that misses the recorded window by more proves nothing."""
TRANSFERS = ("communication",)
NOT_COMPUTE = ("communication", "copy", "memset")


def compute_what_if(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `what_if_classes` and `what_if_runs`: times and paths before and after a change."""
    graph = build_graph(relations, check)
    window = whole_window(graph)
    if window.node < 0 or window.end <= 0:
        return {}
    replayed_ns = whole_window(replay(graph, no_change(graph), check)).end
    chosen = choose_nodes(graph, params)
    reason = _refuse(params, chosen, window.end, replayed_ns)
    before = path_totals(graph, check)
    after: Counter[str] = Counter()
    after_ns = None
    if reason is None:
        changed = replay(graph, plan_change(graph, params, chosen), check)
        after_ns = whole_window(changed).end
        after = path_totals(changed, check)
    classes = sorted(before.keys() | after.keys())
    return {
        "what_if_classes": pa.table(
            {
                "class": pa.array(classes, pa.string()),
                "before_ns": [before[name] for name in classes],
                "after_ns": pa.array([after[name] if reason is None else None for name in classes], pa.int64()),
            }
        ),
        "what_if_runs": pa.table(
            {
                "window_ns": [window.end],
                "replayed_ns": [replayed_ns],
                "after_ns": pa.array([after_ns], pa.int64()),
                "changed_rows": [int(chosen.sum())],
                "reason": pa.array([reason], pa.string()),
            }
        ),
    }


def path_totals(graph: Graph, check: Callable[[], None]) -> Counter[str]:
    """Return the time on the critical path by class."""
    path = walk_back(graph, whole_window(graph), check)
    totals: Counter[str] = Counter()
    for name, dur_ns in zip(classify(graph, path), (path.end - path.start).tolist(), strict=True):
        totals[name] += dur_ns
    return totals


def _refuse(params: Params, chosen: Array, window_ns: int, replayed_ns: int) -> str | None:
    """Return why there is no answer, if so."""
    error = abs(replayed_ns - window_ns) / window_ns
    if error > LARGEST_ERROR_RATIO:
        return f"a replay without a change misses the recorded window by {100 * error:.1f} %, over 1 %"
    if params["change"] == "no_waits" and params["of_rank"] is None:
        return "no_waits needs --of-rank: the rank that the others do not wait for"
    if params["change"] not in (None, "no_launch_gaps", "no_waits") and not chosen.any():
        return "no row is of this class, name, op, layer, rank and collective"
    return None


def choose_nodes(graph: Graph, params: Params) -> Array:
    """Return for each node whether all filters choose it."""
    gpu, cpu, first = graph.recording.gpu, graph.recording.cpu, graph.gpu_from
    chosen = np.ones(len(graph.start), dtype=bool)
    classes, names = node_classes(graph)
    if params["class"] is not None:
        wanted = [_is_class(name, place, str(params["class"])) for place, name in enumerate(names)]
        chosen &= np.array(wanted, dtype=bool)[classes]
    if params["change"] in ("ideal_network", "bandwidth") and params["class"] is None:
        chosen &= np.array([name in TRANSFERS for name in names], dtype=bool)[classes]
    if params["of_rank"] is not None:
        chosen &= graph.rank == int(params["of_rank"])
    for name, texts, column in (("kernel", gpu.names, gpu.name), ("collective", gpu.collectives, gpu.collective)):
        if params[name] is not None:
            chosen[:first] = False
            chosen[first:] &= _find(str(params[name]), texts)[column]
    for name, kind in (("op", "op"), ("layer", "range")):
        if params[name] is not None and cpu.count:
            inside = _inside(graph, cpu.of_kind(kind) & _find(str(params[name]), cpu.names)[cpu.name])
            chosen &= inside[graph.launch_row] & (graph.launch_row >= 0)
    return chosen


def _is_class(name: str, place: int, wanted: str) -> bool:
    """Return whether a class is the wanted one; compute is each class of kernels that does not communicate."""
    on_gpu = place >= _FIRST_GPU_CLASS
    return (
        name == wanted or (wanted == "compute" and on_gpu and name not in NOT_COMPUTE) or (wanted == "gpu" and on_gpu)
    )


_FIRST_GPU_CLASS = 5


def _find(pattern: str, texts: list[str | None]) -> Array:
    compiled = re.compile(pattern)
    return np.array([bool(text is not None and compiled.search(text)) for text in texts], dtype=bool)


def _inside(graph: Graph, marked: Array) -> Array:
    """Return for each CPU row whether it is marked or lies in a marked row."""
    parent = graph.segments.parent
    inside, above = marked.copy(), parent.copy()
    while (waiting := np.flatnonzero(above >= 0)).size:
        inside[waiting] |= marked[above[waiting]]
        above[waiting] = parent[above[waiting]]
    return inside


def plan_change(graph: Graph, params: Params, chosen: Array) -> Change:
    """Return the change that the parameters describe."""
    change = no_change(graph)
    factor = float(params["factor"]) if params["factor"] is not None else 1.0
    match params["change"]:
        case "scale":
            factors = np.where(chosen, factor, 1.0)
        case "bandwidth":
            factors = np.where(chosen, 1 / factor, 1.0)
        case "ideal_network":
            factors = np.where(chosen, 0.0, 1.0)
        case "median":
            return Change(change.factor, _medians(graph, chosen))
        case "no_waits":
            return Change(change.factor, change.duration, without_rank=int(params["of_rank"] or 0))
        case "no_launch_gaps":
            return Change(change.factor, change.duration, without_launch_gaps=True)
        case _:
            return change
    return Change(factors, change.duration)


def _medians(graph: Graph, chosen: Array) -> Array:
    """Return the median duration of the peers of the chosen rows of GPUs: rows of the same name that are not chosen.

    Where all rows of a name are chosen, they are each other's peers. Of a collective it is the transfer that counts.
    """
    gpu, first = graph.recording.gpu, graph.gpu_from
    own = np.where(graph.meeting >= 0, graph.end[first:] - graph.entered, graph.end[first:] - graph.start[first:])
    own = np.maximum(own, 0)
    durations = np.full(len(graph.start), NONE)
    mine = chosen[first:]
    order = np.lexsort((own, gpu.name))
    bounds = np.searchsorted(gpu.name[order], np.arange(-1, len(gpu.names) + 1))
    for place in np.unique(gpu.name[mine]).tolist():
        rows = order[bounds[place + 1] : bounds[place + 2]]
        peers = rows[~mine[rows]]
        median = int(np.median(own[peers if len(peers) else rows]))
        durations[rows[mine[rows]] + first] = median
    return durations
