"""Render a sweep as text: the table of its cells and its progress."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracelab.collect.sweep.matrix import Cell, Sweep
from tracelab.enumerations import RUN_STATUSES

_MINUTE_S, _HOUR_S = 60, 3600


def render_cells(sweep: Sweep, cells: Sequence[Cell], states: Mapping[str, str]) -> str:
    """Return a table with a line per cell: name, varied options, repeat, state."""
    head = ["run", *sweep.varied, "repeat", "state"]
    rows = [
        [
            cell.run,
            *(_text(cell.varied.get(name)) for name in sweep.varied),
            str(cell.settings.repeat),
            states[cell.run],
        ]
        for cell in cells
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )


def count_states(states: Mapping[str, str]) -> str:
    """Return the number of cells by state: 36 cells: 30 ok, 4 oom, 2 not_run."""
    counts = Counter(states.values())
    order = [*RUN_STATUSES, *sorted(set(counts) - set(RUN_STATUSES))]
    counted = ", ".join(f"{counts[name]} {name}" for name in order if counts[name])
    return f"{len(states)} cell{'' if len(states) == 1 else 's'}: {counted or 'none'}"


def format_duration(seconds: float) -> str:
    """Format seconds as s, min or h."""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)}:{int(seconds % _MINUTE_S):02} min"
    return f"{int(seconds // _HOUR_S)}:{int(seconds % _HOUR_S // _MINUTE_S):02} h"


def format_time_left(seconds: Sequence[float], cells: int) -> str:
    """Estimate the remaining time from the mean of the finished cells."""
    return f"; about {format_duration(sum(seconds) / len(seconds) * cells)} left" if seconds and cells else ""


def _text(value: Any) -> str:  # noqa: ANN401  any value that an option holds
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case dict():
            return " ".join(f"{key}={each}" for key, each in value.items())
        case tuple():
            return " ".join(map(str, value))
        case Path():
            return value.name
        case float():
            return f"{value:g}"
    return str(value)
