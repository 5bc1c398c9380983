"""How answers show themselves in a notebook: they are plain Arrow tables, and IPython is told how to draw ours.

A class of our own around the table would have a `_repr_html_`, but pyarrow's own functions refuse one
(`pyarrow.parquet.write_table`), and `polars.from_arrow` makes a series of structs of it. So an answer stays a
`pyarrow.Table`; its schema's metadata say that it is an answer, and of which question.
"""

import shutil
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tracelab.output.html import table_html
from tracelab.output.text_table import table_lines

TITLE = b"tracelab.title"
_ROWS_OF_TEXT = 20


class Titles(dict[str, str]):
    """Names of questions, and what each answers."""

    def _repr_html_(self) -> str:
        return table_html(pa.table({"query": list(self), "title": list(self.values())}))


def titled(table: pa.Table, title: str) -> pa.Table:
    """The table, marked as an answer."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), TITLE: title.encode()})


def html_of(table: pa.Table) -> str | None:
    """An answer as HTML; None for a table that is none."""
    title = _title(table)
    return None if title is None else table_html(table, title)


def text_of(table: pa.Table) -> str:
    """An answer as a table for people, its first rows; of a table that is none what pyarrow says."""
    if _title(table) is None:
        return repr(table)
    shown = table.slice(0, _ROWS_OF_TEXT)
    lines = list(table_lines(shown, width=shutil.get_terminal_size((120, 24)).columns))
    if shown.num_rows < table.num_rows:
        lines.append(f"({shown.num_rows} of {table.num_rows:,} rows)")
    return "\n".join(lines)


def tell_ipython() -> None:
    """Let IPython draw answers, where it runs; Arrow tables of others look as they did."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    _add(formatters["text/html"], lambda before: lambda table: html_of(table) or (before(table) if before else None))
    _add(formatters["text/plain"], _printed)


def _add(formatter: Any, drawing: Callable[[Any], Callable[..., Any]]) -> None:  # noqa: ANN401  IPython's
    """Draw Arrow tables so, in front of whatever drew them before; once."""
    before = formatter.type_printers.get(pa.Table)
    if not getattr(before, "of_tracelab", False):
        draw = drawing(before)
        draw.of_tracelab = True  # type: ignore[attr-defined]
        formatter.for_type(pa.Table, draw)


def _printed(before: Any) -> Callable[..., Any]:  # noqa: ANN401
    def draw(table: pa.Table, printer: Any, cycle: bool) -> None:  # noqa: ANN401, FBT001  as IPython calls it
        if before and _title(table) is None:
            before(table, printer, cycle)
        else:
            printer.text(text_of(table))

    return draw


def _title(table: pa.Table) -> str | None:
    title = (table.schema.metadata or {}).get(TITLE)
    return None if title is None else title.decode()
