"""Render a result as an HTML table: readable values, exact ones on hover and for scripts, a bounded number of rows."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pyarrow as pa

from tracelab.foreign_text import escape_controls, escape_lines
from tracelab.output.labels import IDENTITY, Quantity, column_from_title, column_quantity, column_unit, shorten
from tracelab.output.plain_values import exact_text, is_numeric, to_plain
from tracelab.output.text_table import apply_unit, format_cells
from tracelab.report.html import escape_text

CELLS = {"steps": 10_000, "line": 8_000, "curves": 5_000, "grid": 4_000, "scatter": 4_000}
"""Maximum number of cells by chart kind: curves need their points."""
FEWEST_CELLS = 2_200
_FEWEST_ROWS = 20
_LONGEST = 300
_LONG = 36
_UNITS = {Quantity.DURATION: "ns", Quantity.BYTES: "bytes"}


def select_rows(answer: pa.Table, kind: str | None) -> list[int]:
    """Select the rows to show: the first ones of every run, rank and device, within the limit."""
    most = max(CELLS.get(kind or "", FEWEST_CELLS) // max(answer.num_columns, 1), _FEWEST_ROWS)
    if answer.num_rows <= most:
        return list(range(answer.num_rows))
    names = [name for name in IDENTITY if name in answer.column_names]
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, key in enumerate(
        zip(*(answer.column(name).to_pylist() for name in names), strict=True) if names else ()
    ):
        groups.setdefault(key, []).append(index)
    sizes = sorted(map(len, groups.values()))
    share = 1
    while sum(min(size, share + 1) for size in sizes) <= most:
        share += 1
    indices = sorted(index for rows in groups.values() for index in rows[:share])
    return indices[:most] if groups else list(range(most))


def table_html(answer: pa.Table, caption: str, meanings: dict[str, str]) -> str:
    """Render the rows as a table whose columns a script sorts.

    A cell without a class is a number: exact in its title, or as it is written.

    """
    answer = apply_unit(answer)
    columns = [_render_cells(field, answer.column(index)) for index, field in enumerate(answer.schema)]
    heads = "".join(_heading(field, meanings.get(field.name, "")) for field in answer.schema)
    rows = "\n".join("<tr>" + "".join(row) for row in zip(*columns, strict=True))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape_text(caption)}</caption>\n<thead><tr>{heads}</thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _heading(field: "pa.Field[pa.DataType]", meaning: str) -> str:
    name = escape_text(field.name).replace("_", "_<wbr>")
    kind = " class=n" if is_numeric(field.type) else ""
    return f'<th scope=col{kind} title="{escape(meaning)}"><span>{name}</span></th>'


def _render_cells(field: "pa.Field[Any]", values: "pa.ChunkedArray[Any]") -> list[str]:
    """Render the cells of a column, without the optional end tags."""
    if is_numeric(field.type):
        unit = _UNITS.get(column_quantity(column_from_title(field.name)), "") or column_unit(field.name) or ""
        return [
            "<td class=u>–" if value is None else _number_cell(text, exact_text(value), unit)
            for value, text in zip(to_plain(values), format_cells(field, values), strict=True)
        ]
    return [_text_cell(value, text) for value, text in zip(to_plain(values), format_cells(field, values), strict=True)]


def _number_cell(text: str, exact: str, unit: str) -> str:
    is_share = text.endswith("%")
    if not is_share and text.split(" ", maxsplit=1)[0].replace(",", "") == exact:
        return f"<td>{text}"
    return f'<td title="{exact} {unit}">{text}' if unit and not is_share else f"<td title={exact}>{text}"


def _text_cell(value: object, text: str) -> str:
    if value is None:
        return "<td class=u>–"
    short = shorten(escape_controls(text), _LONGEST)
    kind = " class=long" if len(short) > _LONG else " class=t"
    title = "" if short == text else f' title="{escape(escape_lines(text))}"'
    return f"<td{kind}{title}>{escape(short)}"


def row_count_note(rows: int, listed: int, devices: Sequence[str]) -> str:
    """Return a note on the number of rows and those shown."""
    counted = f"{rows:,} row{'s' * (rows != 1)}"
    of_each = f" of each {', '.join(devices)}" if devices else ""
    return counted if listed == rows else f"{listed:,} of {counted}, the first ones{of_each}"
