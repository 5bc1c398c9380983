"""After `compact --precompute`, queries of large runs compute nothing that a store keeps."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.build import build_store
from tests.ranks import kernel
from tracelab.cli import main
from tracelab.errors import TracelabError
from tracelab.query import execute, library
from tracelab.query.precomputation import precompute
from tracelab.store import computed_tables, rollups, session, shared_relations

LARGE = 4
QUERIES = (
    "gpu_breakdown",
    "stream_summary",
    "collective_wait",
    "stragglers",
    "fleet_summary",
    "timeline",
    "nccl_share",
    "critical_path",
    "critical_path_timeline",
    "what_if",
)


@pytest.fixture(autouse=True)
def _few_queries_of_four_rows_or_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", LARGE)
    few = {
        name: library.find(name) for name in (*QUERIES, "kernel_summary", "critical_path_rows")
    }  # the last two keep nothing
    monkeypatch.setattr(library, "library", lambda: few)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a run of two ranks that is large, and one that is not."""
    rows = [
        kernel(rank, at + rank * 10, at + 100, source=f"{run}{rank}", run=run)
        for run, collectives in (("large", LARGE), ("small", 1))
        for rank in (0, 1)
        for at in range(0, 500 * collectives, 500)
    ]
    return build_store(tmp_path / "lab", {"kernels": rows}, trace_bytes=None)


def answers(store: Path) -> list[list[dict[str, object]]]:
    answered = []
    for name in QUERIES:
        query = library.find(name)
        with session.connect(store, read_runs=["large"]) as con:
            answered.append(execute.run(con, query, {"run": "large"}).to_pylist())
    return answered


def test_what_queries_keep_of_large_runs_is_computed_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(store)
    for folder in (store / rollups.FOLDER).iterdir():
        rollups.discard_segment(folder)
    (done,) = precompute(store)
    assert (done.run, done.queries, done.failures) == ("large", QUERIES, {})

    def compute(*_: object) -> None:
        raise AssertionError("is computed again")

    monkeypatch.setattr(shared_relations, "_compute", compute)
    monkeypatch.setattr(computed_tables, "_import_function", compute)
    assert answers(store) == expected


def test_a_small_run_is_left_to_its_first_answers(store: Path) -> None:
    assert list(precompute(store, "small")) == []
    assert not (store / rollups.FOLDER).exists()


@pytest.mark.parametrize("table", ["ops", "api_calls"])
def test_a_run_of_many_ops_or_calls_is_large(tmp_path: Path, table: str) -> None:
    thread = {"run": "job", "source": "job0", "rank": 0, "pid": 0, "tid": 3, "name": "cudaLaunchKernel"}
    calls = [thread | {"start_ns": 100 * at, "dur_ns": 50} for at in range(LARGE)]
    kernels = [kernel(0, 0, 50, source="job0", run="job")]
    store = build_store(tmp_path / "lab", {"kernels": kernels, table: calls}, trace_bytes=None)
    assert [each.run for each in precompute(store)] == ["job"]


def test_a_query_that_fails_is_named_and_the_others_are_answered(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = execute.start

    def fail(con: object, query: object, values: object) -> object:
        if query is library.library()["timeline"]:
            raise TracelabError("rows take over 1 MB, and the limit is 1 MB")
        return start(con, query, values)  # type: ignore[arg-type]

    monkeypatch.setattr(execute, "start", fail)
    (done,) = precompute(store, "large")
    assert done.failures == {"timeline": "rows take over 1 MB, and the limit is 1 MB"}
    assert done.queries == tuple(name for name in QUERIES if name != "timeline")


def test_the_command_says_for_which_runs_it_did_something(store: Path) -> None:
    def run(*arguments: str | Path) -> tuple[int, list[str]]:
        result = CliRunner().invoke(main, ["compact", "--precompute", *map(str, arguments)])
        return result.exit_code, result.stderr.splitlines()

    code, lines = run("--store", store, "--run", "large")
    assert (code, lines[0]) == (0, "large: 4 files became 2")
    assert lines[1:] == [f"large: {len(QUERIES)} queries have been answered"]
    code, lines = run("--store", store, "--run", "small")
    assert (code, lines[-1]) == (0, "no run has 50,000 rows of GPU activity, ops or API calls: no sums are kept")


def test_rollups_of_small_runs_are_computed_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session.connect(store) as con:
        expected = execute.run(con, library.find("fleet_summary"), {}).to_pylist()
    shutil.rmtree(store / ".rollups", ignore_errors=True)
    done = CliRunner().invoke(main, ["compact", "--precompute", "--store", str(store)])
    assert done.stderr.splitlines()[-1] == "2 runs have rollups, which queries over many runs read"
    monkeypatch.setattr(rollups, "compute_rollups", None)  # not callable
    with session.connect(store) as con:
        assert execute.run(con, library.find("fleet_summary"), {}).to_pylist() == expected


def test_a_store_at_a_url_keeps_nothing_that_is_precomputed() -> None:
    result = CliRunner().invoke(main, ["compact", "--precompute", "--store", "s3://bucket/lab"])
    problem = "is at a URL, which keeps no sums, and rollups as queries compute them; leave the option out"
    expected = f"tracelab: --precompute: the store s3://bucket/lab {problem}"
    assert (result.exit_code, result.stderr.strip()) == (2, expected)
