"""Compute what a run gains by each of several changes, by replays of one graph."""

import json
from collections.abc import Callable, Iterable

import pyarrow as pa

from tracelab.paths.chosen_rows import NO_FILTERS, Params
from tracelab.paths.columns import nullable_column, text_column
from tracelab.paths.recording import Relations
from tracelab.paths.what_if import Replays

Change = tuple[tuple[str, str | float], ...]
"""The parameters of the query what_if that make a change, with their values."""


def write_changes(changes: Iterable[Change]) -> str:
    """Return the value of the parameter `changes`, as JSON."""
    return json.dumps([dict(change) for change in changes])


def compute_gains(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return for each change, in order, how much shorter the run is, or why not; as the query what_if does."""
    replays = Replays(relations, None, check)
    if not replays.window_ns:
        return {}
    answers = [replays.answer({**NO_FILTERS, **change}) for change in json.loads(str(params["changes"]))]
    return {
        "gains": pa.table(
            {
                "window_ns": nullable_column([replays.window_ns for _ in answers]),
                "gain_ns": nullable_column(
                    [None if each.window_ns is None else replays.window_ns - each.window_ns for each in answers]
                ),
                "open_ns": nullable_column([each.open_ns for each in answers]),
                "reason": text_column([each.reason for each in answers]),
                "ranks_left_out": nullable_column([replays.graph.recording.ranks_left_out for _ in answers]),
            }
        )
    }
