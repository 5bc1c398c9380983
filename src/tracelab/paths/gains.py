"""Compute what a run gains by each of several changes, by replays of one graph."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from tracelab.paths.columns import nullable_column, text_column
from tracelab.paths.recording import Relations
from tracelab.paths.what_if import NO_FILTERS, Params, Replays

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
    replays = Replays(relations, None, check)
    if not replays.window_ns:
        return {}
    changes = list(_parse_changes(str(params["changes"])))
    answers = [replays.answer({**NO_FILTERS, "change": change, "of_rank": rank}) for change, rank in changes]
    return {
        "gains": pa.table(
            {
                "change": text_column([change for change, _ in changes]),
                "of_rank": nullable_column([rank for _, rank in changes]),
                "window_ns": nullable_column([replays.window_ns for _ in changes]),
                "gain_ns": nullable_column(
                    [None if each.window_ns is None else replays.window_ns - each.window_ns for each in answers]
                ),
                "reason": text_column([each.reason for each in answers]),
                "ranks_left_out": nullable_column([replays.graph.recording.ranks_left_out for _ in changes]),
            }
        )
    }
