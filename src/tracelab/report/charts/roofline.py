"""Build rooflines for the report's script: kernels as points, ceilings as roofs."""

from collections.abc import Sequence
from typing import Any

from tracelab.output.labels import IDENTITY
from tracelab.plot.labels import join_values, varying_columns
from tracelab.plot.roofline import kernel_points
from tracelab.plot.roofs import Roofs, find_roofs
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, Row, group_rows, run_of_group


def roofline_panels(rows: list[Row], chart: Chart) -> list[dict[str, Any]]:
    """Return a panel per device: kernels by class, and roofs as lines."""
    by = varying_columns(rows, dict.fromkeys(IDENTITY))
    panels = []
    for key, members in group_rows(rows, by).items():
        points = kernel_points(members, chart)
        if points:
            panels.append(
                {
                    "title": join_values(by, key),
                    "run": run_of_group(by, key),
                    "y": [0],
                    "join": "",
                    "log": [True, True],
                    "series": _series(points),
                    "roofs": _roof_lines(find_roofs(members)),
                }
            )
    return panels


def _series(points: Sequence[Row]) -> list[dict[str, Any]]:
    series: dict[str, list[int]] = {}
    for row in points:
        series.setdefault(str(row["class"]).replace("_", " "), []).append(row[AT])
    return [{"name": name, "y": 0, "rows": rows} for name, rows in series.items()]


def _roof_lines(roofs: Roofs) -> dict[str, Any]:
    """Return flat roofs by name in GFLOP/s and slanted ones in GB/s."""
    return {
        "flat": [{"name": name.replace("_", " "), "peak": peak} for name, peak in roofs.arithmetic.items()],
        "slanted": [{"name": name.upper(), "speed": speed} for name, speed in roofs.memory.items()],
    }
