"""Where a store has a profiler's own sums and no single events, a question about events says where they are."""

from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.errors import NoDataError
from tracelab.query import execute, library, spec
from tracelab.store import session

SUMS = {"run": "sums", "kind": "api_calls", "name": "cudaMalloc", "calls": 1, "dur_ns": 30}
CALL = {"run": "events", "api": "runtime", "name": "cudaMalloc", "start_ns": 0, "dur_ns": 30}


def refused(store: Path, name: str, **values: spec.Value) -> str:
    query = library.find(name)
    opened = session.connect(store, referenced=execute.referenced_sql(query))
    with opened as con, pytest.raises(NoDataError) as error:
        execute.run(con, query, values)
    return str(error.value)


@pytest.mark.parametrize("name", ["api_summary", "kernel_summary", "memcpy_throughput"])
def test_a_store_of_sums_alone_points_to_them(tmp_path: Path, name: str) -> None:
    said = refused(build_store(tmp_path / "lab", {"summaries": [SUMS]}), name)
    assert "and the store has none but sums of a profiler's own: `tracelab query profiler_summary`; to get" in said


def test_a_run_of_sums_alone_points_to_its_own(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"summaries": [SUMS], "api_calls": [CALL]})
    said = refused(store, "api_summary", run="sums")
    assert said.endswith("of sums there are sums of a profiler's own: `tracelab query profiler_summary --run sums`")


def test_what_no_summary_holds_points_to_none(tmp_path: Path) -> None:
    assert "profiler_summary" not in refused(build_store(tmp_path / "lab", {"summaries": [SUMS]}), "memory_peak")
