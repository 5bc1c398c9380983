"""Rows of a chart: those in the table below it by their place there, others with the figures that are drawn of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tracelab.output.labels import escape_controls, shorten
from tracelab.query.spec import Chart

Row = dict[str, Any]
Panel = dict[str, Any]

LENGTHS = ("bars", "stacked", "pairs")
"""Kinds of charts in which a row is one bar, with a name."""
AT = "\0row"
"""Where a row stands: in the table, or from the number of its rows on, beyond it. No column is called so."""
MOST_BEYOND = 1_500
"""Rows beyond the table in one chart: each takes some 40 bytes of the page."""
_LONGEST = 80
_EXACT = 2**53
"""From here on a script's numbers lose their last digits."""


def placed(answer: pa.Table, kept: Sequence[int]) -> list[Row]:
    """All rows of an answer with their places: those that are kept in the table, in its order, then the others."""
    rows = answer.to_pylist()
    in_table = set(kept)
    order = [*kept, *(index for index in range(len(rows)) if index not in in_table)]
    for place, index in enumerate(order):
        rows[index][AT] = place
    return rows


def grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[object, ...], list[Row]]:
    """The rows by the values of some columns, in the order in which they come."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def run_of(names: Sequence[str], key: Sequence[object]) -> object:
    """The run that a group is of, where its key names one."""
    return dict(zip(names, key, strict=True)).get("run")


def fair(sizes: Sequence[int], most: int) -> int:
    """How many rows each group may have, so that all together have no more than `most`, and one at least."""
    share, left = 1, sorted(sizes)
    while left:
        share = max(share, most // len(left))
        if left[-1] <= share:
            return left[-1]
        if left[0] > share:
            break
        most -= left.pop(0)
    return share


def beyond(panels: Sequence[Panel], rows: Sequence[Row], shown: int, drawn: Chart) -> dict[str, Any]:
    """Of rows that the panels name and the table lacks: x, the columns of y, and the number of the run.

    They stand behind the rows of the table, so the panels name them anew; what a bar is called stands in its label.
    """
    lists = {id(places): places for panel in panels for places in _lists(panel)}.values()  # panels share some
    used = {place for places in lists for place in places if place >= shown}
    is_named = drawn.kind in LENGTHS
    runs: dict[object, int] = {}
    figures: list[list[object]] = []
    anew: dict[int, int] = {}
    for row in rows:
        if row[AT] in used:
            run = row.get("run")
            number = None if run is None else runs.setdefault(run, len(runs))
            x = None if is_named and isinstance(row[drawn.x], str) else row[drawn.x]
            anew[row[AT]] = shown + len(figures)
            figures.append([_value(x), *(_value(row[name]) for name in drawn.y), number])
    for places in lists:
        places[:] = [anew.get(place, place) for place in places]
    for panel in panels:
        if "others" in panel:
            panel["others"] = anew[panel["others"]]
    return {"beyond": figures, "runs": list(runs)} if figures else {}


def _lists(panel: Panel) -> Iterator[list[int]]:
    """The lists in which a panel names rows."""
    yield from ([panel["rows"]] if "rows" in panel else [])
    yield from (series["rows"] for series in panel.get("series", ()))
    yield from (members for *_, members in panel.get("cells", ()))


def _value(value: object) -> object:
    """A value for the script: a long number as its digits, a text as short as it is read."""
    if value is None or (isinstance(value, int | float) and abs(value) < _EXACT):
        return value
    return shorten(escape_controls(str(value)), _LONGEST)
