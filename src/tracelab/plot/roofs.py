"""Draw the roofs of a roofline: ceilings of memory and arithmetic, with their names."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from tracelab.output.labels import format_significant
from tracelab.plot.label_placement import HALO, Label, line_boxes, mark_box
from tracelab.plot.labels import is_finite

Row = dict[str, Any]

DASHED = (0, (5, 3))
INK = "#333333"
TERA = 1e3  # of the giga that the columns have
_DECADES = 7  # left of the rightmost ridge: a kernel further out would squeeze all others
_THINNEST = 0.005
_RIDGE_ANGLES = (160, 145, 130, -35, -50, -20, -65, -90, 115, 90, 180)  # off the roofs
_NAME_HEIGHT = 20  # points
_NAME_LETTERS = 9
_NAME_PLACES = (0.05, 0.12, 0.21, 0.3, 0.4, 0.5, 0.6, 0.7)  # of a diagonal's way up
_SOLID: dict[str, Any] = {"color": INK, "linewidth": 1.8}
_THEORETICAL: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": DASHED}
_LEVELS = (
    ("l1", "L1", "ceiling_l1_gb_per_s", {"color": "#8C8C8C", "linewidth": 1.0}),
    ("l2", "L2", "ceiling_l2_gb_per_s", {"color": "#8C8C8C", "linewidth": 1.0}),
    ("dram", "DRAM", "ceiling_gb_per_s", {"color": INK, "linewidth": 1.8}),
)


@dataclass(frozen=True)
class Roofs:
    """Ceilings of a panel: GFLOP/s by precision, GB/s by memory level, and theoretical ones where they differ."""

    arithmetic: dict[str, float]
    memory: dict[str, float]
    theoretical: dict[str, float]
    theoretical_memory: float | None

    def ridges(self) -> dict[str, float]:
        """Return the ridge point of each precision: above this intensity, arithmetic is the lower ceiling."""
        if "dram" not in self.memory:
            return {}
        return {name: peak / self.memory["dram"] for name, peak in self.arithmetic.items()}

    def peaks(self) -> list[float]:
        """Return all flat roofs."""
        return [*self.arithmetic.values(), *self.theoretical.values()]


@dataclass(frozen=True)
class View:
    """Limits of a panel in FLOP/byte and GFLOP/s; `unit` is the number of GFLOP/s per unit of the axis."""

    left: float
    right: float
    low: float
    high: float
    unit: float


def find_roofs(rows: Sequence[Row]) -> Roofs:
    """Return the highest ceiling of each kind: those in a report vary slightly with the clock of each launch."""
    arithmetic: dict[str, float] = {}
    theoretical: dict[str, float] = {}
    for row in rows:
        if row["precision"] != "all" and row["flop"]:
            for ceilings, name in ((arithmetic, "ceiling_gflop_per_s"), (theoretical, "theoretical_gflop_per_s")):
                if is_positive(row[name]):
                    ceilings[row["precision"]] = max(ceilings.get(row["precision"], 0.0), row[name])
    memory = {level: max(speeds) for level, _, column, _ in _LEVELS if (speeds := _speeds(rows, column))}
    bandwidth = max(_speeds(rows, "theoretical_gb_per_s"), default=None)
    return Roofs(
        arithmetic,
        memory,
        {name: peak for name, peak in theoretical.items() if _differs(peak, arithmetic.get(name))},
        bandwidth if bandwidth is not None and _differs(bandwidth, memory.get("dram")) else None,
    )


def is_positive(value: object) -> bool:
    """Return whether a value fits on a logarithmic axis."""
    return isinstance(value, int | float) and is_finite(value) and value > 0


def _speeds(rows: Sequence[Row], column: str) -> list[float]:
    return [row[column] for row in rows if is_positive(row[column])]


def _differs(one: float, other: float | None) -> bool:
    return other is None or abs(one / other - 1) > _THINNEST


def fit_view(points: Sequence[tuple[float, float]], roofs: Roofs) -> View:
    """Return limits that include the points and the ridges."""
    xs, ys = zip(*points, strict=True)
    ridges = list(roofs.ridges().values())
    corners = [max(roofs.peaks()) / speed for speed in roofs.memory.values()] if roofs.peaks() else []
    right = max([*(x * 2.5 for x in xs), *(ridge * 12 for ridge in ridges)])
    left = max(min([*xs, *ridges, *corners]) / 2.5, max(ridges, default=0.0) / 10**_DECADES)
    high = max([*ys, *roofs.peaks()]) * 2.5
    low = min(y for x, y in points if x >= left or x == max(xs)) / 2.5
    return View(left, right, low, high, TERA if high > 6 * TERA else 1.0)


def draw_roofs(axes: Axes, roofs: Roofs, view: View, marks: Sequence[Label]) -> list[Bbox]:
    """Draw measured ceilings solid, theoretical ones dashed, with names; return their boxes in pixels."""
    obstacles = [mark_box(axes, mark) for mark in marks]
    top = max(roofs.arithmetic.values(), default=max(roofs.peaks(), default=view.high))
    boxes = []
    for level, name, _, style in _LEVELS:
        if level in roofs.memory:
            speed = roofs.memory[level]
            boxes += _diagonal(axes, speed, top, view, style)
            text = f"{name} {_rate(speed, 'B/s')}"
            label_boxes = _name_along(axes, text, (speed, top), view, obstacles, is_below=level == "dram")
            obstacles += label_boxes
            boxes += label_boxes
    if roofs.theoretical_memory is not None:
        boxes += _diagonal(
            axes, roofs.theoretical_memory, max(roofs.theoretical.values(), default=top), view, _THEORETICAL
        )
    steepest = max(roofs.memory.values(), default=None)
    for peak in roofs.arithmetic.values():
        boxes += _flat(axes, view.left if steepest is None else peak / steepest, peak, view, _SOLID)
    for peak in roofs.theoretical.values():
        start = view.left if steepest is None else peak / (roofs.theoretical_memory or steepest)
        boxes += _flat(axes, start, peak, view, _THEORETICAL)
    _name_at_ends(axes, roofs.theoretical | roofs.arithmetic, view)
    return boxes


def draw_ridges(axes: Axes, roofs: Roofs, view: View) -> list[Label]:
    """Mark the ridge points; return their labels."""
    labels = []
    for name, ridge in roofs.ridges().items():
        y = roofs.arithmetic[name] / view.unit
        axes.plot([ridge], [y], "o", color="white", markeredgecolor=INK, markersize=4.5, zorder=3)
        labels.append(Label(f"ridge {format_significant(ridge, digits=3)}", ridge, y, 2.5, _RIDGE_ANGLES))
    return labels


def _diagonal(axes: Axes, speed: float, top: float, view: View, style: dict[str, Any]) -> list[Bbox]:
    start, end = (view.left, view.left * speed / view.unit), (top / speed, top / view.unit)
    axes.plot([start[0], end[0]], [start[1], end[1]], zorder=2, **style)
    return line_boxes(axes, start, end)


def _flat(axes: Axes, start: float, peak: float, view: View, style: dict[str, Any]) -> list[Bbox]:
    axes.plot([start, view.right], [peak / view.unit] * 2, zorder=2, **style)
    return line_boxes(axes, (start, peak / view.unit), (view.right, peak / view.unit))


def _name_along(
    axes: Axes, text: str, speed_and_top: tuple[float, float], view: View, obstacles: Sequence[Bbox], *, is_below: bool
) -> list[Bbox]:
    """Write a name along a diagonal, near its lower left end or further up if that is occupied; return its boxes."""
    speed, top = speed_and_top
    start = max(view.left, view.low / speed)
    if start >= top / speed:  # the diagonal is out of sight
        return []
    ends = axes.transData.transform([(start, start * speed / view.unit), (start * 10, start * 10 * speed / view.unit)])
    angle = math.degrees(math.atan2(ends[1][1] - ends[0][1], ends[1][0] - ends[0][0]))
    style: dict[str, Any] = {"rotation": angle, "rotation_mode": "anchor", "fontsize": 7, "color": INK, "zorder": 5}
    label = axes.annotate(text, (start, start * speed / view.unit), (0, 0), textcoords="offset points", **style)
    label.set_path_effects(HALO)

    def room(place: tuple[float, bool]) -> list[Bbox]:
        share, below = place
        x = start * (min(top / speed, view.right) / start) ** share
        label.xy = (x, x * speed / view.unit)
        label.set_position((3, -4) if below else (-3, 4))
        label.set_verticalalignment("top" if below else "bottom")
        return _slanted(axes, label.get_window_extent(), angle)

    places = [(share, below) for share in _NAME_PLACES for below in (is_below, not is_below)]
    freest = min(places, key=lambda place: sum(box.count_overlaps(obstacles) for box in room(place)))
    return room(freest)


def _slanted(axes: Axes, box: Bbox, angle: float) -> list[Bbox]:
    """Return the boxes of a slanted text; much of its bounding box is free."""
    height = axes.figure.figure.dpi / 72 * _NAME_LETTERS
    run, rise = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x0, x1 = box.x0 + height / 2 * rise, box.x1 - height / 2 * rise
    y0, y1 = box.y0 + height / 2 * run, box.y1 - height / 2 * run
    steps = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / height))
    middles = [(x0 + (x1 - x0) * at / steps, y0 + (y1 - y0) * at / steps) for at in range(steps + 1)]
    return [Bbox([[x - height / 2, y - height / 2], [x + height / 2, y + height / 2]]) for x, y in middles]


def _name_at_ends(axes: Axes, peaks: dict[str, float], view: View) -> None:
    """Write the names of the flat roofs beside the panel, in two lines each, separated where roofs are close."""
    lowest = math.inf
    for name, peak in sorted(peaks.items(), key=lambda item: -item[1]):
        y = math.log(peak / view.low) / math.log(view.high / view.low)
        y = min(y, lowest - _NAME_HEIGHT / (axes.get_window_extent().height * 72 / axes.figure.figure.dpi))
        lowest = y
        text = f"{name.replace('_', ' ')}\n{_rate(peak, 'FLOP/s')}"
        axes.annotate(
            text,
            (1, y),
            (4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=7,
            color=INK,
            va="center",
        )


def _rate(giga: float, unit: str) -> str:
    size, prefix = (TERA, "T") if giga >= TERA else (1.0, "G")
    return f"{format_significant(giga / size, digits=3)} {prefix}{unit}"
