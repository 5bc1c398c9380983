"""Render a table as HTML for a notebook: readable units, exact values on hover, escaped names."""

from collections.abc import Sequence
from html import escape

import pyarrow as pa

from tracelab.foreign_text import escape_controls, escape_lines
from tracelab.output.labels import shorten
from tracelab.output.plain_values import exact_text, is_numeric, to_plain
from tracelab.output.text_table import format_cells

MOST_ROWS = 60
_LONGEST = 200
_LONG = 40

_STYLE = """<style>
.tracelab { overflow-x: auto; max-width: 100% }
.tracelab table { border-collapse: collapse; color: inherit; background: none; font-size: 0.9em;
  font-variant-numeric: tabular-nums; margin: 0.5em 0 }
.tracelab caption { text-align: left; caption-side: top; padding: 0 0 0.4em; color: inherit }
.tracelab th, .tracelab td { padding: 0.2em 0.8em 0.2em 0; text-align: left; vertical-align: top; color: inherit;
  background: none; white-space: nowrap }
.tracelab td.long { white-space: normal; min-width: 40ch; max-width: 60ch; overflow-wrap: anywhere }
.tracelab thead th { font-weight: 600; border-bottom: 1px solid currentColor; white-space: normal;
  vertical-align: bottom }
.tracelab tbody tr + tr td { border-top: 1px solid rgba(128, 128, 128, 0.3) }
.tracelab th.n, .tracelab td.n { text-align: right }
.tracelab td.null { opacity: 0.6 }
</style>"""


def table_html(
    table: pa.Table, title: str | None = None, *, most_rows: int = MOST_ROWS, notes: Sequence[str] = ()
) -> str:
    """Render the table, or its first rows with a caption on their number, and the notes below it."""
    listed = table.slice(0, most_rows)
    columns = [_html_column(field, listed.column(index)) for index, field in enumerate(table.schema)]
    heads = "".join(
        f'<th scope="col"{" class=n" if is_numeric(field.type) else ""}>{_break_words(field.name)}</th>'
        for field in table.schema
    )
    rows = "".join(f"<tr>{''.join(row)}</tr>\n" for row in zip(*columns, strict=True))
    caption = escape(" · ".join(part for part in (title, _row_count_note(table.num_rows, listed.num_rows)) if part))
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'{_STYLE}\n<div class="tracelab"><table>\n<caption>{caption}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>{below}</div>"
    )


def _row_count_note(rows: int, listed: int) -> str:
    counted = f"{rows:,} row{'s' * (rows != 1)}"
    return counted if listed == rows else f"the first {listed:,} of {counted}"


def _break_words(name: str) -> str:
    """Insert line-break opportunities after underscores."""
    return escape(escape_controls(name)).replace("_", "_<wbr>")


def _html_column(field: "pa.Field[pa.DataType]", values: "pa.ChunkedArray[pa.Scalar[pa.DataType]]") -> list[str]:
    """Render the cells of a column; a shortened value is complete in the title attribute."""
    number = is_numeric(field.type)
    cells = []
    for value, text in zip(to_plain(values), format_cells(field, values), strict=True):
        short = shorten(text, _LONGEST)
        exact = exact_text(value) if number and value is not None else text
        kinds = [
            name for name, holds in (("n", number), ("null", value is None), ("long", len(short) > _LONG)) if holds
        ]
        shape = f' class="{" ".join(kinds)}"' if kinds else ""
        title = f' title="{escape(escape_lines(exact))}"' if exact != short else ""
        cells.append(f"<td{shape}{title}>{escape(short)}</td>")
    return cells
