"""Small multiples: rows in panels side by side, so that one look compares them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.header import Chart
from tracelab.names import shortened, visible
from tracelab.plot.labels import LABEL_CELLS, named, varying
from tracelab.plot.room import not_drawn

Row = dict[str, Any]

MOST_PANELS = 12
_NONE = "none"


@dataclass(frozen=True)
class Panel:
    """The rows that share what the chart's `panel` columns hold, and those values in words."""

    title: str
    rows: list[Row]


def panels(rows: Sequence[Row], chart: Chart, most: int = MOST_PANELS) -> tuple[list[Panel], list[str]]:
    """The rows by what differs of the panel's columns, in their own order; and what was left out, or is alike."""
    told = varying(rows, chart.panel)
    same = [name for name in chart.panel if name not in told and rows[0][name] is not None]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in told), []).append(row)
    found = [Panel(_title(key), members) for key, members in groups.items()]
    notes = [named(same, [rows[0][name] for name in same])] if same else []
    notes += not_drawn(min(len(found), most), len(found), "panel")
    return found[:most], [*_sweep(rows), *notes]


def text_of(value: object) -> str:
    """A value that tells rows apart, as a label."""
    return _NONE if value is None else shortened(visible(str(value)), LABEL_CELLS)


def _title(key: tuple[object, ...]) -> str:
    return " · ".join(text_of(value) for value in key if value is not None)


def _sweep(rows: Sequence[Row]) -> list[str]:
    """The sweep, where all rows are of one."""
    sweeps = {row.get("sweep") for row in rows} - {None}
    return [f"sweep {text_of(sweep)}" for sweep in sweeps] if len(sweeps) == 1 else []
