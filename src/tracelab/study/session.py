"""The desk of a study: a session over a store, with the published figures and the runs that fit laid beside it."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.resources import DATA
from tracelab.store import integrity, session

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
"""One published figure: of which row, of what, of which cell; `claim` in our words where the study gives no number."""
_SOURCE_COLUMNS = dict.fromkeys(("study", "authors", "institution", "year", "title", "logs"), "varchar")
_MODEL_COLUMNS = {"model": "varchar", "parameters": "bigint", "image_size": "bigint", "flop": "bigint"}

_RECORDED = """
create temp table recorded as
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
    {tables}
from described as d
"""
"""A row is a run, with what it is (a name may tell model and batch size) and which tables have rows of it."""


@contextmanager
def opened(store: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session; without a store over nothing, for some rows need published figures alone."""
    with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as folder:
        root = store if store is not None else _nothing(Path(folder))
        with session.connect(root) as con, integrity.explain_read_errors(root), session.translate_errors():
            con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
            _lay_out(con)
            yield con


def cited(study: str) -> str:
    """Who said it, and where, and in which repository the logs are: Y. Zheng, New York University, 2024: ImageNet …"""
    with duckdb.connect() as con:
        con.execute(_table("sources", FIGURES / "sources.csv", _SOURCE_COLUMNS))
        found = con.execute(
            "select concat_ws('; logs: ', concat_ws(', ', authors, institution, year) || ': ' || title, logs) "
            "from sources where study = ?",
            [study],
        ).fetchone()
    return str(found[0]) if found else study


def _lay_out(con: duckdb.DuckDBPyConnection) -> None:
    paths = sorted(FIGURES.glob("S*.csv"))
    con.execute(_table("figures", paths, _FIGURE_COLUMNS))
    con.execute(_table("models", FIGURES / "models.csv", _MODEL_COLUMNS))
    filled = (
        f"d.run in (select run from {name}) as {name}"
        for name in (table.name for table in schema.TABLES)
        if name != "runs"
    )
    con.execute(_RECORDED.format(tables=",\n    ".join(filled)))


def _table(name: str, paths: Path | Sequence[Path], columns: dict[str, str]) -> str:
    listed = [paths] if isinstance(paths, Path) else paths
    files = ", ".join("'" + path.as_posix().replace("'", "''") + "'" for path in listed)
    types = ", ".join(f"'{column}': '{kind}'" for column, kind in columns.items())
    return f"create temp table {name} as from read_csv([{files}], header = true, columns = {{{types}}})"


def _nothing(root: Path) -> Path:
    """A store without a source: every view is there and empty."""
    folder = root / "sources" / "run=none"
    folder.mkdir(parents=True)
    empty: pa.Table = schema.BY_NAME["sources"].rows([])
    pq.write_table(empty, folder / "none.parquet")
    return root
