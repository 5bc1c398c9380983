"""Place labels beside what they name, without overlaps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patheffects import AbstractPathEffect, withStroke
from matplotlib.text import Text
from matplotlib.transforms import Bbox

HALO: list[AbstractPathEffect] = [withStroke(linewidth=2.2, foreground="white")]
"""White outline that keeps text readable across a line."""

_RINGS = (5, 12, 20, 30, 42, 56, 72, 90, 110)
ANGLES = (35, -35, 145, -145, 90, -90, 0, 180, 65, -65, 115, -115, 15, -15, 165, -165, 50, -50, 130, -130)
_PIECE = 6  # pixels of a line per box
_NEAR = 12  # points; a label further out gets a line to what it names


@dataclass(frozen=True)
class Label:
    """A text and the point that it names.

    `reach` is the radius of the mark at the point, in points; `angles` are the allowed directions of the text.

    """

    text: str
    x: float
    y: float
    reach: float = 0.0
    angles: tuple[int, ...] = ANGLES


def place(axes: Axes, labels: Sequence[Label], marks: Sequence[Label], lines: Sequence[Bbox]) -> None:
    """Write each label where it covers no label, mark or line; omit labels that fit nowhere.

    A thin leader connects a distant label with its point. Leaders may cross lines, but no label or mark. A label
    without one is nearer to its own mark than to any other.

    """
    inside = axes.get_window_extent()
    boxes = {mark: mark_box(axes, mark) for mark in marks}
    placed_boxes: list[Bbox] = []
    for label in labels:
        text = axes.annotate(
            label.text, (label.x, label.y), (0, 0), textcoords="offset points", fontsize=7, color="#222222", zorder=6
        )
        text.set_path_effects(HALO)
        others = [*placed_boxes, *(box for mark, box in boxes.items() if (mark.x, mark.y) != (label.x, label.y))]
        for box in _candidate_boxes(text, label):
            lead = _leader_boxes(axes, label, box)
            obstacles = [
                *others,
                *lines,
                *(box for mark, box in boxes.items() if (mark.x, mark.y) == (label.x, label.y)),
            ]
            is_clear = bool(lead) or not _is_nearer_to_another(axes, label, box, marks)
            if is_clear and _fits(box, inside, obstacles) and not any(piece.count_overlaps(others) for piece in lead):
                placed_boxes += [box, *lead]
                if lead:
                    _draw_leader(axes, label, box)
                break
        else:
            text.remove()


def mark_box(axes: Axes, mark: Label) -> Bbox:
    """Return the bounding box around a mark, in pixels."""
    x, y = axes.transData.transform((mark.x, mark.y))
    reach = mark.reach * axes.figure.figure.dpi / 72
    return Bbox([[x - reach, y - reach], [x + reach, y + reach]])


def line_boxes(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> list[Bbox]:
    """Return boxes along a straight line, in pixels."""
    (x0, y0), (x1, y1) = axes.transData.transform([start, end])
    pieces = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / _PIECE))
    steps = [(x0 + (x1 - x0) * at / pieces, y0 + (y1 - y0) * at / pieces) for at in range(pieces + 1)]
    return [Bbox([[x - 1, y - 1], [x + 1, y + 1]]) for x, y in steps]


def _candidate_boxes(text: Text, label: Label) -> Iterator[Bbox]:
    """Move the text outward at each angle, and yield its box there."""
    for radius in _RINGS:
        for angle in label.angles:
            x = math.cos(math.radians(angle)) * (radius + label.reach)
            y = math.sin(math.radians(angle)) * (radius + label.reach)
            text.set_position((x, y))
            text.set_horizontalalignment("center" if abs(x) < 1 else "left" if x > 0 else "right")
            text.set_verticalalignment("center" if abs(y) < 1 else "bottom" if y > 0 else "top")
            yield text.get_window_extent().padded(1.5)


def _fits(box: Bbox, inside: Bbox, obstacles: Sequence[Bbox]) -> bool:
    return bool(
        inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
    ) and not box.count_overlaps(obstacles)


def _is_nearer_to_another(axes: Axes, label: Label, box: Bbox, marks: Sequence[Label]) -> bool:
    def distance(mark: Label) -> float:
        x, y = axes.transData.transform((mark.x, mark.y))
        near = _nearest(box, x, y)
        return math.hypot(near[0] - x, near[1] - y) - mark.reach * axes.figure.figure.dpi / 72

    own = distance(label)
    return any(distance(mark) < own for mark in marks if (mark.x, mark.y) != (label.x, label.y))


def _leader_boxes(axes: Axes, label: Label, box: Bbox) -> list[Bbox]:
    """Return the boxes of the leader from a point to its label; empty for a label beside the point."""
    x, y = axes.transData.transform((label.x, label.y))
    near = _nearest(box, x, y)
    if math.hypot(near[0] - x, near[1] - y) <= (label.reach + _NEAR) * axes.figure.figure.dpi / 72:
        return []
    end = axes.transData.inverted().transform(near)
    return line_boxes(axes, (label.x, label.y), (end[0], end[1]))[1:-1]


def _draw_leader(axes: Axes, label: Label, box: Bbox) -> None:
    x, y = axes.transData.transform((label.x, label.y))
    end = axes.transData.inverted().transform(_nearest(box, x, y))
    axes.plot([label.x, end[0]], [label.y, end[1]], color="#777777", linewidth=0.6, zorder=3.5)


def _nearest(box: Bbox, x: float, y: float) -> tuple[float, float]:
    return min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1)
