"""Keep tables with a few rows a run in the store, so that queries over many runs read only these.

    .rollups/<definition>/<segment>/<table>.parquet

A segment has the rows of some runs, and in `keys.parquet` what they rest on: a hash of the committed sources of each
run. Rows whose hash is another by now are ignored. A segment is written aside and renamed, and never changed; many
small ones become one. In a store at a URL it is put with `keys.parquet` last.
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import computations, schema
from tracelab.errors import StoreError
from tracelab.paths.columns import text_column
from tracelab.resources import QUERIES
from tracelab.store import execution, remote, session, shared_relations
from tracelab.store.files import StoreFiles, is_copy
from tracelab.store.session_cache import SessionCache

FOLDER = ".rollups"
_KEYS = "keys"
KEYS_FILE = f"{_KEYS}.parquet"
_TABLES = b"tables"
"""Metadata of the file of keys with the names of the tables beside it."""
_MOST_SEGMENTS = 8
_MOST_SOURCES = 4_000
_MOST_BYTES = 1 << 30
"""Sources, and bytes of traces, whose runs are computed together: planning costs per query, memory per row."""
_ATTEMPTS = 3
"""How often segments are listed anew that another process has merged meanwhile."""
_KEYS_SQL = """
select
    run,
    md5(string_agg(concat_ws('|', source, reader_version, epoch_us(ingested_at)), ',' order by source)) as key,
    count(*) as sources,
    sum(coalesce(size_bytes, 0))::bigint as size_bytes
from sources
where $run is null or run = $run
group by run
order by run
"""

Tables = Mapping[str, pa.Table]
Compute = Callable[[duckdb.DuckDBPyConnection], Tables]
Params = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True)
class Selection:
    """The wanted runs, None for all, the parameters of the computation, and the wanted tables of it."""

    runs: Sequence[str] | None
    params: Params
    tables: Sequence[str]


@dataclass(frozen=True)
class _Run:
    """A run of the store: `key` is another one once a source is added, replaced or removed."""

    name: str
    key: str
    sources: int
    size_bytes: int


@dataclass(frozen=True)
class _Segment:
    """A folder with the tables of some runs, and the keys of those."""

    folder: Path
    keys: Mapping[str, str]
    runs: set[str] = field(default_factory=set)
    """The runs whose rows are taken from it."""


def compute_rollups(relations: Tables, _params: Params, _check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of each rollup: its SQL in queries/rollups reads the relations."""
    (computation,) = (each for each in computations.COMPUTATIONS if each.kept)
    with closing(session.open_duckdb()) as con:
        for name, rows in relations.items():
            con.register(f"given_{name}", rows)
            texts = ", ".join(f'"{each.name}"::varchar as "{each.name}"' for each in rows.schema if _is_coded(each))
            con.execute(f"create table {name} as select *{f' replace ({texts})' if texts else ''} from given_{name}")
            con.unregister(f"given_{name}")
        return {table.name: execution.fetch_table(con, _read_sql(table.name)) for table in computation.tables}


def _is_coded(column: "pa.Field[pa.DataType]") -> bool:
    return pa.types.is_dictionary(column.type)


def _read_sql(table: str) -> str:
    return (QUERIES / "rollups" / f"{table}.sql").read_text(encoding="utf-8")


def collect(
    con: duckdb.DuckDBPyConnection,
    store: Path,
    computation: computations.Computation,
    selection: Selection,
    compute: Compute,
) -> dict[str, pa.Table]:
    """Return the tables of a computation, computing only those of runs whose sources have changed since.

    `con` is a session over all of the store; `compute` takes one over some of its runs.
    """
    folder = store / FOLDER / _name_definition(store, computation, selection.params)
    is_remote = is_copy(store)
    if is_remote:
        remote.fetch_below(store, folder.relative_to(store).as_posix(), KEYS_FILE)
    runs = list_runs(con, selection.runs)
    kept, missing = _read_kept(folder, selection.tables, runs)
    for batch in _batches(missing):
        referenced = "\n".join(("sources", *computation.texts.values()))
        names = [run.name for run in batch]
        is_all = selection.runs is None and len(batch) == len(runs)  # a session of all rows reads kept relations
        with closing(session.connect(store, referenced=referenced, runs=None if is_all else names)) as opened:
            opened.execute("set enable_progress_bar = false").fetchall()
            tables = {name: _select_runs(table, names) for name, table in compute(opened).items()}
        kept.append({name: tables[name] for name in selection.tables})
        segment = write_segment(folder / uuid.uuid4().hex, tables, {run.name: run.key for run in batch})
        if segment and is_remote:
            _publish(store, segment, ())
    if len(kept) > _MOST_SEGMENTS and selection.runs is None:
        merged, replaced = _merge(folder, [table.name for table in computation.tables], runs)
        if merged and is_remote:
            _publish(store, merged, replaced)
    return {name: _concat([tables[name] for tables in kept]) for name in selection.tables if kept}


def _read_kept(folder: Path, names: Sequence[str], runs: Sequence[_Run]) -> tuple[list[Tables], list[_Run]]:
    """Read the current rows, of each segment together; return them, and the runs that have none."""
    for _ in range(_ATTEMPTS):
        segments, missing = _assign(list_segments(folder), runs)
        try:
            return [_read_segment(segment, names) for segment in segments], missing
        except FileNotFoundError:  # merged since it was listed
            continue
    return [], list(runs)


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive")


def list_runs(con: duckdb.DuckDBPyConnection, wanted: Sequence[str] | None) -> list[_Run]:
    """Return the wanted runs of a session, or all, in order."""
    only = wanted[0] if wanted is not None and len(wanted) == 1 else None

    def read() -> list[_Run]:
        return [_Run(*row) for row in con.execute(_KEYS_SQL, {"run": only}).fetchall()]

    runs: list[_Run] = SessionCache.of(con).get_or_make(("runs", only), read)
    return [run for run in runs if wanted is None or run.name in wanted]


def _name_definition(store: Path, computation: computations.Computation, params: Params) -> str:
    """Return the hash of all that the rows follow from beside the sources: queries, macros, rules, parameters."""
    texts = [
        schema.SCHEMA_VERSION,
        repr(sorted(params.items())),
        *computation.texts.values(),
        *shared_relations.definitions("\n".join(computation.texts.values())),
        *(_read_sql(table.name) for table in computation.tables),
        *session.render_library(store),
    ]
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def list_segments(folder: Path) -> list[_Segment]:
    """Return the segments of a definition, those with most runs first; unreadable ones are none."""
    segments = []
    for path in folder.glob("[0-9a-f]*"):
        try:
            keys = read_rows(path / KEYS_FILE).to_pydict()
        except (OSError, pa.ArrowException):  # removed since, or cut off by a crash of the machine
            continue
        segments.append(_Segment(path, dict(zip(keys["run"], keys["key"], strict=True))))
    return sorted(segments, key=lambda segment: (-len(segment.keys), segment.folder.name))


def _assign(segments: Iterable[_Segment], runs: Iterable[_Run]) -> tuple[list[_Segment], list[_Run]]:
    """Choose for each run the first segment that has its rows; return the segments used, and the runs without one."""
    listed = list(segments)
    missing = []
    for run in runs:
        for segment in listed:
            if segment.keys.get(run.name) == run.key:
                segment.runs.add(run.name)
                break
        else:
            missing.append(run)
    return [segment for segment in listed if segment.runs], missing


def _batches(runs: Iterable[_Run]) -> Iterator[list[_Run]]:
    """Yield runs in groups of at most so many sources and bytes, a larger run alone."""
    batch: list[_Run] = []
    sources = size_bytes = 0
    for run in runs:
        if batch and (sources + run.sources > _MOST_SOURCES or size_bytes + run.size_bytes > _MOST_BYTES):
            yield batch
            batch, sources, size_bytes = [], 0, 0
        batch.append(run)
        sources, size_bytes = sources + run.sources, size_bytes + run.size_bytes
    if batch:
        yield batch


def _read_segment(segment: _Segment, names: Iterable[str]) -> Tables:
    """Read the tables of a segment, of its chosen runs alone."""
    tables = {name: read_rows(segment.folder / f"{name}.parquet") for name in names}
    if len(segment.runs) == len(segment.keys):
        return tables
    return {name: _select_runs(table, segment.runs) for name, table in tables.items()}


def _select_runs(table: pa.Table, runs: Collection[str]) -> pa.Table:
    """Return the rows of some runs: a store may have got others meanwhile."""
    import pyarrow.compute as pc  # takes 30 ms, which a query that keeps a relation need not wait for

    return table.filter(pc.is_in(table.column("run"), text_column(sorted(runs))))


def remove_runs(files: StoreFiles, runs: set[str]) -> None:
    """Delete the segments with rows of these runs alone; the next merge leaves them out of the others."""
    keys = [file.key for file in files.walk(FOLDER)]
    for listing in [key for key in keys if key.endswith(f"/{KEYS_FILE}")]:
        try:
            listed = pq.read_table(pa.BufferReader(files.read(listing)))["run"].to_pylist()
        except (OSError, pa.ArrowException):  # removed since, or cut off by a crash of the machine
            continue
        if runs.issuperset(listed):
            folder = listing.removesuffix(KEYS_FILE)
            files.delete([key for key in keys if key.startswith(folder)])


def discard_segment(folder: Path) -> None:
    """Remove a segment whole: a process that reads it meanwhile finds all of its tables, or none."""
    aside = folder.with_name(f".{uuid.uuid4().hex}")
    with suppress(OSError):
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def read_rows(path: Path) -> pa.Table:
    """Read a table of a segment. Arrow's read_table imports pandas where that is installed."""
    with pq.ParquetFile(path) as file:
        rows: pa.Table = file.read()
    return rows


def read_names(folder: Path) -> list[str]:
    """Return the names of the tables that a segment was written with; raises OSError or ArrowException without them."""
    metadata = pq.read_schema(folder / KEYS_FILE).metadata or {}
    return json.loads(metadata.get(_TABLES, b"[]"))  # type: ignore[no-any-return]


def write_segment(target: Path, tables: Tables, keys: Mapping[str, str]) -> Path | None:
    """Write a segment aside and rename it; return None where the store cannot be written to, or has the segment."""
    staged = target.with_name(f".{uuid.uuid4().hex}")
    listed = pa.table({"run": text_column(list(keys)), "key": text_column(list(keys.values()))})
    listed = listed.replace_schema_metadata({_TABLES: json.dumps(list(tables))})
    try:
        staged.mkdir(parents=True)
        for table, rows in (*tables.items(), (_KEYS, listed)):
            pq.write_table(rows, staged / f"{table}.parquet", compression="zstd", **_encoding(rows))
        staged.rename(target)
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
        return None
    return target


def _encoding(rows: pa.Table) -> dict[str, Any]:
    """Return how to write a table: whole numbers by their bytes, for times and ids hardly repeat; others by dictionary.

    A table of whole numbers alone is in one piece, to be read without a copy.
    """
    integers = [field for field in rows.schema if pa.types.is_integer(field.type)]
    others = [field.name for field in rows.schema if not pa.types.is_integer(field.type)]
    by_bytes = [field.name for field in integers if field.type.bit_width > 8]  # noqa: PLR2004  a byte is one already
    pieces = {} if others else {"row_group_size": max(1, rows.num_rows)}
    return {"use_dictionary": others or False, "use_byte_stream_split": by_bytes, **pieces}


def _publish(store: Path, segment: Path, replaced: Iterable[Path]) -> None:
    """Put a segment to the store at a URL that a folder is a copy of, and remove those that it replaces.

    Where this process may only read the store, the rows stay in the copy.
    """
    with suppress(StoreError, FileNotFoundError):  # another process merges, and removes it
        remote.put_below(store, segment.relative_to(store).as_posix(), KEYS_FILE)
        for folder in replaced:
            remote.delete_below(store, folder.relative_to(store).as_posix())


def _merge(folder: Path, names: Sequence[str], runs: Sequence[_Run]) -> tuple[Path | None, list[Path]]:
    """Make one segment of all current rows, and remove the others: a process that has listed these lists them anew.

    Returns the segment and those that it replaces; None where nothing was written.
    """
    every = list_segments(folder)
    used, missing = _assign(every, runs)
    try:
        parts = [_read_segment(segment, names) for segment in used]
    except FileNotFoundError:  # another process merges
        return None, []
    absent = {run.name for run in missing}
    keys = {run.name: run.key for run in runs if run.name not in absent}
    tables = {name: _concat([tables[name] for tables in parts]) for name in names}
    merged = write_segment(folder / uuid.uuid4().hex, tables, keys)
    if merged is None:
        return None, []
    for segment in every:
        discard_segment(segment.folder)
    return merged, [segment.folder for segment in every]
