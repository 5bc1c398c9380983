"""Format an evaluated row as text: published figures, both formulas, cells and verdict."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import Quantity, format_scaled, format_significant
from tracelab.output.text_table import table_lines
from tracelab.study.evaluate import CAPTURE, FIGURES, Answer, State

_WIDEST = 110
_MOST_CELLS = 40
_DIGITS = 6
"""Significant digits of a figure; 5.46079e-05 must not become 0 %."""
_AS_DIGITS = 1e15
_LISTED = ("row", "state", "runs", "title", "capture")
_INDENT = "  "


def format_figure(value: float | None, unit: str | None) -> str:
    """Format a figure with its unit: 62.62 ms, 0.00546079 %, 1,428,376,960 flop."""
    if value is None:
        return ""
    match unit:
        case "ns":
            return format_scaled(value, Quantity.DURATION)
        case "bytes":
            return format_scaled(value, Quantity.BYTES)
        case "ratio":
            return f"{_number(value * 100)} %"
        case "x":
            return f"{_number(value)} ×"
        case None | "count":
            return _number(value)
    return f"{_number(value)} {unit}"


def answer_lines(answer: Answer, source: str, width: int | None) -> Iterator[str]:
    """Yield the lines of an evaluated row."""
    wide = min(width or _WIDEST, _WIDEST)
    row = answer.row
    yield f"{row.id}  {row.title}"
    yield from _wrapped_lines(source, wide)
    yield ""
    yield from _wrapped_lines(row.prose, wide)
    yield ""
    yield from _labeled_lines([("study", row.study), ("corrected", row.corrected), ("runs", _runs(answer.runs))], wide)
    yield ""
    cells = answer.cells.to_pylist()
    yield from table_lines(_text_table(cells[:_MOST_CELLS]), width=width, color=False)
    if len(cells) > _MOST_CELLS:
        yield f"… {len(cells) - _MOST_CELLS:,} more; --format csv writes all"
    yield ""
    yield from _labeled_lines([("verdict", answer.verdict)], wide)


def states_table(states: Sequence[State]) -> pa.Table:
    """Return a table of the rows and their states."""
    return pa.Table.from_pylist(
        [
            {
                "row": each.row.id,
                "state": each.state,
                "runs": len(each.runs),
                "title": each.row.title,
                "capture": each.row.capture,
            }
            for each in states
        ],
        schema=pa.schema([(name, pa.int64() if name == "runs" else pa.string()) for name in _LISTED]),
    )


def summarize_states(states: Sequence[State]) -> str:
    """Count the rows by state in a sentence."""
    counts: dict[str, int] = {}
    for each in states:
        counts[each.state] = counts.get(each.state, 0) + 1
    parts = ", ".join(f"{count} {state}" for state, count in counts.items())
    hint = "; `tracelab study show ROW` shows what to record" if CAPTURE in counts else ""
    return f"{len(states)} rows: {parts}{hint}"


def cells_table(answer: Answer) -> pa.Table:
    """Return the exact cells with row and verdict, for programs."""
    count = answer.cells.num_rows
    table: pa.Table = answer.cells.append_column("verdict", pa.array([answer.verdict] * count, pa.string()))
    return table.add_column(0, "row", pa.array([answer.row.id] * count, pa.string()))


def _text_table(cells: Sequence[dict[str, Any]]) -> pa.Table:
    """Return the cells with figures as text, without empty columns."""
    rows = [
        {name: format_figure(value, cell["unit"]) if name in FIGURES else value for name, value in cell.items()}
        for cell in cells
    ]
    names = [
        name
        for name in (rows[0] if rows else {"quantity": None})
        if name != "unit" and any(cell[name] not in (None, "") for cell in rows)
    ]
    return pa.table({name: _text_column([cell[name] for cell in rows]) for name in names})


def _text_column(values: Sequence[Any]) -> list[Any]:
    """Return the values, as text where one is missing, so that it prints as an empty cell."""
    if None not in values:
        return list(values)
    return ["" if value is None else f"{value:,}" if isinstance(value, int) else value for value in values]


def _number(value: float) -> str:
    if value == int(value) and abs(value) < _AS_DIGITS:
        return f"{int(value):,}"
    text = format_significant(value, digits=_DIGITS)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _runs(runs: Sequence[str]) -> str:
    most = 6
    if not runs:
        return "none: the published figures suffice"
    more = f" and {len(runs) - most:,} more" if len(runs) > most else ""
    return f"{', '.join(runs[:most])}{more}"


def _labeled_lines(pairs: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    longest = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        first, *rest = textwrap.wrap(escape_controls(text), max(width - longest - 4, 30), break_on_hyphens=False) or [
            ""
        ]
        yield f"{_INDENT}{name:<{longest}}  {first}"
        yield from (f"{_INDENT}{'':<{longest}}  {line}" for line in rest)


def _wrapped_lines(text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        escape_controls(" ".join(text.split())),
        max(width, 40),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )
