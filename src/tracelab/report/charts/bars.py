"""Bars for the script that draws them: the longest of each process, and what the others are together."""

from collections.abc import Sequence
from itertools import count

from tracelab.output.labels import escape_controls, shorten_distinctly
from tracelab.output.units import Quantity, column_from_title, column_quantity
from tracelab.plot.axis import group_by_unit, is_additive, is_finite, known_sum
from tracelab.plot.bars import IN_TIME
from tracelab.plot.labels import IDENTITY, column_words, join_values, pluralize, row_labels
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, MOST_BEYOND, Panel, Row, fair, grouped, run_of

MOST_BARS = 15
"""Of a panel whose bars stand by length; what has an order of its own is drawn whole, and scrolled."""
_FEWEST_BARS = 5
_BARS_IN_ALL = 600
_RUN_CELLS = 22


def lengths(rows: list[Row], shown: int, drawn: Chart, told: Sequence[str]) -> list[Panel]:
    """A panel for each process and unit; bars that tell of processes themselves stand together where they compare.

    What a panel has no room for is one bar, where it adds up; that bar is a row more, behind all others.
    """
    is_ratio = all(column_quantity(column_from_title(name)) is Quantity.RATIO for name in drawn.y)
    over_identity = drawn.x in IDENTITY
    together = over_identity and (is_ratio or drawn.kind == "stacked")
    by = [] if together else [name for name in told if not over_identity or name == drawn.by]
    label = [name for name in IDENTITY if name not in by and (name in told or name == drawn.x)]
    is_whole = over_identity or drawn.x in IN_TIME
    groups = grouped(rows, by)
    sizes = [len(members) for members in groups.values()]
    most = fair(sizes, shown + MOST_BEYOND)
    most = most if is_whole else min(most, _most_bars(sizes))
    places = count(max(row[AT] for row in rows) + 1)
    panels = []
    for key, members in groups.items():
        ordered = members if is_whole else sorted(members, key=lambda row: -_length(row, drawn))
        bars, rest = ordered[:most], ordered[most:]
        texts = _identities(bars, label) if over_identity else row_labels(bars, [drawn.x])
        panel = {"title": join_values(by, key), "run": run_of(by, key)}
        if rest and not is_whole and _adds_up(rest, drawn):  # processes and moments are compared, not added up
            texts = [*texts, f"others ({pluralize(len(rest), column_words(drawn.x))})"]
            rows.append(_sums(rest, drawn) | {AT: next(places), "run": panel["run"]})
            bars.append(rows[-1])
            panel["others"] = rows[-1][AT]
        elif rest:
            panel["note"] = _not_drawn(rest, len(members), drawn)
        panels += _by_unit(panel | {"labels": texts, "rows": [row[AT] for row in bars]}, bars, drawn)
    return panels


def _by_unit(panel: Panel, bars: Sequence[Row], drawn: Chart) -> list[Panel]:
    """The panel for each unit in which a bar has any length."""
    return [
        panel | {"y": [drawn.y.index(name) for name in names]}
        for names in group_by_unit(drawn.y)
        if any(is_finite(row[name]) and row[name] for row in bars for name in names)
    ]


def _adds_up(rest: Sequence[Row], drawn: Chart) -> bool:
    return all(map(is_additive, drawn.y)) and any(_length(row, drawn) for row in rest)


def _sums(rest: Sequence[Row], drawn: Chart) -> Row:
    return {drawn.x: None} | {name: known_sum(rest, name) for name in drawn.y}


def _not_drawn(rest: Sequence[Row], of: int, drawn: Chart) -> str:
    why = "" if any(is_finite(row[name]) and row[name] for row in rest for name in drawn.y) else ", all 0"
    return f"{len(rest):,} of {pluralize(of, column_words(drawn.x))} not drawn{why}"


def _most_bars(counts: Sequence[int]) -> int:
    """How many bars a panel may have, so that all panels stay within what a page bears."""
    fits = (
        most for most in range(MOST_BARS, _FEWEST_BARS, -1) if sum(min(count, most) for count in counts) <= _BARS_IN_ALL
    )
    return next(fits, _FEWEST_BARS)


def _length(row: Row, drawn: Chart) -> float:
    """How long its bar is: of parts end to end all of them, else the first."""
    parts = drawn.y if drawn.kind == "stacked" else drawn.y[:1]
    return abs(sum(float(row[name]) for name in parts if is_finite(row[name])))


def _identities(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Labels of processes: a long run gives way, for rank and GPU stand behind it."""
    runs = [escape_controls(str(row.get("run"))) for row in rows]
    short = shorten_distinctly(runs, _RUN_CELLS)
    return [
        join_values(names, [(row | {"run": short[run]})[name] for name in names])
        for row, run in zip(rows, runs, strict=True)
    ]
