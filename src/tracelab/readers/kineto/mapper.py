"""Map parsed events to rows: classify them by shape, compile a mapping to SQL, and run it on DuckDB."""

import contextlib
import json
import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow._compute import call_function  # pyarrow.compute takes 40 ms to import

from tracelab import schema
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import (
    COUNTERS,
    KINDS,
    LEFTOVER,
    MAPPINGS,
    NO_GROUPS,
    SECONDARY_LEFTOVER,
    Mapping,
    Value,
)
from tracelab.readers.kineto.parser.types import Shape
from tracelab.store.writer import null_rows

_MAX_BOUND_QUERIES = 256

_LABEL = "table_number"
"""A column of events from several files: the number of the table that they come from."""

_BASE_COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("ph", "source_cat", "name"), pa.dictionary(pa.int32(), pa.string())),
    **dict.fromkeys(("pid", "tid", LEFTOVER, SECONDARY_LEFTOVER), pa.string()),
    **dict.fromkeys(("start_ns", "dur_ns"), pa.int64()),
}


_Values: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

_MIN_EVENTS_BY_TEXT = 1 << 13
"""Planning another query takes longer than computing a text for so many events."""


@dataclass
class Rows:
    """Rows by table, without `run`, `source` and `rank`, and what the reader noticed."""

    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    events_kept: int = 0
    events_skipped: int = 0
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)


class Connection:
    """A DuckDB connection that binds each query once: binding takes as long as loading some thousand events."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._bound: dict[str, duckdb.DuckDBPyRelation] = {}
        self._registered: set[str] = set()

    def register(self, name: str, rows: pa.Table) -> None:
        """Make a table available to queries under a name."""
        self._connection.register(name, rows)
        self._registered.add(name)

    def unregister(self, name: str) -> None:
        """Release a table."""
        self._connection.unregister(name)
        self._registered.discard(name)

    def arrow(self, query: str) -> pa.Table:
        """Run a query and return its result as Arrow, unchunked unless it is longer than a chunk of a trace."""
        bound = self._bound.get(query)
        if bound is None:
            bound = self._connection.sql(query)
            assert bound is not None  # noqa: S101 - a query always has a result; the stub also covers statements
            if len(self._bound) == _MAX_BOUND_QUERIES:
                self._bound.clear()
            self._bound[query] = bound
        table: pa.Table = bound.to_arrow_table()
        return table

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query and return its few rows."""
        return self._connection.execute(query).fetchall()

    def unregister_all(self) -> None:
        """Unregister all tables but keep the bound queries."""
        for name in list(self._registered):
            self.unregister(name)

    def close(self) -> None:
        """Close the connection."""
        self._bound.clear()
        self._connection.close()


_idle_connections: deque[Connection] = deque()


@contextlib.contextmanager
def borrow_connection() -> Iterator[Connection]:
    """Lend a connection while a file is read; the next file gets it again, for most queries of two files are equal."""
    try:
        connection = _idle_connections.pop()
    except IndexError:
        connection = Connection(_engine().cursor())
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    connection.unregister_all()
    _idle_connections.append(connection)


def open_cursor() -> duckdb.DuckDBPyConnection:
    """Return a new connection to the engine of the mappings; opening another engine takes longer than most queries."""
    return _engine().cursor()


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB in memory that runs each query on the calling thread."""
    return duckdb.connect(
        config={
            "threads": 1,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


class Mapper:
    """Maps events of one file, a batch of one kind at a time."""

    def __init__(self, connection: Connection, gpu_pid: int | None, cut_groups: str = NO_GROUPS) -> None:
        pid = "NULL" if gpu_pid is None else str(gpu_pid)
        self._init(connection, f"{pid}::bigint as gpu_pid, {cut_groups} as cut_groups, '' as group_prefix", labels=())

    def _init(self, connection: Connection, of_file: str, labels: tuple[str, ...]) -> None:
        self._connection, self._of_file, self._labels = connection, of_file, labels

    @classmethod
    def of_many_files(cls, connection: Connection, cut_groups: str = NO_GROUPS) -> "Mapper":
        """Return a mapper for events of several files, labeled by `label_events`; its rows keep the label.

        The keys of `cut_groups` are those of `label_group`.
        """
        mapper = cls.__new__(cls)
        mapper._init(connection, f"{cut_groups} as cut_groups, {_LABEL} || ' ' as group_prefix", labels=(_LABEL,))
        return mapper

    def add_rows(self, kind: int, batch: list[pa.Table], rows: Rows) -> None:
        """Map a batch of events of one kind and add the results to `rows`."""
        together = pa.concat_tables(batch, promote_options="default").unify_dictionaries()
        events = _add_missing_columns(together)
        self._connection.register("events", events)
        if kind == COUNTERS:
            rows.tables.append(("counters", self._connection.arrow(_COUNTERS_QUERY)))
            return
        present = [key for key in mapping.ARGUMENT_TYPES if mapping.argument_column(key) in events.column_names]
        target = KINDS[kind]
        condition = "true"
        if target is mapping.OPS and _any_starts_with(events.column("name"), mapping.STEP_PREFIX):
            condition = f"not coalesce({_IS_STEP}, false)"
            rows.tables.append((mapping.STEPS.table, self._map_steps(present)))
        if condition == "true":
            rows.tables.append((target.table, self._map_all(target, present, events)))
        else:
            rows.tables.append((target.table, self._map(target, present, condition, _quote(LEFTOVER))))
        secondary = mapping.secondary_mapping(target)
        carriers = [key for key in mapping.COLLECTIVE_KEYS if key in present]
        if secondary and (carriers or events.column(SECONDARY_LEFTOVER).null_count < len(events)):
            columns = (*(mapping.argument_column(key) for key in carriers), SECONDARY_LEFTOVER)
            condition = " or ".join(f"{_quote(column)} is not null" for column in columns)
            rows.tables.append((secondary.table, self._map(secondary, present, condition, _quote(SECONDARY_LEFTOVER))))

    def _map_steps(self, present: Collection[str]) -> pa.Table:
        """Map the steps among ops; what an op has a column for is an argument of an annotation."""
        keys = sorted(mapping.argument_keys(mapping.OPS).intersection(present))
        as_json = {key: "::json" if mapping.ARGUMENT_TYPES[key] == "JSON" else "" for key in keys}
        pairs = ", ".join(f"'{key}', {_quote(mapping.argument_column(key))}{as_json[key]}" for key in keys)
        arguments = (
            f"json_merge_patch(coalesce({_quote(LEFTOVER)}, '{{}}')::json, json_object({pairs}))"  # without NULL
        )
        return self._map(mapping.STEPS, present, _IS_STEP, arguments)

    def _map(self, target: Mapping, present: Collection[str], condition: str, leftover: str) -> pa.Table:
        return self._query(target.table, _render_columns(target, present, leftover), condition, self._labels)

    def _map_all(self, target: Mapping, present: Collection[str], events: pa.Table) -> pa.Table:
        """Map all events. DuckDB sees only the columns that it computes: the others are the same in events and rows."""
        columns: dict[str, _Values] = dict(_take_columns(target, present, events))
        rendered = _render_columns(target, present, _quote(LEFTOVER))
        if len(events) >= _MIN_EVENTS_BY_TEXT:
            for text in ("source_cat", "name"):
                of_text = [name for name in rendered if _depends_on(text, target.columns.get(name), present)]
                columns |= self._map_texts(
                    target, {name: rendered[name] for name in of_text}, events.column(text), text
                )
        computed = {name: text for name, text in rendered.items() if name not in columns}
        if computed:
            rows = self._query(target.table, computed, "true", ())
            columns |= {name: rows.column(name) for name in computed}
        labels = {label: events.column(label) for label in self._labels}
        return pa.table({name: columns[name] for name in rendered} | labels)

    def _map_texts(
        self, target: Mapping, rendered: dict[str, str], texts: "pa.ChunkedArray[Any]", name: str
    ) -> dict[str, _Values]:
        """Compute columns once for each different text of a column whose chunks share a dictionary."""
        if not rendered:
            return {}
        chunks = [chunk for chunk in texts.chunks if isinstance(chunk, pa.DictionaryArray)]
        dictionary = chunks[0].dictionary
        distinct = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
        self._connection.register("texts", _add_missing_columns(pa.table({name: distinct})))
        rows = self._query(target.table, rendered, "true", (), relation="texts")
        self._connection.unregister("texts")
        codes = call_function(
            "coalesce", [pa.concat_arrays([chunk.indices for chunk in chunks]), pa.scalar(len(dictionary), pa.int32())]
        )
        return {column: _repeat_values(rows.column(column).combine_chunks(), codes) for column in rendered}

    def _query(
        self, table: str, columns: dict[str, str], condition: str, labels: Sequence[str], relation: str = "events"
    ) -> pa.Table:
        """Return columns of a table's rows, each computed by SQL over a relation of events or texts, and the labels."""
        derived = f"{category_sql('source_cat')} as cat"
        if relation == "events":
            derived += f", {self._of_file}"
        selected = ", ".join([_select_list(table, columns), *labels])
        return self._connection.arrow(f"select {selected} from (select *, {derived} from {relation} where {condition})")


def label_events(events: pa.Table, number: int, gpu_pid: int | None) -> pa.Table:
    """Add what `Mapper.of_many_files` needs: the number of this table, and the process of its file's GPU rows."""
    rows = len(events)
    numbers = pa.array(np.full(rows, number, np.int32))
    pids = pa.nulls(rows, pa.int64()) if gpu_pid is None else pa.array(np.full(rows, gpu_pid, np.int64))
    return events.append_column(_LABEL, numbers).append_column("gpu_pid", pids)


def label_group(number: int, name: str) -> str:
    """Return the key under which `Mapper.of_many_files` finds a process group of the file with this number."""
    return f"{number} {name}"


def split_labels(rows: pa.Table) -> tuple[pa.Table, list[int], list[int]]:
    """Return the rows without the label, each number of which there are rows, and how many rows it has.

    A mapping keeps the order, so that the rows of a number are adjacent.
    """
    labels = rows.column(_LABEL).to_numpy()
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    return rows.drop_columns(_LABEL), labels[starts].tolist(), np.diff(starts, append=len(labels)).tolist()


_kind_by_shape: dict[Shape, int] = {}
_classifying = threading.Lock()
"""Held while DuckDB evaluates shapes: the first chunks of a file mostly have the same ones."""


def classify_shapes(shapes: Sequence[Shape], connection: Connection) -> list[int]:
    """Return the kind of each shape: the index of the first mapping that takes it. DuckDB evaluates each shape once."""
    with _classifying:
        new = [shape for shape in dict.fromkeys(shapes) if shape not in _kind_by_shape]
        if new:
            _kind_by_shape.update(_query_kinds(new, connection))
    return [_kind_by_shape[shape] for shape in shapes]


def _query_kinds(new: Sequence[Shape], connection: Connection) -> Iterator[tuple[Shape, int]]:
    columns = ("ph", "source_cat", "name")
    table = {column: pa.array([getattr(shape, column) for shape in new], pa.string()) for column in columns}
    table["args"] = pa.array([_WATCHED_ARGS if shape.has_watched_key else "{}" for shape in new])
    connection.register("shapes", pa.table(table))
    kinds: list[int] = connection.arrow(_KINDS_QUERY).column("kind").to_numpy().tolist()
    connection.unregister("shapes")
    return zip(new, kinds, strict=True)


def category_sql(column: str) -> str:
    """Return SQL for the current name of a category, in lower case."""
    whens = " ".join(f"when '{old}' then '{new}'" for old, new in mapping.CATEGORY_ALIASES.items())
    return f"case lower({column}) {whens} else lower({column}) end"


def _render_columns(target: Mapping, present: Collection[str], leftover: str) -> dict[str, str]:
    """Return SQL over `events` for each column of a table; `present` are the arguments with a column.

    `leftover` is SQL for the arguments that this table has no column for.
    """

    def reference(keys: tuple[str, ...], kind: str) -> str:
        columns = [_quote(mapping.argument_column(key)) for key in keys if key in present]
        if kind == "DOUBLE":
            columns = [f"try_cast({column} as double)" for column in columns]
        if not columns:
            return f"(NULL::{kind})"
        return columns[0] if len(columns) == 1 else f"coalesce({', '.join(columns)})"

    return {"args": leftover} | {
        column: value.template.format(*(reference(keys, kind) for keys, kind in value.arguments))
        for column, value in target.columns.items()
    }


def _take_columns(target: Mapping, present: Collection[str], events: pa.Table) -> "dict[str, pa.ChunkedArray[Any]]":
    """Return the columns of a table that events have as they are; where they have no value, NULL."""
    taken: dict[str, pa.ChunkedArray[Any]] = {}
    for name, value in ({"args": _LEFTOVER_ARGUMENTS} | target.columns).items():
        sources = _list_sources(value, present)
        as_type = schema.BY_NAME[target.table].arrow.field(name).type
        if sources == []:
            taken[name] = pa.chunked_array([null_rows(len(events), as_type)])
        elif sources and len(sources) == 1:
            values = events.column(sources[0])
            if value.template == mapping.ID_ITSELF and _has_missing_ids(values):
                continue
            if values.type in (as_type, pa.dictionary(pa.int32(), as_type)):
                taken[name] = values
    return taken


def _list_sources(value: Value, present: Collection[str]) -> list[str] | None:
    """Return the columns of events of which a value is the first that is not NULL; None where it is computed."""
    if value.template not in (mapping.ARGUMENT_ITSELF, mapping.ID_ITSELF):
        return [value.column] if value.column else None
    keys, _ = value.arguments[0]
    return [mapping.argument_column(key) for key in keys if key in present]


def _has_missing_ids(ids: "pa.ChunkedArray[Any]") -> bool:
    return any(
        call_function("any", [call_function("equal", [ids, pa.scalar(missing)])]).as_py()
        for missing in (mapping.NO_ID, mapping.NO_ID32)
    )


def _depends_on(text: str, value: Value | None, present: Collection[str]) -> bool:
    """Whether a value depends on this column of texts alone."""
    return (
        value is not None
        and value.text == text
        and not any(key in present for keys, _ in value.arguments for key in keys)
    )


def _repeat_values(values: "pa.Array[Any]", codes: "pa.Array[Any]") -> _Values:
    """Return the value that each code is the place of; texts as a dictionary."""
    if not pa.types.is_string(values.type):
        repeated: _Values = call_function("take", [values, codes])
        return repeated
    encoded = call_function("dictionary_encode", [values])
    assert isinstance(encoded, pa.DictionaryArray)  # noqa: S101 - for the type checker
    return pa.DictionaryArray.from_arrays(call_function("take", [encoded.indices, codes]), encoded.dictionary)


def _select_list(table: str, columns: dict[str, str]) -> str:
    """Return the select list of a table: each expression cast to its column's type; absent columns become NULL."""
    types = {column.name: column.duckdb for column in schema.BY_NAME[table].columns}
    casts = {column: "try_cast" if types[column] == "integer" else "cast" for column in columns}
    return ", ".join(
        f"{casts[column]}({text} as {types[column]}) as {_quote(column)}" for column, text in columns.items()
    )


def _add_missing_columns(events: pa.Table) -> pa.Table:
    """Add the columns other than arguments that mappings can refer to, as NULL, where the events lack them."""
    for column, kind in _BASE_COLUMNS.items():
        if column not in events.column_names:
            events = events.append_column(column, null_rows(len(events), kind))
    return events


def _any_starts_with(texts: "pa.ChunkedArray[Any]", prefix: str) -> bool:
    """Whether any text of a column whose chunks share a dictionary begins with the prefix."""
    first = texts.chunk(0)
    assert isinstance(first, pa.DictionaryArray)  # noqa: S101 - for the type checker
    return any(text.startswith(prefix) for text in first.dictionary.to_pylist() if text is not None)


def _quote(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


_LEFTOVER_ARGUMENTS = Value(_quote(LEFTOVER), column=LEFTOVER)
_IS_STEP = f"starts_with(name, '{mapping.STEP_PREFIX}')"
_WATCHED_ARGS = json.dumps(dict.fromkeys([mapping.WATCHED_KEY]))
_KIND_CASES = " ".join(f"when {target.where} then {kind}" for kind, target in enumerate(MAPPINGS))
_KINDS_QUERY = f"""
    with categorized as (select *, {category_sql("source_cat")} as cat from shapes)
    select case {_KIND_CASES} when ph = 'C' then {COUNTERS} else {len(MAPPINGS)} end as kind from categorized
"""
_COUNTERS_QUERY = f"""
    with entries as (
        select pid, name, start_ns, map_entries(json_transform(args, '"MAP(VARCHAR, VARCHAR)"')) as entries from events
    ), series as (
        select pid, name, start_ns, unnest(coalesce(nullif(entries, []), [null])) as entry from entries
    ), named as (
        select pid, name, start_ns, entry.key as key, entry.value as value from series
    )
    select {
    _select_list(
        "counters",
        {
            "pid": "try_cast(pid as bigint)",
            "time_ns": "start_ns",
            "name": "case when key is null or key in ('', name, 'value') then name else concat_ws('.', name, key) end",
            "value": "try_cast(value as double)",
        },
    )
} from named
"""
