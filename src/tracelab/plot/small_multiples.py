"""Group rows into panels of small multiples."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import IDENTITY, shorten, shorten_distinctly
from tracelab.plot.labels import LABEL_CELLS, drawable, join_values, omission_note, pluralize, varying_columns
from tracelab.query.spec import Chart

Row = dict[str, Any]

MOST_PANELS = 12
SWEEP = "sweep"
_NONE = "none"
_LETTER_INCHES = 0.09  # of a bold letter of a title, on average; few texts are of wider ones


@dataclass(frozen=True)
class Panel:
    """The rows that share values of the chart's `panel` columns, titled with these values."""

    title: str
    rows: list[Row]


def panels(rows: Sequence[Row], chart: Chart, most: int = MOST_PANELS) -> tuple[list[Panel], list[str]]:
    """Group rows by sweep and varying panel columns. Returns panels and notes on omitted or constant values.

    Panels without a value are omitted; of too many, those with the most values remain.

    """
    varying = varying_columns(rows, (SWEEP, *chart.panel))
    same = [name for name in chart.panel if name not in varying and rows[0][name] is not None]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in varying), []).append(row)
    values = {key: sum(row[name] is not None for row in members for name in chart.y) for key, members in groups.items()}
    full = [key for key in groups if values[key]]
    kept = full if len(full) <= most else sorted(full, key=lambda key: -values[key])[:most]
    notes = [join_values(same, [rows[0][name] for name in same])] if same else []
    notes += (
        [f"{len(groups) - len(full)} of {pluralize(len(groups), 'panel')} left out, empty"] if full != [*groups] else []
    )
    notes += omission_note(len(kept), len(full), "panel")
    short = {name: label_values([key[at] for key in full]) for at, name in enumerate(varying)}
    titles = {
        key: [short[name][value] for name, value in zip(varying, key, strict=True) if value is not None] for key in kept
    }
    return [Panel(" · ".join(titles[key]), groups[key]) for key in kept], [*_sweep_note(rows), *notes]


def label_values(values: Sequence[object]) -> dict[object, str]:
    """Label values so that different values have different labels."""
    texts = {value: escape_controls(str(value)) for value in values if value is not None}
    short = shorten_distinctly(texts.values(), LABEL_CELLS)
    return {value: short[text] for value, text in texts.items()} | {None: _NONE}


def wrap_title(title: str, inches: float) -> str:
    """Wrap a panel's title to the panel's width."""
    return "\n".join(map(drawable, textwrap.wrap(title, max(8, int(inches / _LETTER_INCHES)))))


def value_label(value: object) -> str:
    """Label one value."""
    return _NONE if value is None else shorten(escape_controls(str(value)), LABEL_CELLS)


def line_label(chart: Chart, value: object) -> str:
    """Label the line or row of one `by` value; a rank or GPU is named, since its number alone is ambiguous."""
    return join_values([chart.by], [value]) if chart.by in IDENTITY and value is not None else value_label(value)


def _sweep_note(rows: Sequence[Row]) -> list[str]:
    """Return a note on the sweep if all rows are of one."""
    sweeps = {row.get("sweep") for row in rows} - {None}
    return [f"sweep {value_label(sweep)}" for sweep in sweeps] if len(sweeps) == 1 else []
