"""Compute what a run gains by each of several changes, by replays of one graph."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from tracelab.paths.clocks import refuse_clocks
from tracelab.paths.columns import nullable_column, return_freed_memory, text_column
from tracelab.paths.packing import read_graph
from tracelab.paths.recording import Relations
from tracelab.paths.replay import Replay
from tracelab.paths.unexplained import measure_unreplaced, measure_unreplayable, refuse_changed
from tracelab.paths.walk import find_path, whole_window
from tracelab.paths.what_if import NO_FILTERS, Params, choose_rows, plan_change, refuse

Change = tuple[str, int | None]
"""A change of the query what_if, and the rank that it is about."""


def write_changes(changes: Iterable[Change]) -> str:
    """Return the value of the parameter `changes`: `on_time 2, ideal_network`."""
    return ", ".join(change if rank is None else f"{change} {rank}" for change, rank in changes)


def _parse_changes(text: str) -> Iterator[Change]:
    for each in text.split(", "):
        change, _, rank = each.partition(" ")
        yield change, int(rank) if rank else None


def compute_gains(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return for each change how much shorter the run is, or why that is not known; as the query what_if does."""
    graph = read_graph(relations, check)
    return_freed_memory()
    window = whole_window(graph)
    if window.node < 0 or window.end <= window.start:
        return {}
    window_ns = window.end - window.start
    unchanged = Replay(graph)
    replayed = window if unchanged.is_exact() else whole_window(unchanged.run(check))
    path = find_path(graph, window, check)
    unexplained, kept_ns = measure_unreplayable(graph, path), measure_unreplaced(graph, path)
    clocks_reason = refuse_clocks(graph, relations)
    changes = list(_parse_changes(str(params["changes"])))
    gains: list[int | None] = []
    reasons = []
    for change, rank in changes:
        values = {**NO_FILTERS, "change": change, "of_rank": rank}
        chosen = choose_rows(graph, relations, values)
        reasons.append(
            clocks_reason or refuse(values, relations, chosen, window_ns, replayed.end - replayed.start, unexplained)
        )
        gains.append(None)
        if reasons[-1] is None:
            changed = unchanged.with_change(plan_change(graph, values, chosen)).run(check)
            moved = whole_window(changed)
            moved_ns = moved.end - moved.start
            reasons[-1] = refuse_changed(
                kept_ns, measure_unreplaced(changed, find_path(changed, moved, check)), moved_ns
            )
            gains[-1] = window_ns - moved_ns if reasons[-1] is None else None
    return {
        "gains": pa.table(
            {
                "change": text_column([change for change, _ in changes]),
                "of_rank": nullable_column([rank for _, rank in changes]),
                "window_ns": nullable_column([window_ns for _ in changes]),
                "gain_ns": nullable_column(gains),
                "reason": text_column(reasons),
                "ranks_left_out": nullable_column([graph.recording.ranks_left_out for _ in changes]),
            }
        )
    }
