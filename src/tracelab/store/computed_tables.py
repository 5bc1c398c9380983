"""Compute the tables that Python makes, once a session and text that names them, and show them as views."""

import dataclasses
import hashlib
import importlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tracelab import computations
from tracelab.allocator import return_freed_memory
from tracelab.errors import TracelabError, UsageError
from tracelab.paths.columns import (
    array_memory,
    join_chunks,
    narrow_integers,
    nullable_column,
    number_column,
    text_column,
)
from tracelab.store import execution, kept_relations, rollups, session, shared_relations
from tracelab.store.session_cache import SessionCache
from tracelab.store.shared_relations import SCHEMA
from tracelab.table_types import ComputedTable

Params = Mapping[str, str | int | float | bool | None]
Compute = Callable[[dict[str, pa.Table], Params, Callable[[], None]], Mapping[str, pa.Table]]
"""It may take relations out, to free their rows."""

_BATCH_ROWS = 122_880
"""As many as a row group of DuckDB has."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_READERS = 2
_MOST_KEPT = 24
"""For so many values of its parameters, the last ones, the tables of a computation are kept."""
_SMALL_TRACE_BYTES = 8 << 20
"""Relations of a run with smaller traces are bound once, and remembered: planning takes longer than the rows."""
_COMPUTING = threading.RLock()
"""Held where a session computes tables: cursors of several threads may want the same rows."""
_CHECK_AGAIN_S = 0.05


def provide(
    con: duckdb.DuckDBPyConnection, text: str, values: Params | None = None, runs: Sequence[str] | None = None
) -> None:
    """Make what a text names readable, computed or shared: of `runs`, of the run that `values` name, else of all runs.

    `values` are parameters of a query; a computation takes those that it has from them. Shared relations are tables in
    memory, and computed rows remain the Arrow tables that Python made, until the session ends. Raises TracelabError
    where memory does not suffice, and UsageError for a table that a scope has no meaning for.
    """
    run = (values or {}).get("run")
    wanted = runs if runs is not None else [str(run)] if run is not None else None
    rank = (values or {}).get("rank")
    shared_relations.provide(
        con, text, wanted, partial(kept_relations.open_kept, con), None if rank is None else int(rank)
    )
    for computation in shared_relations.named_computations(text):
        params = {name: (values or {}).get(name, default) for name, default in computation.params.items()}
        named = [table.name for table in computation.tables if table.name in shared_relations.words_of(text)]
        if computation.refused_scope is not None and session.scoped_tables(con) is not None:
            raise UsageError(computation.refused_scope)
        with _COMPUTING:
            if not computation.of_many:
                each_run = _stored_runs(con) if wanted is None else wanted
                if wanted is None and len(each_run) > 1:  # once: to plan them for each run takes longer than all else
                    shared_relations.provide(
                        con, "\n".join(computation.texts.values()), None, partial(kept_relations.open_kept, con)
                    )
                stored = [_compute_once(con, computation, each, params) for each in each_run]
            elif computation.kept and (store := session.plain_store(con)) is not None:
                stored = [_provide_kept(con, store, computation, rollups.Selection(wanted, params, named))]
            else:
                stored = [_compute_once(con, computation, None, params)]
        for table in (each for each in computation.tables if all(each.name in names for names in stored)):
            parts = [_select_rows(table, names[table.name]) for names in stored]
            con.execute(
                f"create or replace temp view {table.name} as\n" + "\nunion all ".join(parts or [_no_rows(table)])
            ).fetchall()


def forget(con: duckdb.DuckDBPyConnection) -> None:
    """Drop all computed rows, as where the rows that they rest on change."""
    con.execute(f"drop schema if exists {SCHEMA} cascade").fetchall()


def _stored_runs(con: duckdb.DuckDBPyConnection) -> list[str]:
    return [str(run) for (run,) in con.execute("select distinct run from sources order by run").fetchall()]


def _compute_once(
    con: duckdb.DuckDBPyConnection, computation: computations.Computation, run: str | None, params: Params
) -> dict[str, str]:
    """Compute the tables of one run, or of all, unless the session has them; return their names in `computed`."""
    selection = rollups.Selection(None if run is None else [run], params, [table.name for table in computation.tables])
    return _store_once(con, computation, selection, lambda: compute_tables(con, computation, run, params), run)


def _provide_kept(
    con: duckdb.DuckDBPyConnection, store: Path, computation: computations.Computation, selection: rollups.Selection
) -> dict[str, str]:
    """Take the wanted tables from the store unless the session has them."""

    def compute(opened: duckdb.DuckDBPyConnection) -> Mapping[str, pa.Table]:
        return compute_tables(opened, computation, None, selection.params)

    def collect() -> Mapping[str, pa.Table]:
        return rollups.collect(con, store, computation, selection, compute)

    tables = [table for table in computation.tables if table.name in selection.tables]
    return _store_once(con, dataclasses.replace(computation, tables=tuple(tables)), selection, collect, None)


def _store_once(
    con: duckdb.DuckDBPyConnection,
    computation: computations.Computation,
    selection: rollups.Selection,
    compute: Callable[[], Mapping[str, pa.Table]],
    run: str | None,
) -> dict[str, str]:
    """Store the tables of a computation in the session unless it has them; return the name of each in `computed`."""
    identity = repr((computation.function, selection.runs, sorted(selection.params.items())))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    names = {table.name: f"{table.name}_{digest}" for table in computation.tables}
    shared_relations.create_schema(con)
    existing = con.execute("select view_name from duckdb_views() where schema_name = ?", [SCHEMA]).fetchall()
    if {(name,) for name in names.values()} <= set(existing):
        return names
    computed = dict(compute())
    for table in computation.tables:
        _store(con, table, names[table.name], computed.pop(table.name, None), run)
    return names


def compute_tables(
    con: duckdb.DuckDBPyConnection, computation: computations.Computation, run: str | None, params: Params
) -> Mapping[str, pa.Table]:
    """Return the tables of one run, or of all of a session, from the store where it keeps them, else computed.

    Raises TracelabError where memory does not suffice.
    """
    segment = _find_kept(con, computation, run, params)
    kept = segment.read() if segment is not None else None
    if kept is not None:
        return kept
    budget = _MemoryBudget(con, computation, run)
    compute: Compute = _import_function(computation.function)
    if computation.scope_relations and session.scoped_tables(con) is not None:
        computation = dataclasses.replace(computation, relations=computation.relations | computation.scope_relations)
    with array_memory(), ThreadPoolExecutor(1) as other_core:
        relations, write = _read_condensed(con, computation, run, params, budget)
        writing = other_core.submit(write)
        tables = compute(relations, params, execution.check_interrupted)
        writing.result()
    if segment is not None and tables and budget.rows >= shared_relations.LEAST_KEPT_ROWS:
        segment.write(tables, _MOST_KEPT)
    return tables


def _find_kept(
    con: duckdb.DuckDBPyConnection, computation: computations.Computation, run: str | None, params: Params
) -> kept_relations.KeptSegment | None:
    """Return where the store keeps the tables of a computation for these parameters; None where it does not."""
    if not computation.kept_by_params or run is None or execution.has_few_rows(con):
        return None
    kept = kept_relations.open_kept(con)
    if kept is None or run not in kept.keys:
        return None
    texts = [repr(sorted(params.items())), *shared_relations.texts_of(computation)]
    return kept.find_segment(computation.function, texts, run)


def condensed_computations() -> list[computations.Computation]:
    """Return the computations that make a store keep something in the place of rows, one for each such thing."""
    return list({each.condensed: each for each in computations.COMPUTATIONS if each.condensed is not None}.values())


def keep_condensed(con: duckdb.DuckDBPyConnection, run: str) -> None:
    """Keep what computations of a run read in the place of its rows. Raises TracelabError where memory is too small."""
    for computation in condensed_computations():
        with array_memory():
            budget = _MemoryBudget(con, computation, run)
            _, write = _read_condensed(con, computation, run, computation.params, budget)
            write()


def _import_function(name: str) -> Any:  # noqa: ANN401  a function of some signature
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _read_condensed(
    con: duckdb.DuckDBPyConnection,
    computation: computations.Computation,
    run: str | None,
    params: Params,
    budget: "_MemoryBudget",
) -> tuple[dict[str, pa.Table], Callable[[], None]]:
    """Read the relations of a computation, or what the store keeps in the place of some of them.

    The second item keeps what is not kept yet.
    """
    values, condensed = {**params, "run": run}, computation.condensed
    read = partial(_read_relations, con, values=values, budget=budget, narrow=computation.narrow)
    of_whole = bool(computation.scope_relations)
    kept = kept_relations.open_kept(con, of_whole=of_whole) if condensed and run is not None else None
    if condensed is None or run is None or kept is None or run not in kept.keys:
        return read(computation.texts), _keep_nothing
    texts = computation.texts
    sources = {name: texts[name] for name in condensed.relations}
    others = {name: text for name, text in texts.items() if name not in sources}
    definitions = [*sources.values(), *shared_relations.definitions("\n".join(sources.values()))]
    segment = kept.find_segment(condensed.function, [*definitions, computations.hash_code(condensed.function)], run)
    tables = segment.read()
    if tables is not None:
        budget.add(int(tables[_ROWS].column("rows")[0].as_py()))
        return read(others) | tables, _keep_nothing
    relations = read(texts)
    rows = sum(relations[name].num_rows for name in sources)
    if rows < shared_relations.LEAST_KEPT_ROWS:
        return relations, _keep_nothing
    tables = dict(_import_function(condensed.function)(relations, execution.check_interrupted))
    tables[_ROWS] = pa.table({"rows": nullable_column([rows])})
    return {name: relations[name] for name in others} | tables, partial(segment.write, tables)


def _keep_nothing() -> None:
    """Keep no rows, where the store has them or they are few."""


_ROWS = "rows"
"""The table with the number of rows that condensed tables were made of."""


class _MemoryBudget:
    """The rows of a computation so far, and the memory that they take."""

    def __init__(self, con: duckdb.DuckDBPyConnection, computation: computations.Computation, run: str | None) -> None:
        ((setting,),) = con.execute("select current_setting('memory_limit')").fetchall()
        self._limit = _parse_size(str(setting))
        self._row_bytes = computation.row_bytes
        of_run = "" if run is None else f" of run {run}"
        self._what = f"{' and '.join(table.name for table in computation.tables)}{of_run}"
        self._rows = 0
        self._counting = threading.Lock()

    @property
    def rows(self) -> int:
        """Return how many rows were counted."""
        return self._rows

    def add(self, rows: int) -> None:
        """Count rows. Raises TracelabError if they need more memory than the session may use."""
        with self._counting:
            self._rows += rows
            needed = self._rows * self._row_bytes
        if needed > self._limit:
            raise TracelabError(
                f"{self._what} take over {needed / 1e6:,.0f} MB, and the limit is {self._limit / 1e6:,.0f} MB; "
                "raise the limit (--memory-limit), or select less"
            )


def _read_relations(
    con: duckdb.DuckDBPyConnection,
    relations: Mapping[str, str],
    *,
    values: Params,
    budget: _MemoryBudget,
    narrow: bool,
) -> dict[str, pa.Table]:
    """Read relations two at a time: what takes long in one of them may occupy a single core.

    Each has a cursor of its own, which sees the views and macros of the session, and stops where the session does. The
    computed tables that some of them read are made meanwhile, for each cursor, since temporary views are those of one.
    """
    cache = _find_cache(con, values.get("run"))
    cursors = {name: con.cursor() for name in relations}
    reads: dict[str, Future[pa.Table]] = {}
    of_computed = [name for name, sql in relations.items() if shared_relations.names_computed(sql)]
    with ThreadPoolExecutor(_READERS) as pool:

        def start(names: Iterable[str]) -> None:
            for name in names:
                of_rows = None if name in of_computed else cache
                read = partial(_read_relation, cursors[name], relations[name], values, budget, narrow=narrow)
                reads[name] = pool.submit(read, cache=of_rows)

        try:
            start(name for name in relations if name not in of_computed)
            for name in of_computed:
                provide(cursors[name], relations[name], values)
            start(of_computed)
            while (state := wait(reads.values(), _CHECK_AGAIN_S, FIRST_EXCEPTION)).not_done:
                execution.check_interrupted()
                for read in state.done:
                    read.result()  # raises at once what one of them raised
            return {name: reads[name].result() for name in relations}
        finally:
            for read in reads.values():
                read.cancel()
            while wait(reads.values(), 0).not_done:
                for cursor in cursors.values():
                    cursor.interrupt()
                wait(reads.values(), _CHECK_AGAIN_S)
            for cursor in cursors.values():
                cursor.close()


def _find_cache(con: duckdb.DuckDBPyConnection, run: object) -> SessionCache | None:
    """Return what remembers the relations of a small run; None for another run, and for all runs together."""
    is_small = any(each.name == run and each.size_bytes < _SMALL_TRACE_BYTES for each in rollups.list_runs(con, None))
    return SessionCache.of(con) if is_small else None


def _read_relation(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    values: Params,
    budget: _MemoryBudget,
    *,
    narrow: bool,
    cache: SessionCache | None,
) -> pa.Table:
    """Read a relation, or take it from what the session remembers of a small run.

    DuckDB binds a relation twice, and holds its rows in batches; it binds a statement once, and holds all its rows.
    """
    used = {name: value for name, value in values.items() if f"${name}" in _params_of(sql)}
    if cache is None:
        return _copy_rows(con.sql(sql, params=used).to_arrow_reader(_BATCH_ROWS), budget, narrow=narrow)
    key = (sql, narrow, *used.items())
    rows: pa.Table | None = cache.get(key)
    if rows is None:
        reader = execution.fetch_table(con, sql, used).to_reader(_BATCH_ROWS)
        rows = _copy_rows(reader, budget, narrow=narrow)
        cache.put(key, rows, rows.nbytes)
    else:
        budget.add(rows.num_rows)
    return rows


def _copy_rows(reader: pa.RecordBatchReader, budget: _MemoryBudget, *, narrow: bool) -> pa.Table:
    """Copy rows out of a reader, texts as dictionaries: a million names take less memory as numbers.

    With `narrow`, whole numbers have as few bytes as they need.
    """
    columns: list[list[pa.Array[Any]]] = [[] for _ in reader.schema]
    for batch in reader:
        execution.check_interrupted()
        budget.add(batch.num_rows)
        for parts, column in zip(columns, batch.columns, strict=True):
            parts.append((_narrow(column) if narrow else None) or _copy_column(column))
    if not columns[0]:
        return pa.Table.from_batches([], reader.schema)
    return_freed_memory()
    joined = [_join(columns, number) for number in range(len(columns))]
    if narrow:
        joined = [_narrow(column) or column for column in joined]
    return_freed_memory()  # what the parts took: arrays of a large run are too large to reuse it
    return pa.table(joined, reader.schema.names)


def _copy_column(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return a copy of a column, of texts as a dictionary: any column of DuckDB keeps all of its batch in memory."""
    if pa.types.is_string(column.type):
        return column.dictionary_encode()
    if isinstance(column, pa.DictionaryArray):
        texts = text_column(column.dictionary.to_pylist())
        return pa.DictionaryArray.from_arrays(_copy_column(column.indices), texts)
    if not pa.types.is_primitive(column.type):
        return column
    buffers = [None if each is None else pa.py_buffer(each.to_pybytes()) for each in column.buffers()]
    return pa.Array.from_buffers(column.type, len(column), buffers, column.null_count, column.offset)


def _narrow(column: "pa.Array[Any]") -> "pa.Array[Any] | None":
    """Return a copy of a column whose whole numbers, or those of its texts, have fewer bytes; None where none has."""
    if isinstance(column, pa.DictionaryArray):
        indices = _narrow(column.indices)
        return None if indices is None else pa.DictionaryArray.from_arrays(indices, column.dictionary)
    return narrow_integers(column) if pa.types.is_signed_integer(column.type) else None


def _join(columns: "list[list[pa.Array[Any]]]", number: int) -> "pa.Array[Any]":
    """Return the parts of a column as one, and free them, before those of the next column are joined."""
    parts, columns[number] = columns[number], []
    if pa.types.is_signed_integer(parts[0].type):
        widest = max((part.type for part in parts), key=lambda kind: kind.bit_width)
        parts = [part.cast(widest) for part in parts]
    return join_chunks(pa.chunked_array(parts).unify_dictionaries())


def _params_of(sql: str) -> set[str]:
    return set(re.findall(r"\$\w+", sql))


def _store(
    con: duckdb.DuckDBPyConnection, table: ComputedTable, name: str, rows: pa.Table | None, run: str | None
) -> None:
    """Make computed rows readable as a view of all cursors; None are no rows.

    DuckDB reads Arrow's columns in place: a table takes seven times the memory of a path of millions of rows.
    """
    if rows is None:
        con.execute(f'create or replace view {SCHEMA}."{name}" as {_no_rows(table)}').fetchall()
        return
    if run is not None:
        of_run = pa.DictionaryArray.from_arrays(number_column(np.zeros(rows.num_rows, np.int8)), text_column([run]))
        rows = rows.append_column("run", of_run)
    with closing(con.cursor()) as cursor:  # a view of Arrow's rows takes no name of a schema
        cursor.execute(f"use {SCHEMA}").fetchall()
        cursor.from_arrow(pa.Table.from_batches(rows.to_batches(_BATCH_ROWS), rows.schema)).create_view(name)


def _select_rows(table: ComputedTable, name: str) -> str:
    """Return a SELECT of stored rows in the types of the schema."""
    columns = ", ".join(f'"{column.name}"::{column.duckdb} as "{column.name}"' for column in table.own)
    return f'select run::varchar as run, {columns} from {SCHEMA}."{name}"'


def _no_rows(table: ComputedTable) -> str:
    columns = ", ".join(f'null::{column.duckdb} as "{column.name}"' for column in table.view_columns)
    return f"select {columns} where false"


def _parse_size(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?I?)(?:B|bytes?)?", text.strip(), re.IGNORECASE)
    return float(match[1]) * _UNITS[match[2].upper()] if match else float("inf")
