"""A roofline for the script that draws it: the kernels as points, and the roofs that the answer's ceilings make."""

from collections.abc import Sequence
from typing import Any

from tracelab.plot.labels import IDENTITY, join_values, varying_columns
from tracelab.plot.roofline import kernel_points
from tracelab.plot.roofs import Roofs, find_roofs
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, Row, grouped, run_of


def roofline(rows: list[Row], drawn: Chart) -> list[dict[str, Any]]:
    """A panel for each device: its kernels by class, and its roofs as lines."""
    by = varying_columns(rows, dict.fromkeys(IDENTITY))
    panels = []
    for key, members in grouped(rows, by).items():
        points = kernel_points(members, drawn)
        if points:
            panels.append(
                {
                    "title": join_values(by, key),
                    "run": run_of(by, key),
                    "y": [0],
                    "join": "",
                    "log": [True, True],
                    "series": _series(points),
                    "roofs": _roofs(find_roofs(members)),
                }
            )
    return panels


def _series(points: Sequence[Row]) -> list[dict[str, Any]]:
    series: dict[str, list[int]] = {}
    for row in points:
        series.setdefault(str(row["class"]).replace("_", " "), []).append(row[AT])
    return [{"name": name, "y": 0, "rows": rows} for name, rows in series.items()]


def _roofs(roofs: Roofs) -> dict[str, Any]:
    """Flat roofs by name in GFLOP/s, slanted ones in GB/s."""
    return {
        "flat": [{"name": name.replace("_", " "), "peak": peak} for name, peak in roofs.arithmetic.items()],
        "slanted": [{"name": name.upper(), "speed": speed} for name, speed in roofs.memory.items()],
    }
