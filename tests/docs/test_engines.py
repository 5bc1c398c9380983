"""The examples of the guide to other engines read what the views show: runs as text, committed files alone."""

import importlib.util
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.export.test_catalogs import RUNS, add_run, export, ordered
from tracelab import schema
from tracelab.store import session

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "engines.md"
EXAMPLES = dict(re.findall(r"^## (\w+).*?^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
TABLES = ("kernels", "runs", "collectives")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store, lab, that has files of an ingest that was killed before its commit."""
    monkeypatch.chdir(tmp_path)
    for run in RUNS:
        add_run(Path("lab"), run)
    for path in Path("lab").glob("*/run=12/*.parquet"):
        path.with_name(f"left-{path.name}").write_bytes(path.read_bytes())
    return tmp_path


def shown() -> dict[str, list[dict[str, Any]]]:
    """Read the rows of the views, without end_ns, which they compute."""
    with session.connect(Path("lab")) as con:
        return {table: ordered(con.sql(f"select {columns(table)} from {table}").to_arrow_table()) for table in TABLES}


def columns(table: str) -> str:
    return ", ".join(column.name for column in schema.BY_NAME[table].columns)


def run_example(name: str, table: str) -> dict[str, Any]:
    """Run the example of an engine, for any table; return its variables."""
    values: dict[str, Any] = {}
    exec(re.sub(r"\bkernels\b", table, EXAMPLES[name]), values)  # noqa: S102
    return values


def read_duckdb(table: str) -> pa.Table:
    rows: pa.Table = run_example("DuckDB", table)[table].to_arrow_table()
    return rows


def read_polars(table: str) -> pa.Table:
    rows: pa.Table = run_example("Polars", table)[table].collect().to_arrow()
    return rows


def read_datafusion(table: str) -> pa.Table:
    return pa.table(run_example("DataFusion", table)[table].to_arrow_table())


@pytest.mark.parametrize(
    ("library", "read"), [("duckdb", read_duckdb), ("polars", read_polars), ("datafusion", read_datafusion)]
)
def test_an_engine_reads_what_the_views_show(folder: Path, library: str, read: Callable[[str], pa.Table]) -> None:
    pytest.importorskip(library)
    expected = shown()
    assert {row["run"] for row in expected["kernels"]} == set(RUNS)
    assert expected["runs"][0]["tags"]
    for table in TABLES:
        rows = read(table).select(columns(table).split(", "))
        assert plain(ordered(rows)) == plain(expected[table])


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write a map as pairs; Polars reads one as a list of structs."""
    return [
        row | {"tags": [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in row["tags"] or ()]}
        if "tags" in row
        else row
        for row in rows
    ]


def test_spark_reads_what_the_views_show(folder: Path) -> None:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("needs pyspark and Java")
    expected = shown()
    for table in TABLES:
        values = run_example("Spark", table)
        rows = [row.asDict(recursive=True) for row in values[table].select(*columns(table).split(", ")).collect()]
        for row in rows:
            if "tags" in row:
                row["tags"] = sorted((row["tags"] or {}).items())
        assert sorted(map(repr, rows)) == sorted(map(repr, plain(expected[table])))
    values["spark"].stop()


def test_the_catalog_of_the_guide_has_a_run_named_by_a_number(folder: Path) -> None:
    pytest.importorskip("pyiceberg")
    export(Path("lab"), "--iceberg", "catalog")
    rows = run_example("Catalogs", "kernels")["kernels"]
    assert [row["run"] for row in rows.to_pylist()] == ["12", "12"]
