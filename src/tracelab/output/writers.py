"""Write Arrow tables as text or bytes: exact in data formats, readable in tables."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tracelab.exact_json import json_text
from tracelab.foreign_text import escape_controls
from tracelab.output.plain_values import exact_text, is_numeric, to_plain

_BATCH = 10_000


def write(table: pa.Table, fmt: str, stream: BinaryIO, *, width: int | None = None, color: bool = False) -> None:
    """Write the table in one of `FORMATS`; `width` and `color` apply to the table format only."""
    if fmt == "table":
        from tracelab.output.text_table import table_lines

        for line in table_lines(table, width=width, color=color):
            stream.write(line.encode() + b"\n")
    else:
        _WRITERS[fmt](_distinct_names(table), stream)


def _distinct_names(table: pa.Table) -> pa.Table:
    """Number columns that share a name: JSON objects and Parquet files would lose all but one."""
    seen: dict[str, int] = {}
    names = []
    for name in table.column_names:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return table.rename_columns(names)


def _write_csv(table: pa.Table, stream: BinaryIO) -> None:
    """Write CSV: NULL and NaN are empty fields, an empty text is `""`, a list or map is JSON."""
    for index, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_interval(field.type):
            texts = [None if value is None else exact_text(value) for value in to_plain(table.column(index))]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
        elif pa.types.is_floating(field.type):
            column = table.column(index)
            table = table.set_column(index, field.name, pc.if_else(pc.is_finite(column), column, None))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    heading = io.StringIO()
    csv.writer(heading, lineterminator="\n").writerow(table.column_names)
    stream.write(heading.getvalue().encode())
    pa_csv.write_csv(table, stream, pa_csv.WriteOptions(include_header=False, quoting_style="needed"))


def _write_json(table: pa.Table, stream: BinaryIO) -> None:
    stream.write(b"[")
    for number, line in enumerate(_json_objects(table)):
        stream.write((",\n " if number else "\n ").encode() + line.encode())
    stream.write(b"\n]\n" if table.num_rows else b"]\n")


def _write_jsonl(table: pa.Table, stream: BinaryIO) -> None:
    for line in _json_objects(table):
        stream.write(line.encode() + b"\n")


def _json_objects(table: pa.Table) -> Iterator[str]:
    names = table.column_names
    for batch in table.to_batches(max_chunksize=_BATCH):
        columns = [to_plain(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield json_text(dict(zip(names, row, strict=True)))


def _write_parquet(table: pa.Table, stream: BinaryIO) -> None:
    pq.write_table(table, stream, compression="zstd")


def _write_markdown(table: pa.Table, stream: BinaryIO) -> None:
    """Write a Markdown table with exact values; text is escaped, so that a name is neither markup nor HTML."""
    rights = [is_numeric(field.type) for field in table.schema]
    lines = [
        [_escape_markdown(name, inside_words=False) for name in table.column_names],
        ["---:" if right else "---" for right in rights],
        *([_escape_markdown(text) for text in row] for row in _text_rows(table)),
    ]
    for line in lines:
        stream.write(("| " + " | ".join(line) + " |\n").encode())


def _text_rows(table: pa.Table) -> Iterator[list[str]]:
    for batch in table.to_batches(max_chunksize=_BATCH):
        for row in zip(*(to_plain(column) for column in batch.columns), strict=True):
            yield [exact_text(value) for value in row]


def _escape_markdown(text: str, *, inside_words: bool = True) -> str:
    text = escape_controls(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|~$_])" if inside_words else r"([\\`*\[\]|~$])", r"\\\1", text)


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "markdown": _write_markdown,
}
