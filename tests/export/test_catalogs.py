"""Catalogs of a store: Iceberg and Delta tables have its rows, also after runs were added, replaced and dropped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tracelab
from tests.build import build_store
from tracelab import schema
from tracelab.cli import main
from tracelab.store import compaction

KERNEL = {"name": "gemm", "device": 0, "stream": 7, "start_ns": 2**53 + 1, "dur_ns": 5}
RUN = {"model": "gpt", "learning_rate": 0.1, "tags": [("a", "b"), ("c", "")], "started_at": "2026-01-01T00:00:00Z"}
COLLECTIVE = {"origin": "kernel", "collective": "all_reduce", "group_ranks": [0, 2**40], "is_p2p": False, "start_ns": 1}
RUNS = ("12", "2024-01-05")
"""Names that engines take for a number and for a date."""


def add_run(store: Path, run: str, kernels: int = 2) -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "kernels": [KERNEL | {"run": run, "source": run, "registers": at or None} for at in range(kernels)],
        "runs": [RUN | {"run": run, "source": run, "started_at": None}],
        "collectives": [COLLECTIVE | {"run": run, "source": run}],
    }
    build_store(store, rows)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for run in RUNS:
        add_run(tmp_path / "lab", run)
    return tmp_path / "lab"


def stored(store: Path, table: str) -> list[dict[str, Any]]:
    """Read the rows that the views show, without end_ns, which they compute."""
    paths = [str(path) for path in tracelab.open(store).files(table)]
    return ordered(pa.concat_tables(pq.read_table(path, partitioning=None) for path in paths))


def ordered(rows: pa.Table) -> list[dict[str, Any]]:
    listed = [
        {name: sorted(value) if name == "tags" and value else value for name, value in row.items()}
        for row in rows.to_pylist()
    ]
    return sorted(listed, key=repr)


def read_iceberg(folder: Path, table: str) -> list[dict[str, Any]]:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("tracelab", uri=f"sqlite:///{folder / 'catalog.db'}")
    rows = catalog.load_table(("tracelab", table)).scan().to_arrow()
    catalog.close()
    return ordered(rows.select([column.name for column in schema.BY_NAME[table].columns]))


def read_delta(folder: Path, table: str) -> list[dict[str, Any]]:
    rows = pytest.importorskip("deltalake").DeltaTable(folder / table).to_pyarrow_table()
    return ordered(rows.select([column.name for column in schema.BY_NAME[table].columns]))


def export(store: Path, *options: object) -> str:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("deltalake")
    done = CliRunner().invoke(main, ["export", "--store", str(store), *map(str, options)])
    assert done.exit_code == 0, done.output
    return done.stderr


READERS = [("iceberg", read_iceberg, False), ("delta", read_delta, False), ("delta", read_delta, True)]


@pytest.mark.parametrize(("kind", "read", "beside"), READERS, ids=["iceberg", "delta", "delta beside the files"])
def test_a_catalog_follows_its_store(
    store: Path, kind: str, read: Callable[[Path, str], list[dict[str, Any]]], beside: bool
) -> None:
    folder = store if beside else store.parent / "out"
    assert "8 files of 4 tables; 8 added, 0 removed" in export(store, f"--{kind}", folder)
    assert {table: read(folder, table) for table in ("kernels", "runs", "collectives", "sources")} == {
        table: stored(store, table) for table in ("kernels", "runs", "collectives", "sources")
    }
    assert "8 files of 4 tables; 0 added, 0 removed" in export(store, f"--{kind}", folder)
    add_run(store, "later", kernels=3)
    assert "12 files of 4 tables; 4 added, 0 removed" in export(store, f"--{kind}", folder)
    compaction.drop(store, {RUNS[0]}, None)
    add_run(store, RUNS[1], kernels=5)
    assert "8 files of 4 tables; 4 added, 8 removed" in export(store, f"--{kind}", folder)
    rows = read(folder, "kernels")
    assert sorted({row["run"] for row in rows}) == [RUNS[1], "later"]
    assert (len(rows), rows) == (8, stored(store, "kernels"))
    assert read(folder, "runs") == stored(store, "runs")


def test_files_that_no_commit_has_are_not_in_a_catalog(store: Path) -> None:
    (path,) = (store / "kernels" / f"run={RUNS[0]}").iterdir()
    path.with_name("left.parquet").write_bytes(path.read_bytes())
    export(store, "--iceberg", store.parent / "out")
    assert len(read_iceberg(store.parent / "out", "kernels")) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--iceberg", "out", "--run", "12"], "leave out options that select rows"),
        (["--delta", "s3://bucket/out"], "a Delta log names files of its own folder alone"),
        (["--iceberg", "s3://bucket/out"], "the catalog is a SQLite file; choose a folder on disk"),
    ],
)
def test_what_a_catalog_cannot_have_is_refused(store: Path, options: list[str], message: str) -> None:
    pytest.importorskip("deltalake")
    done = CliRunner().invoke(main, ["export", "--store", str(store), *options])
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_files_of_two_stores_are_not_mixed(store: Path, tmp_path: Path) -> None:
    export(store, "--delta", tmp_path / "out")
    add_run(tmp_path / "other", "x")
    done = CliRunner().invoke(main, ["export", "--store", str(tmp_path / "other"), "--delta", str(tmp_path / "out")])
    assert (done.exit_code, "has the files of another store" in done.stderr) == (2, True)


def test_the_tables_of_a_store_are_not_put_into_another_store(store: Path, tmp_path: Path) -> None:
    add_run(tmp_path / "other", "x")
    done = CliRunner().invoke(main, ["export", "--store", str(store), "--delta", str(tmp_path / "other")])
    assert (done.exit_code, "other: this is a store other than" in done.stderr) == (2, True)
    assert not list((tmp_path / "other").glob("*/_delta_log"))


def test_a_place_that_cannot_be_written_is_named_in_one_sentence(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kernels").write_text("")
    done = CliRunner().invoke(main, ["export", "--store", str(store), "--delta", str(tmp_path / "out")])
    assert done.exit_code == 1
    (sentence,) = done.stderr.splitlines()
    assert f"{tmp_path / 'out' / 'kernels'}: the Delta log cannot be written: " in sentence
