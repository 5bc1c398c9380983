"""Write Arrow rows as text or bytes: exact in data formats, readable in tables."""

import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tracelab.foreign_text import escape_controls
from tracelab.output.plain_values import exact_text, is_numeric, to_plain

_BATCH_ROWS = 10_000
_GROUP_ROWS = 131_072
_GROUP_BYTES = 64 << 20
"""A row group of Parquet has at most so many rows, or about so many bytes: a writer holds it in memory."""

_FORMULA = r"\A([=+\-@\t\r\n＝＋－＠])"
"""Text that a spreadsheet runs as a formula, or whose first character it drops; wide forms count in some locales."""

_Rows: TypeAlias = Iterable[pa.RecordBatch]


def write(
    rows: pa.Table | pa.RecordBatchReader,
    fmt: str,
    stream: BinaryIO,
    *,
    width: int | None = None,
    color: bool = False,
    show: Sequence[str] | None = None,
) -> None:
    """Write the rows in one of `FORMATS`; `width`, `color` and `show` apply to the table format only.

    With `show` a table has only the columns that matter, these or by default the first, and notes on the others.
    All formats but the table are written batch by batch, so that memory does not grow with the rows of a reader.
    """
    if fmt == "table":
        from tracelab.output.table_view import view_lines
        from tracelab.output.text_table import table_lines

        table = rows if isinstance(rows, pa.Table) else rows.read_all()
        lines = table_lines(table, width=width, color=color)
        if show is not None:
            lines = view_lines(table, show, width=width, color=color)
        for line in lines:
            stream.write(line.encode() + b"\n")
        return
    schema = _distinct_names(rows.schema)
    batches: _Rows = rows.to_batches(max_chunksize=_BATCH_ROWS) if isinstance(rows, pa.Table) else rows
    _WRITERS[fmt](schema, (batch.rename_columns(schema.names) for batch in batches), stream)


def _distinct_names(schema: pa.Schema) -> pa.Schema:
    """Number columns that share a name: JSON objects and Parquet files would lose all but one."""
    seen: dict[str, int] = {}
    fields = []
    for field in schema:
        seen[field.name] = seen.get(field.name, 0) + 1
        fields.append(field if seen[field.name] == 1 else field.with_name(f"{field.name}_{seen[field.name]}"))
    return pa.schema(fields)


def _write_csv(schema: pa.Schema, batches: _Rows, stream: BinaryIO) -> None:
    """Write CSV: NULL and NaN are empty fields, an empty text is `""`, a list or map is JSON."""
    _write_csv_heading(schema.names, stream)
    for batch in batches:
        _write_csv_rows(_csv_columns(batch), stream)


def _write_csv_spreadsheet(schema: pa.Schema, batches: _Rows, stream: BinaryIO) -> None:
    """Write CSV with an apostrophe before each text that a spreadsheet would run as a formula."""
    names = pc.replace_substring_regex(pa.array(schema.names, pa.string()), _FORMULA, r"'\1").to_pylist()
    _write_csv_heading([str(name) for name in names], stream)
    for batch in batches:
        table = _csv_columns(batch)
        for index, field in enumerate(table.schema):
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                quoted = pc.replace_substring_regex(table.column(index), _FORMULA, r"'\1", max_replacements=1)
                table = table.set_column(index, field.name, quoted)
        _write_csv_rows(table, stream)


def _csv_columns(batch: pa.RecordBatch) -> pa.Table:
    """Convert the columns that Arrow's writer of CSV lacks, or writes with other words."""
    table = pa.Table.from_batches([batch])
    for index, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_interval(field.type):
            texts = [None if value is None else exact_text(value) for value in to_plain(table.column(index))]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
        elif pa.types.is_floating(field.type):
            column = table.column(index)
            table = table.set_column(index, field.name, pc.if_else(pc.is_finite(column), column, None))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return table


def _write_csv_heading(names: Sequence[str], stream: BinaryIO) -> None:
    heading = io.StringIO()
    csv.writer(heading, lineterminator="\n").writerow(names)
    stream.write(heading.getvalue().encode())


def _write_csv_rows(table: pa.Table, stream: BinaryIO) -> None:
    pa_csv.write_csv(table, stream, pa_csv.WriteOptions(include_header=False, quoting_style="needed"))


def _write_json(schema: pa.Schema, batches: _Rows, stream: BinaryIO) -> None:  # noqa: ARG001
    stream.write(b"[")
    separator = b""
    for objects in _json_objects(batches, ",\n ", ""):
        stream.write(separator + b"\n ")
        stream.write(memoryview(objects)[3:])
        separator = b","
    stream.write(b"\n]\n" if separator else b"]\n")


def _write_jsonl(schema: pa.Schema, batches: _Rows, stream: BinaryIO) -> None:  # noqa: ARG001
    for objects in _json_objects(batches, "", "\n"):
        stream.write(objects)


def _json_objects(batches: _Rows, before: str, after: str) -> Iterator[pa.Buffer]:
    from tracelab.output.json_rows import iter_objects

    for batch in batches:
        yield from iter_objects(batch, before, after)


def _write_parquet(schema: pa.Schema, batches: _Rows, stream: BinaryIO) -> None:
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for group in _row_groups(batches):
            writer.write_table(pa.Table.from_batches(group, schema))


def _row_groups(batches: _Rows) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches into row groups."""
    group: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        group.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= _GROUP_ROWS or size_bytes >= _GROUP_BYTES:
            yield group
            group, rows, size_bytes = [], 0, 0
    if group:
        yield group


def _write_markdown(schema: pa.Schema, batches: _Rows, stream: BinaryIO) -> None:
    """Write a Markdown table with exact values; text is escaped, so that a name is neither markup nor HTML."""
    heading = [escape_markdown(name, inside_words=False) for name in schema.names]
    alignment = ["---:" if is_numeric(field.type) else "---" for field in schema]
    rows = ([escape_markdown(text) for text in row] for row in _text_rows(batches))
    for line in itertools.chain([heading, alignment], rows):
        stream.write(("| " + " | ".join(line) + " |\n").encode())


def _text_rows(batches: _Rows) -> Iterator[list[str]]:
    for batch in batches:
        for row in zip(*(to_plain(column) for column in batch.columns), strict=True):
            yield [exact_text(value) for value in row]


def escape_markdown(text: str, *, inside_words: bool = True) -> str:
    """Escape a text for a Markdown table; underscores too, unless they are inside words."""
    text = escape_controls(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|~$_])" if inside_words else r"([\\`*\[\]|~$])", r"\\\1", text)


_WRITERS: dict[str, Callable[[pa.Schema, _Rows, BinaryIO], None]] = {
    "csv": _write_csv,
    "csv-spreadsheet": _write_csv_spreadsheet,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "markdown": _write_markdown,
}
