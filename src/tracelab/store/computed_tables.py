"""Compute the tables that Python makes, once a session and text that names them, and show them as views."""

import hashlib
import importlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import duckdb
import pyarrow as pa

from tracelab import schema
from tracelab.errors import TracelabError
from tracelab.store import execution

Params = Mapping[str, str | int | float | bool | None]
Compute = Callable[[Mapping[str, pa.Table], Params, Callable[[], None]], Mapping[str, pa.Table]]

_SCHEMA = "computed"
_BATCH_ROWS = 122_880
"""As many as a row group of DuckDB has."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_READERS = 2
_CHECK_AGAIN_S = 0.05
_computing = threading.RLock()


def provide(
    con: duckdb.DuckDBPyConnection, text: str, values: Params | None = None, runs: Sequence[str] | None = None
) -> None:
    """Make the computed tables that a text names readable: of `runs`, of the run that `values` name, else of all runs.

    `values` are parameters of a query; a computation takes those that it has from them. Tables in memory, which count
    towards the memory limit, keep the rows until the session ends. Raises TracelabError where memory does not suffice.
    """
    for computation in schema.named_computations(text):
        params = {name: (values or {}).get(name, default) for name, default in computation.params.items()}
        run = (values or {}).get("run")
        wanted = runs if runs is not None else [str(run)] if run is not None else _stored_runs(con)
        with _computing:
            stored = [_compute_once(con, computation, each, params) for each in wanted]
        for table in computation.tables:
            parts = [f'from {_SCHEMA}."{names[table.name]}"' for names in stored]
            con.execute(
                f"create or replace temp view {table.name} as\n" + "\nunion all ".join(parts or [_no_rows(table)])
            ).fetchall()


def forget(con: duckdb.DuckDBPyConnection) -> None:
    """Drop all computed rows, as where the rows that they rest on change."""
    con.execute(f"drop schema if exists {_SCHEMA} cascade").fetchall()


def _stored_runs(con: duckdb.DuckDBPyConnection) -> list[str]:
    return [str(run) for (run,) in con.execute("select distinct run from sources order by run").fetchall()]


def _compute_once(
    con: duckdb.DuckDBPyConnection, computation: schema.Computation, run: str, params: Params
) -> dict[str, str]:
    """Compute the tables of one run unless the session has them; return the name of each in the schema `computed`."""
    identity = repr((computation.function, run, sorted(params.items())))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    names = {table.name: f"{table.name}_{digest}" for table in computation.tables}
    con.execute(f"create schema if not exists {_SCHEMA}").fetchall()
    existing = con.execute("select table_name from duckdb_tables() where schema_name = ?", [_SCHEMA]).fetchall()
    if {(name,) for name in names.values()} <= set(existing):
        return names
    budget = _MemoryBudget(con, computation, run)
    values = {**params, "run": run}
    relations = _read_relations(con, computation.relations, values, budget)
    module, _, function = computation.function.partition(":")
    compute: Compute = getattr(importlib.import_module(module), function)
    computed = compute(relations, params, execution.check_interrupted)
    for table in computation.tables:
        _store(con, table, names[table.name], computed.get(table.name), run)
    return names


class _MemoryBudget:
    """The rows of a computation so far, and the memory that they take."""

    def __init__(self, con: duckdb.DuckDBPyConnection, computation: schema.Computation, run: str) -> None:
        ((setting,),) = con.execute("select current_setting('memory_limit')").fetchall()
        self._limit = _parse_size(str(setting))
        self._row_bytes = computation.row_bytes
        self._what = f"{' and '.join(table.name for table in computation.tables)} of run {run}"
        self._rows = 0
        self._counting = threading.Lock()

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
    con: duckdb.DuckDBPyConnection, relations: Mapping[str, str], values: Params, budget: _MemoryBudget
) -> dict[str, pa.Table]:
    """Read relations two at a time: what takes long in one of them may occupy a single core.

    Each has a cursor of its own, which sees the views and macros of the session, and stops where the session does.
    """
    cursors = [con.cursor() for _ in relations]
    with ThreadPoolExecutor(_READERS) as pool:
        reads = [
            pool.submit(_read_relation, cursor, sql, values, budget)
            for cursor, sql in zip(cursors, relations.values(), strict=True)
        ]
        try:
            while (state := wait(reads, _CHECK_AGAIN_S, FIRST_EXCEPTION)).not_done:
                execution.check_interrupted()
                for read in state.done:
                    read.result()  # raises at once what one of them raised
            return dict(zip(relations, [read.result() for read in reads], strict=True))
        finally:
            for read in reads:
                read.cancel()
            while wait(reads, 0).not_done:
                for cursor in cursors:
                    cursor.interrupt()
                wait(reads, _CHECK_AGAIN_S)
            for cursor in cursors:
                cursor.close()


def _read_relation(con: duckdb.DuckDBPyConnection, sql: str, values: Params, budget: _MemoryBudget) -> pa.Table:
    """Read a relation, its texts as dictionaries: a million names take less memory as numbers."""
    relation = con.sql(sql, params={name: value for name, value in values.items() if f"${name}" in _params_of(sql)})
    reader = relation.to_arrow_reader(_BATCH_ROWS)
    batches = []
    for batch in reader:
        execution.check_interrupted()
        budget.add(batch.num_rows)
        columns = [
            column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))
    if not batches:
        return pa.Table.from_batches([], reader.schema)
    rows: pa.Table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return rows


def _params_of(sql: str) -> set[str]:
    return set(re.findall(r"\$\w+", sql))


def _store(
    con: duckdb.DuckDBPyConnection, table: schema.ComputedTable, name: str, rows: pa.Table | None, run: str
) -> None:
    """Write computed rows into a table in memory, in the types of the schema; None are no rows."""
    if rows is None:
        con.execute(f'create or replace table {_SCHEMA}."{name}" as {_no_rows(table)}').fetchall()
        return
    columns = ", ".join(f'"{column.name}"::{column.duckdb} as "{column.name}"' for column in table.own)
    con.register("computed_rows", rows)
    try:
        con.execute(
            f'create or replace table {_SCHEMA}."{name}" as select ?::varchar as run, {columns} from computed_rows',
            [run],
        ).fetchall()
    finally:
        con.unregister("computed_rows")


def _no_rows(table: schema.ComputedTable) -> str:
    columns = ", ".join(f'null::{column.duckdb} as "{column.name}"' for column in table.view_columns)
    return f"select {columns} where false"


def _parse_size(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?I?)(?:B|bytes?)?", text.strip(), re.IGNORECASE)
    return float(match[1]) * _UNITS[match[2].upper()] if match else float("inf")
