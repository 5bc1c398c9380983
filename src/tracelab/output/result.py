"""The result of a query in Python: polars, pandas or Arrow on demand, and a readable table in a notebook."""

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tracelab.errors import TracelabError

if TYPE_CHECKING:
    import pandas
    import polars

_ROWS_OF_TEXT = 20
_ALL_COLUMNS_HINT = ".column_names lists all"


class Result:
    """The rows of a query. Column names end in their units: `dur_ns`, `size_bytes`, `idle_ratio`.

    `.pl()`, `.df()` and `.arrow()` return exact values, integers as 64-bit integers even beside NULL. The object
    prints as a table with readable units and the columns that matter, and is an Arrow stream:
    `duckdb.from_arrow(result)`, `polars.DataFrame(result)`, `pyarrow.table(result)`.

    """

    def __init__(
        self, table: pa.Table, title: str = "", show: tuple[str, ...] | None = None, *, notes: tuple[str, ...] = ()
    ) -> None:
        self.title = title
        self._notes = notes
        self._show = show
        self._table = table

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the answer, such as the scope that it is about."""
        return self._notes

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._table

    def pl(self) -> "polars.DataFrame":
        """Return the rows as a polars DataFrame, without a copy where polars allows it."""
        import polars

        return polars.DataFrame(self._table)

    def df(self) -> "pandas.DataFrame":
        """Return the rows as a pandas DataFrame; integers and booleans are nullable (`Int64`, `boolean`).

        Its own defaults would turn integers beside NULL into floats, which hold no nanoseconds since 1970.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise TracelabError(
                "pandas is not installed; run `pip install 'tracelab[pandas]'`, or use .pl() or .arrow()"
            ) from error
        nullable = {
            pa.bool_(): pandas.BooleanDtype(),
            pa.int8(): pandas.Int8Dtype(),
            pa.int16(): pandas.Int16Dtype(),
            pa.int32(): pandas.Int32Dtype(),
            pa.int64(): pandas.Int64Dtype(),
            pa.uint8(): pandas.UInt8Dtype(),
            pa.uint16(): pandas.UInt16Dtype(),
            pa.uint32(): pandas.UInt32Dtype(),
            pa.uint64(): pandas.UInt64Dtype(),
        }
        frame: pandas.DataFrame = self._table.to_pandas(types_mapper=nullable.get)
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, NULL as None."""
        return self._table.to_pylist()

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns, in order."""
        return self._table.column_names

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._table.num_rows

    def __len__(self) -> int:
        return self._table.num_rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self._table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream

    def __repr__(self) -> str:
        first = self._table.slice(0, _ROWS_OF_TEXT)
        from tracelab.output.table_view import view_lines
        from tracelab.output.text_table import table_lines

        width = shutil.get_terminal_size((120, 24)).columns
        lines = list(
            table_lines(first, width=width)
            if self._show is None
            else view_lines(first, self._show, width=width, hint=_ALL_COLUMNS_HINT)
        )
        if first.num_rows < self._table.num_rows:
            lines.append(f"({first.num_rows} of {self._table.num_rows:,} rows)")
        return "\n".join([*lines, *self._notes])

    def _repr_html_(self) -> str:
        from tracelab.output.html import table_html

        if self._show is None:
            return table_html(self._table, self.title, notes=self._notes)
        from tracelab.output.table_view import reduce_columns

        reduced, notes = reduce_columns(self._table, self._show, _ALL_COLUMNS_HINT)
        return table_html(reduced, self.title, notes=[*notes, *self._notes])


class Titles(dict[str, str]):
    """Names of queries with their titles, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from tracelab.output.html import table_html

        return table_html(pa.table({"query": list(self), "title": list(self.values())}))
