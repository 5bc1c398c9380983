"""Open a session over a store, with the published figures and the recorded runs as tables."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.query import library
from tracelab.resources import DATA
from tracelab.store import commit, execution, integrity, session
from tracelab.study.spec import Row
from tracelab.temp_folders import process_folder

FIGURES = DATA / "studies"

_FIGURE_COLUMNS = {
    "row": "varchar",
    "quantity": "varchar",
    "model": "varchar",
    "machine": "varchar",
    "batch_size": "bigint",
    "gpus": "bigint",
    "setting": "varchar",
    "value": "double",
    "unit": "varchar",
    "claim": "varchar",
    "place": "varchar",
}
"""One published figure: its row, quantity and cell; `claim` is a paraphrase where the study has no number."""
_SOURCE_COLUMNS = dict.fromkeys(("study", "authors", "institution", "year", "title", "logs"), "varchar")
_MODEL_COLUMNS = {"model": "varchar", "parameters": "bigint", "image_size": "bigint", "flop": "bigint"}

_RECORDED_SQL = """
create or replace temp table recorded as
with described as (
    select
        runs.*,
        regexp_extract(lower(run), (select string_agg(model, '|' order by length(model) desc) from models)) as named,
        try_cast(regexp_extract(run, '(?i)(?:^|[-_.])b(?:atch)?[-_]?(\\d+)(?:[-_.]|$)', 1) as bigint) as named_batch,
        (select any_value(name) from devices where devices.run = runs.run) as card
    from runs
)
select
    d.* exclude (model, batch_size, gpu, named, named_batch, card),
    coalesce(d.model, nullif(d.named, '')) as model,
    coalesce(d.batch_size, d.named_batch)::bigint as batch_size,
    coalesce(d.gpu, d.card) as gpu,
    {flags}
from described as d
left join (select run, list(name) as tables from ({filled}) group by run) as f using (run)
"""
"""A row is a run, with its model and batch size (from its name where not recorded) and a flag per table with rows."""


@contextmanager
def open_session(store: Path | None, rows: Iterable[Row]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session to evaluate `rows`; without a store over an empty one, for rows of published figures alone."""
    with tempfile.TemporaryDirectory(dir=process_folder(), ignore_cleanup_errors=True) as folder:
        root = store if store is not None else _empty_store(Path(folder))
        with (
            session.connect(root, referenced=_referenced_sql(rows)) as con,
            integrity.explain_read_errors(root),
            execution.translate_errors(),
        ):
            con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
            create_tables(con)
            yield con


def _referenced_sql(rows: Iterable[Row]) -> str:
    """Return all names that these rows need in a session: every table, their SQL, and that of their queries."""
    listed = list(rows)
    queries = {call.query for row in listed for call in row.answers.values()}
    texts = (*(f"{row.fits}\n{row.sql}" for row in listed), *(library.find(name).sql for name in sorted(queries)))
    return "\n".join((*schema.BY_NAME, "cells", *texts))


def format_citation(study: str) -> str:
    """Format a study's source and its repository of logs: Y. Zheng, New York University, 2024: ImageNet …"""
    with duckdb.connect() as con:
        con.execute(_csv_table_sql("sources", FIGURES / "sources.csv", _SOURCE_COLUMNS))
        source = con.execute(
            "select concat_ws('; logs: ', concat_ws(', ', authors, institution, year) || ': ' || title, logs) "
            "from sources where study = ?",
            [study],
        ).fetchone()
    return str(source[0]) if source else study


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create the published figures, the sizes of models and the recorded runs as temporary tables of a session."""
    paths = sorted(FIGURES.glob("S*.csv"))
    con.execute(_csv_table_sql("figures", paths, _FIGURE_COLUMNS))
    con.execute(_csv_table_sql("models", FIGURES / "models.csv", _MODEL_COLUMNS))
    names = [table.name for table in schema.TABLES if table.name != "runs"]
    flags = (f"coalesce(list_contains(f.tables, '{name}'), false) as {name}" for name in names)
    filled = " union ".join(f"select run, '{name}' as name from {name}" for name in names)
    con.execute(_RECORDED_SQL.format(flags=",\n    ".join(flags), filled=filled))


def _csv_table_sql(name: str, paths: Path | Sequence[Path], columns: dict[str, str]) -> str:
    listed = [paths] if isinstance(paths, Path) else paths
    files = ", ".join("'" + path.as_posix().replace("'", "''") + "'" for path in listed)
    types = ", ".join(f"'{column}': '{kind}'" for column, kind in columns.items())
    return f"create or replace temp table {name} as from read_csv([{files}], header = true, columns = {{{types}}})"


def _empty_store(root: Path) -> Path:
    """Create a store without rows, so that every view exists."""
    store = commit.Store(root)
    with store.staging_folder() as staging:
        pq.write_table(schema.BY_NAME["sources"].empty(), staging / "sources.parquet")
        commit.transact(store, staging, lambda _: ([commit.seal_part(staging, "none", [])], []))
    return root
