"""A roofline for the script that draws it: the kernels as points, and the roofs that the answer's ceilings make."""

from collections.abc import Sequence
from typing import Any

from tracelab.header import Chart
from tracelab.plot.labels import IDENTITY, named, varying
from tracelab.plot.roofline import points_of
from tracelab.plot.roofs import Roofs, roofs_of

Row = dict[str, Any]

_AT = "\0row"


def roofline(rows: list[Row], drawn: Chart) -> list[dict[str, Any]]:
    """A panel for each device: its kernels by class, and its roofs as lines."""
    by = varying(rows, dict.fromkeys(IDENTITY))
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    panels = []
    for key, members in groups.items():
        points = points_of(members, drawn)
        if points:
            panels.append(
                {
                    "title": named(by, key),
                    "run": dict(zip(by, key, strict=True)).get("run"),
                    "y": [0],
                    "join": "",
                    "log": [True, True],
                    "series": _series(points),
                    "roofs": _roofs(roofs_of(members)),
                }
            )
    return panels


def _series(points: Sequence[Row]) -> list[dict[str, Any]]:
    series: dict[str, list[int]] = {}
    for row in points:
        series.setdefault(str(row["class"]).replace("_", " "), []).append(row[_AT])
    return [{"name": name, "y": 0, "rows": rows} for name, rows in series.items()]


def _roofs(roofs: Roofs) -> dict[str, Any]:
    """Flat roofs by name in GFLOP/s, slanted ones in GB/s."""
    return {
        "flat": [{"name": name.replace("_", " "), "peak": peak} for name, peak in roofs.arithmetic.items()],
        "slanted": [{"name": name.upper(), "speed": speed} for name, speed in roofs.memory.items()],
    }
