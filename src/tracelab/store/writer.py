"""Write the rows of one source to staged Parquet files, one per table, from several threads."""

import itertools
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._compute import call_function  # pyarrow.compute takes 40 ms to import

from tracelab import schema
from tracelab.errors import SchemaMismatchError
from tracelab.store.commit import COMPRESSION
from tracelab.table_types import Column, Table

_ROW_GROUP = 262_144
_ROW_GROUP_BYTES = 24 << 20
_BATCH_ROWS, _PAGE_BYTES = 1 << 16, 4 << 20
"""Larger than Arrow's 1,024 and 1 MB: each batch is checked by itself, and each page has a compressor of its own."""
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())  # run and source are constant; stored as plain strings
_LABELS = ("run", "source")
_Values: TypeAlias = "pa.ChunkedArray[Any] | pa.Array[Any]"
_NARROW = {"text", "int32", "double", "bool"}  # types of columns with few distinct values, except `args`
_TIMES = ("start_ns", "time_ns")
_INTERVALS = tuple(table.name for table in schema.TABLES if "start_ns" in table.arrow.names)
_QUEUE_LIMIT_BYTES = 96 << 20


@dataclass(frozen=True)
class Correction:
    """Values known only at the end of a file that replace those assumed while writing."""

    shift_ns: int = 0
    rank: int | None = None
    gpu_pid: dict[str, int | None] | None = None  # by table


class Sink:
    """Accepts the rows of one source from several threads and writes them.

    Rows are tables of the schema without `run` and `source`. Missing columns become NULL; a missing `rank` becomes the
    constant `rank`. Dictionary-encoded text is written as such. `source` is a future: rows are queued until the hash
    is known, and callers block once the queue is full. Rows of a table keep the order in which they arrive.
    """

    def __init__(self, folder: Path, run: str, source: "Future[str]", rank: int) -> None:
        self._folder = folder
        self._source = source
        self.run, self.rank = run, rank
        self._queue: deque[tuple[str, pa.Table, int]] = deque()
        self._queued_bytes = 0
        self._lock = threading.Lock()
        self._writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._writers: dict[str, TableWriter] = {}

    @property
    def source(self) -> str:
        """The name of the source; waits until its file is hashed."""
        return self._source.result()

    @property
    def rows(self) -> dict[str, int]:
        """Count the rows written so far, by table."""
        return {name: writer.rows for name, writer in self._writers.items() if writer.rows}

    def put(self, table: str, rows: pa.Table) -> None:
        """Queue or write rows of a table. Raises SchemaMismatchError, here or when the rows are written."""
        if table not in schema.BY_NAME:
            raise SchemaMismatchError(table, None, f"is not in the schema; there are {', '.join(schema.BY_NAME)}")
        size_bytes = 0 if self._source.done() else rows.nbytes
        with self._lock:
            self._queue.append((table, rows, size_bytes))
            self._queued_bytes += size_bytes
            full = self._queued_bytes > _QUEUE_LIMIT_BYTES
        if full or self._source.done():
            self._write_queue()

    def span_ns(self) -> tuple[int, int] | None:
        """Return when the first and the last interval begin, once the sink is closed; None without intervals."""
        return _join_spans(
            _statistics_span(path) for name in _INTERVALS if (path := self._folder / f"{name}.parquet").is_file()
        )

    def close(self) -> None:
        """Write the queued rows and close every file."""
        self._write_queue()
        if self._writers:
            with ThreadPoolExecutor(len(self._writers)) as pool:
                largest_first = sorted(self._writers.values(), key=lambda writer: -writer.queued_bytes)
                list(pool.map(TableWriter.close, largest_first))

    def add(self, table: str, rows: pa.Table) -> None:
        """Write and close rows of a table after `close`, behind those that it has."""
        if rows.num_rows:
            self._rewrite(table, lambda old: old, self._complete(table, rows))

    def correct(self, correction: Correction) -> None:
        """Rewrite the closed files with corrected values."""
        for name in list(self._writers):
            self.rewrite(name, partial(_apply_correction, name, correction=correction))

    def rewrite(self, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Rewrite one closed table, one row group at a time; it has no file where no row remains."""
        if self.staged(table):
            self._rewrite(table, change)

    def _rewrite(self, table: str, change: Callable[[pa.Table], pa.Table], more: pa.Table | None = None) -> None:
        path = self._folder / f"{table}.parquet"
        writer = TableWriter(path, schema.BY_NAME[table])
        if path.is_file():
            old = path.rename(path.with_suffix(".old"))
            with pq.ParquetFile(old) as file:
                for group in range(file.num_row_groups):
                    rows = change(file.read_row_group(group))
                    if rows.num_rows:
                        writer.write(_reencode_labels(rows))
            old.unlink()
        if more is not None:
            writer.write(more)
        writer.close()
        self._writers[table] = writer

    def staged(self, table: str) -> Path | None:
        """Return the closed file of one table, or None if it has no rows."""
        path = self._folder / f"{table}.parquet"
        return path if path.is_file() else None

    def _write_queue(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    return
                name, rows, size_bytes = self._queue.popleft()
                self._queued_bytes -= size_bytes
            if rows.num_rows:
                self.put_complete(name, self._complete(name, rows))

    def put_complete(self, table: str, rows: pa.Table) -> None:
        """Write rows that have all columns of their table."""
        with self._lock:
            turn = self._writing[table]
        with turn:
            self._write(table, rows)

    def _write(self, table: str, rows: pa.Table) -> None:
        self._writer(table).write(rows)

    def _writer(self, name: str) -> "TableWriter":
        if name not in self._writers:
            self._writers[name] = TableWriter(self._folder / f"{name}.parquet", schema.BY_NAME[name])
        return self._writers[name]

    def _complete(self, name: str, rows: pa.Table) -> pa.Table:
        return _complete_rows(name, rows, _label_rows([self], [rows.num_rows]))


def put_together(table: str, rows: pa.Table, sinks: Sequence[Sink], counts: Sequence[int]) -> list[pa.Table]:
    """Put adjacent rows of several sources, so many of each, into their sinks; return the rows of each, completed.

    To complete the rows of each source by itself would cost some hundred microseconds each, however few they are.
    """
    complete = _complete_rows(table, rows, _label_rows(sinks, counts))
    starts = itertools.accumulate(counts, initial=0)
    parts = [complete.slice(start, count) for start, count in zip(starts, counts, strict=False)]
    for sink, part in zip(sinks, parts, strict=True):
        sink.put_complete(table, part)
    return parts


def _label_rows(sinks: Sequence[Sink], counts: Sequence[int]) -> Callable[[str], _Values]:
    """Return a function that returns the column `run`, `source` or `rank` of adjacent rows of some sources."""

    def label(column: str) -> _Values:
        if column == "rank":
            return _repeat_int32([sink.rank for sink in sinks], counts)
        texts = [sink.run if column == "run" else sink.source for sink in sinks]
        distinct = list(dict.fromkeys(texts))
        codes = _repeat_int32([distinct.index(text) for text in texts], counts)
        return pa.DictionaryArray.from_arrays(codes, pa.array(distinct, pa.string()))

    return label


def _complete_rows(name: str, rows: pa.Table, label: Callable[[str], _Values]) -> pa.Table:
    """Complete the rows with the constant columns of their sources and NULL for missing ones."""
    table, given = schema.BY_NAME[name], set(rows.column_names)
    if extra := given - set(table.arrow.names):
        problem = "is not in the schema; add it to schema.py, or leave it out in the reader"
        raise SchemaMismatchError(name, min(extra), problem)
    types = dict(zip(rows.column_names, rows.schema.types, strict=True))
    columns: list[_Values] = []
    for column in table.columns:
        as_type = column.arrow.type
        if column.name in _LABELS or (column.name == "rank" and "rank" not in given):
            columns.append(label(column.name))
        elif column.name not in given:
            columns.append(null_rows(rows.num_rows, as_type))
        else:
            is_dictionary = column.type == "text" and pa.types.is_dictionary(types[column.name])
            as_type = _DICTIONARY if is_dictionary else as_type
            columns.append(_cast_column(name, column, rows.column(column.name), as_type))
    return pa.table(columns, names=table.arrow.names)


def _cast_column(table: str, column: Column, values: "pa.ChunkedArray[Any]", as_type: pa.DataType) -> _Values:
    if values.type == as_type:
        return values
    try:
        return values.cast(as_type)
    except pa.ArrowException as error:
        problem = f"has type {values.type} where schema.py declares {column.type} ({error}); convert it in the reader"
        raise SchemaMismatchError(table, column.name, problem) from error


class BufferedSink(Sink):
    """Keeps the rows of one small source in memory, for `write_together`; `folder` is for files that readers query."""

    def __init__(self, folder: Path, run: str, source: "Future[str]", rank: int) -> None:
        super().__init__(folder / uuid.uuid4().hex, run, source, rank)
        self._buffers: dict[str, list[pa.Table]] = {}

    @property
    def rows(self) -> dict[str, int]:
        """Count the rows kept, by table."""
        return {name: count for name, parts in self._buffers.items() if (count := sum(map(len, parts)))}

    @property
    def tables(self) -> dict[str, list[pa.Table]]:
        """The rows, by table, in the order in which they arrived."""
        return self._buffers

    def span_ns(self) -> tuple[int, int] | None:
        """Return when the first and the last interval begin; None without intervals."""
        columns = (rows.column("start_ns") for name in _INTERVALS for rows in self._buffers.get(name, ()))
        return _join_spans(tuple(call_function("min_max", [column]).as_py().values()) for column in columns)

    def close(self) -> None:
        """Keep the queued rows."""
        self._write_queue()

    def staged(self, table: str) -> Path | None:
        """Return a file with the rows of one table, or None if it has no rows."""
        if not self.rows.get(table):
            return None
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{table}.parquet"
        _write_tables(path, schema.BY_NAME[table], self._buffers[table])
        return path

    def _write(self, table: str, rows: pa.Table) -> None:
        self._buffers.setdefault(table, []).append(rows)

    def _rewrite(self, table: str, change: Callable[[pa.Table], pa.Table], more: pa.Table | None = None) -> None:
        old = self._buffers.get(table, [])
        changed = [change(rows) for rows in old] if more is None else old
        self._buffers[table] = [*changed, *([more] if more is not None else [])]


def _statistics_span(path: Path) -> tuple[int | None, int | None]:
    """Return least and greatest `start_ns` of a file by its footer."""
    with pq.ParquetFile(path) as file:
        place = file.schema_arrow.get_field_index("start_ns")
        groups = [file.metadata.row_group(group).column(place).statistics for group in range(file.num_row_groups)]
    known = [each for each in groups if each is not None and each.has_min_max]
    return min((each.min for each in known), default=None), max((each.max for each in known), default=None)


def _join_spans(spans: Iterable[tuple[int | None, int | None]]) -> tuple[int, int] | None:
    known = [(start, end) for start, end in spans if start is not None and end is not None]
    return (min(start for start, _ in known), max(end for _, end in known)) if known else None


def write_together(folder: Path, sinks: Sequence[BufferedSink]) -> None:
    """Write the rows of several sources to one file a table, source after source, as a commit of many sources has them.

    A file for each source and table would cost some milliseconds each, however few rows it has.
    """
    for name, table in schema.BY_NAME.items():
        parts = [rows for sink in sinks for rows in sink.tables.get(name, ()) if rows.num_rows]
        if parts:
            _write_tables(folder / f"{name}.parquet", table, parts)


def _write_tables(path: Path, table: Table, parts: Sequence[pa.Table]) -> None:
    """Write tables to one file. Text is a dictionary where it is one in any of them."""
    writer = TableWriter(path, table)
    arrived = max(parts, key=lambda rows: sum(map(pa.types.is_dictionary, rows.schema.types)))
    writer.expect(arrived.schema)
    for rows in _join_small(parts):
        writer.write(rows)
    writer.close()


def _join_small(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows in fewer tables: those of equal types together, up to a row group."""
    joined: list[pa.Table] = []
    for rows in parts:
        if joined and (rows.schema != joined[0].schema or sum(map(len, joined)) >= _ROW_GROUP):
            yield pa.concat_tables(joined).unify_dictionaries().combine_chunks()
            joined = []
        joined.append(rows)
    yield pa.concat_tables(joined).unify_dictionaries().combine_chunks()


class TableWriter:
    """Buffers the rows of one table and writes them in large row groups."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path = path
        self._table = table
        self._queue: list[pa.Table] = []
        self._queued_rows = 0
        self.queued_bytes = 0
        self._file: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self.rows = 0

    def expect(self, arrived: pa.Schema) -> None:
        """Set the schema to write by that of rows to come."""
        self._schema = _write_schema(self._table, arrived)

    def write(self, rows: pa.Table) -> None:
        """Write rows behind those before."""
        if self._schema is None:
            self.expect(rows.schema)
        assert self._schema is not None  # noqa: S101
        rows = _cast_to(self._schema, rows)
        self.rows += rows.num_rows
        self._queue.append(rows)
        self._queued_rows += rows.num_rows
        self.queued_bytes += rows.nbytes
        if self._queued_rows >= _ROW_GROUP or self.queued_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is buffered, and the footer."""
        if self._queue:
            self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        rows = pa.concat_tables(
            self._queue
        ).unify_dictionaries()  # otherwise all but the first would be written as plain text
        if self._file is None:
            columns = self._table.columns
            narrow = {column.name for column in columns if column.type in _NARROW and column.name != "args"}
            narrow |= {field.name for field in rows.schema if pa.types.is_dictionary(field.type)}
            self._file = pq.ParquetWriter(
                self._path,
                rows.schema,
                compression=COMPRESSION,
                store_schema=False,  # otherwise other readers would see dictionaries in place of text
                use_dictionary=sorted(narrow),
                column_encoding={column.name: "DELTA_BINARY_PACKED" for column in columns if column.type == "int64"},
                write_batch_size=_BATCH_ROWS,
                data_page_size=_PAGE_BYTES,
            )
        self._file.write_table(rows, row_group_size=2 * _ROW_GROUP)
        self._queue, self._queued_rows, self.queued_bytes = [], 0, 0


def _write_schema(table: Table, arrived: pa.Schema) -> pa.Schema:
    """Return the schema to write: text as a dictionary if it arrives as one."""

    def storage_type(column: Column) -> pa.DataType:
        return _DICTIONARY if pa.types.is_dictionary(arrived.field(column.name).type) else column.arrow.type

    return pa.schema(
        [pa.field(column.name, storage_type(column), nullable=column.nullable) for column in table.columns]
    )


def _cast_to(target: pa.Schema, rows: pa.Table) -> pa.Table:
    """Cast rows to the schema of the first ones, which may have dictionaries where these have none."""
    if rows.schema.names == target.names and rows.schema.types == target.types:
        return pa.table(rows.columns, schema=target)
    columns = [
        rows.column(field.name).dictionary_encode()
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(rows.schema.field(field.name).type)
        else rows.column(field.name).cast(field.type)
        for field in target
    ]
    return pa.table(columns, schema=target)


def _repeat_int32(values: Sequence[int], counts: Sequence[int]) -> "pa.Array[Any]":
    """Return each value so many times; pa.repeat takes thirty times as long for a few rows."""
    distinct = set(values)
    if len(distinct) == 1:
        return repeat_number(distinct.pop(), sum(counts), pa.int32())
    return _number_array(np.repeat(np.array(values, np.int32), counts), pa.int32())


def repeat_number(number: int, rows: int, as_type: pa.DataType) -> "pa.Array[Any]":
    """Return a number for each row, as int32 or int64."""

    def make(count: int) -> "pa.Array[Any]":
        return _number_array(np.full(count, number, as_type.to_pandas_dtype()), as_type)

    return _shared_rows((as_type, number), rows, make)


def _number_array(numbers: "np.ndarray[Any, Any]", as_type: pa.DataType) -> "pa.Array[Any]":
    return pa.Array.from_buffers(as_type, len(numbers), [None, pa.py_buffer(numbers.data)])


def null_rows(rows: int, as_type: pa.DataType) -> "pa.Array[Any]":
    """Return NULL for each row."""
    make: Callable[[int], pa.Array[Any]] = partial(pa.nulls, type=as_type)
    return _shared_rows(as_type, rows, make)


_MAX_SHARED_ROWS, _MAX_SHARED_ARRAYS = 1 << 18, 64
_shared_arrays: dict[object, "pa.Array[Any]"] = {}
"""Arrays of a number, or of NULL, by the type and the number."""


def _shared_rows(key: object, rows: int, make: Callable[[int], "pa.Array[Any]"]) -> "pa.Array[Any]":
    """Return the first rows of an array of equal values, which tables share: most have several such columns."""
    if rows > _MAX_SHARED_ROWS:
        return make(rows)
    if len(_shared_arrays) > _MAX_SHARED_ARRAYS:
        _shared_arrays.clear()
    shared = _shared_arrays.get(key)
    if shared is None or len(shared) < rows:
        shared = _shared_arrays[key] = make(1 << max(0, rows - 1).bit_length())
    return shared.slice(0, rows)


def _reencode_labels(rows: pa.Table) -> pa.Table:
    """Dictionary-encode `run` and `source` of rows read back, as they were written."""
    for at, name in enumerate(rows.column_names):
        if name in _LABELS:
            rows = rows.set_column(at, name, rows.column(name).cast(pa.string()).dictionary_encode())
    return rows


def _apply_correction(name: str, rows: pa.Table, *, correction: Correction) -> pa.Table:
    def put(column: str, values: _Values) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), values)

    for time in _TIMES:
        if correction.shift_ns and time in rows.column_names:
            rows = put(time, call_function("add", [rows.column(time), pa.scalar(correction.shift_ns)]))
    if correction.rank is not None and "rank" in rows.column_names:
        rows = put("rank", _repeat_int32([correction.rank], [rows.num_rows]))
    if correction.gpu_pid and name in correction.gpu_pid:
        rows = put("pid", _fill_pid(rows, correction.gpu_pid[name]))
    return rows


def _fill_pid(rows: pa.Table, pid: int | None) -> _Values:
    """Return the pid column with GPU rows set; CPU rows of `collectives` and `annotations` keep theirs."""
    constant = pa.repeat(pa.scalar(pid, pa.int64()), rows.num_rows)
    if "tid" not in rows.column_names:
        return constant
    has_thread = call_function("is_valid", [rows.column("tid")])
    filled: _Values = call_function("if_else", [has_thread, rows.column("pid"), constant])
    return filled
