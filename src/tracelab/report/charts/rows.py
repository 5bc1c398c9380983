"""Refer to rows of a result: by position in the table below the chart, or with their own values."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import IDENTITY, shorten
from tracelab.plot.labels import is_finite
from tracelab.query.spec import Chart

Row = dict[str, Any]
Panel = dict[str, Any]

LENGTHS = ("bars", "stacked", "pairs")
"""Kinds of charts in which a row is one named bar."""
AT = "\0row"
"""Key of a row's position: in the table, or beyond its rows. No column has this name."""
MOST_BEYOND = 1_500
"""Maximum number of rows beyond the table per chart: each takes some 40 bytes of the page."""
MOST_PROCESSES = 64
"""Maximum number of processes that have a panel each."""
_LONGEST = 80
_EXACT = 2**53
"""From here on, JavaScript numbers lose digits."""


def place_rows(answer: pa.Table, table_rows: Sequence[int], kept: Sequence[int] | None = None) -> list[Row]:
    """Return all rows, or those at the `kept` indices, with their positions: in the table, or beyond its rows."""
    indices = range(answer.num_rows) if kept is None else kept
    rows = (answer if kept is None else answer.take(list(kept))).to_pylist()
    in_table = {index: place for place, index in enumerate(table_rows)}
    beyond = count(len(table_rows))
    for index, row in zip(indices, rows, strict=True):
        row[AT] = in_table[index] if index in in_table else next(beyond)
    return rows


def select_processes(answer: pa.Table, chart: Chart) -> tuple[list[int] | None, str]:
    """Return the indices of the rows of the processes that a chart with a panel for each draws, and a note on others.

    Of many processes these are, of each run, the ones with the most of the first y column. None: all rows.
    """
    names = [name for name in IDENTITY if name in answer.column_names]
    if chart.kind not in LENGTHS or chart.x in IDENTITY or not names or answer.num_rows <= MOST_PROCESSES:
        return None, ""
    keys = list(zip(*(answer.column(name).to_pylist() for name in names), strict=True))
    sums: dict[tuple[object, ...], float] = {}
    for key, value in zip(keys, answer.column(chart.y[0]).to_pylist(), strict=True):
        sums[key] = sums.get(key, 0.0) + (float(value) if value is not None and is_finite(value) else 0.0)
    if len(sums) <= MOST_PROCESSES:
        return None, ""
    runs: dict[object, list[tuple[object, ...]]] = {}
    for key in sorted(sums, key=lambda key: -sums[key]):
        runs.setdefault(key[0], []).append(key)
    most = max(1, MOST_PROCESSES // len(runs))
    chosen = {key for listed in runs.values() for key in listed[:most]}
    note = f"{len(sums) - len(chosen):,} of {len(sums):,} {' and '.join(names[1:] or names)} values not drawn"
    return [index for index, key in enumerate(keys) if key in chosen], f"{note}, those with the least"


def group_rows(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[object, ...], list[Row]]:
    """Group rows by some columns, in order of appearance."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def run_of_group(names: Sequence[str], key: Sequence[object]) -> object:
    """Return the run of a group, if its key has one."""
    return dict(zip(names, key, strict=True)).get("run")


def share_equally(sizes: Sequence[int], most: int) -> int:
    """Return how many rows each group may have so that all have at most `most` together, and at least one each."""
    share, left = 1, sorted(sizes)
    while left:
        share = max(share, most // len(left))
        if left[-1] <= share:
            return left[-1]
        if left[0] > share:
            break
        most -= left.pop(0)
    return share


def extra_rows(panels: Sequence[Panel], rows: Sequence[Row], table_size: int, chart: Chart) -> dict[str, Any]:
    """Return x, y and run of rows that the panels refer to and the table lacks.

    Their positions follow the table's rows. Bars carry their labels themselves.

    """
    lists = {id(places): places for panel in panels for places in _row_lists(panel)}.values()  # panels share some
    used = {place for places in lists for place in places if place >= table_size}
    is_named = chart.kind in LENGTHS
    runs: dict[object, int] = {}
    figures: list[list[object]] = []
    positions: dict[int, int] = {}
    for row in rows:
        if row[AT] in used:
            run = row.get("run")
            number = None if run is None else runs.setdefault(run, len(runs))
            x = None if is_named and isinstance(row[chart.x], str) else row[chart.x]
            positions[row[AT]] = table_size + len(figures)
            figures.append([_script_value(x), *(_script_value(row[name]) for name in chart.y), number])
    for places in lists:
        places[:] = [positions.get(place, place) for place in places]
    for panel in panels:
        if "others" in panel:
            panel["others"] = positions[panel["others"]]
    return {"beyond": figures, "runs": list(runs)} if figures else {}


def _row_lists(panel: Panel) -> Iterator[list[int]]:
    """Yield the lists in which a panel refers to rows."""
    yield from ([panel["rows"]] if "rows" in panel else [])
    yield from (series["rows"] for series in panel.get("series", ()))
    yield from (members for *_, members in panel.get("cells", ()))


def _script_value(value: object) -> object:
    """Convert a value for the script: long numbers as digits, texts shortened."""
    if value is None or (isinstance(value, int | float) and abs(value) < _EXACT):
        return value
    return shorten(escape_controls(str(value)), _LONGEST)
