"""Tables that a report reads once: what questions see is the same, and large tables stay in their files."""

import shutil
from pathlib import Path

import pytest

from tests.build import build_store
from tests.report.conftest import GPU
from tracelab.query import execute, library
from tracelab.report.answers import ReportSession, open_report_session
from tracelab.report.table_cache import cache_small_tables


@pytest.fixture
def store(tmp_path: Path) -> Path:
    kernels = [GPU | {"name": "gemm", "start_ns": 100 * at, "dur_ns": 10 + at} for at in range(3)]
    return build_store(tmp_path / "lab", {"kernels": kernels})


def sums(asking: ReportSession) -> list[int]:
    return execute.run(asking.con, library.find("kernel_summary"), {}).column("dur_ns").to_pylist()


def test_files_are_read_once(store: Path) -> None:
    with open_report_session(store, ()) as asking:
        cache_small_tables(asking.con, store)
        shutil.rmtree(store)
        assert sums(asking) == [33]


def test_only_tables_that_fit_are_read(store: Path) -> None:
    largest = sum(path.stat().st_size for path in store.glob("kernels/*/*.parquet"))
    others = sum(path.stat().st_size for path in store.glob("sources/*/*.parquet"))
    with open_report_session(store, ()) as asking:
        cache_small_tables(asking.con, store, most_bytes=largest + others - 1)
        loaded = asking.con.sql("select table_name from duckdb_tables() where schema_name = 'loaded'").fetchall()
        assert ("kernels",) not in loaded
        assert ("sources",) in loaded
        assert sums(asking) == [33]
