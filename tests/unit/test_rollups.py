"""Rollups equal the queries that they rest on, and a run is computed again only where its sources change."""

import math
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.build import Rows, build_store
from tests.memory import MemoryStore
from tracelab.client import Lab
from tracelab.store import compaction, rollups

RUNS = ("a", "b", "c")
FLEET = ("fleet_summary", "slow_hosts", "run_history")


def kernel(run: str, rank: int, start_ns: int, dur_ns: int, name: str = "gemm", **values: Any) -> dict[str, object]:
    placed = {"run": run, "source": f"{run}{rank}", "rank": rank, "pid": 1, "device": 0, "stream": 7}
    return placed | {"name": name, "start_ns": start_ns, "dur_ns": dur_ns} | values


def rows_of(run: str, factor: int = 1) -> dict[str, Rows]:
    """Return two ranks with two steps: rank 1 computes longer, and rank 0 waits for it."""
    work, marks, cards = [], [], []
    for rank in (0, 1):
        for step in (0, 1):
            at, busy = 1000 * step, factor * (100 + 50 * rank)
            work += [
                kernel(run, rank, at, busy),
                kernel(run, rank, at + busy, 300 - busy // 2, "ncclDevKernel_AllReduce"),
            ]
            mark = {"run": run, "source": f"{run}{rank}", "rank": rank, "pid": 1, "scope": "cpu"}
            marks.append(mark | {"name": f"ProfilerStep#{step}", "start_ns": at, "dur_ns": 900})
        cards.append({"run": run, "source": f"{run}{rank}", "rank": rank, "device": 0, "host": f"n{rank}"})
    return {"kernels": work, "annotations": marks, "devices": cards}


def merged(*parts: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return build_store(tmp_path / "lab", merged(*map(rows_of, RUNS)))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The runs that are computed, in order."""
    runs: list[str] = []
    original = rollups.compute_rollups

    def compute(relations: Mapping[str, pa.Table], *rest: Any) -> dict[str, pa.Table]:
        runs.extend(relations["files"].column("run").to_pylist())
        return original(relations, *rest)

    monkeypatch.setattr(rollups, "compute_rollups", compute)
    return runs


def answer(store: Path) -> list[dict[str, Any]]:
    return Lab(store).query("fleet_summary").to_pylist()


def test_answers_are_those_without_a_store_and_computed_once(store: Path, computed: list[str]) -> None:
    memory = MemoryStore().filled(merged(*map(rows_of, RUNS)))
    expected = {name: memory.query(name).to_pylist() for name in FLEET}
    for _ in range(2):
        assert {name: Lab(store).query(name).to_pylist() for name in FLEET} == expected
    assert computed == [*RUNS, *RUNS]  # in memory, and for the store
    memory.con.close()


def test_figures_are_the_sums_of_the_queries_that_they_rest_on(store: Path) -> None:
    lab = Lab(store)
    for row in lab.query("fleet_summary", run="a").to_pylist():
        parts = lab.query("gpu_breakdown", run=row["run"]).to_pylist()
        waits = lab.query("stragglers", run=row["run"]).to_pylist()
        for name in ("window_ns", "compute_ns", "exposed_comm_ns", "idle_ns"):
            assert row[name] == sum(part[name] for part in parts)
        assert row["wait_ns"] == (sum(each["wait_ns"] or 0 for each in waits) or None)
        steps = sorted(
            each["step_ns"] for each in lab.query("step_breakdown", run=row["run"]).to_pylist() if each["step_ns"]
        )
        assert row["step_ns"] == (sum(steps) // len(steps))


def test_only_runs_whose_sources_change_are_computed_again(store: Path, computed: list[str]) -> None:
    before = answer(store)
    build_store(store, rows_of("b", factor=2))
    compaction.drop(store, {"c"}, None)
    after = answer(store)
    assert computed[len(RUNS) :] == ["b"]
    of_a = [[row for row in each if row["run"] == "a"] for each in (before, after)]
    assert of_a[0] == of_a[1]
    compute_ns = {row["run"]: row["compute_ns"] for row in after}
    assert compute_ns == {"a": 500, "b": 1000}


def test_one_run_computes_only_itself(store: Path, computed: list[str]) -> None:
    assert [row["run"] for row in Lab(store).query("fleet_summary", run="b").to_pylist()] == ["b"]
    assert computed == ["b"]


def test_the_rows_of_a_run_that_arrives_meanwhile_are_not_those_of_the_others(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = rollups.list_runs
    monkeypatch.setattr(rollups, "list_runs", lambda con, wanted: listed(con, wanted)[:2])
    assert [row["run"] for row in answer(store)] == ["a", "b"]
    monkeypatch.undo()
    assert [row["run"] for row in answer(store)] == list(RUNS)


def test_many_segments_become_one(store: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "_MOST_SOURCES", 1)
    monkeypatch.setattr(rollups, "_MOST_SEGMENTS", 2)
    first = answer(store)
    assert len(list(store.glob(f"{rollups.FOLDER}/*/*/keys.parquet"))) == 1
    assert (answer(store), len(computed)) == (first, len(RUNS))


def test_a_damaged_segment_is_computed_again(store: Path, computed: list[str]) -> None:
    first = answer(store)
    for path in store.glob(f"{rollups.FOLDER}/*/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-20])
    assert answer(store) == first
    assert len(computed) == 2 * len(RUNS)


def test_several_processes_at_once_have_the_same_answer(store: Path) -> None:
    expected = answer(build_store(store.parent / "other", merged(*map(rows_of, RUNS))))
    given: list[object] = []
    threads = [threading.Thread(target=lambda: given.append(answer(store))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == [expected] * 2


def test_a_store_that_cannot_be_written_to_answer(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert [row["run"] for row in answer(store)] == list(RUNS)
    assert not (store / rollups.FOLDER).exists()


def test_a_scope_is_computed_from_its_rows(store: Path) -> None:
    text = "select sum(compute_ns)::bigint as compute_ns from rollup_ranks where run = 'a'"
    assert Lab(store).sql(text).to_pylist() == [{"compute_ns": 500}]
    part = Lab(store).scoped(to="500ns")
    expected = sum(row["compute_ns"] for row in part.query("gpu_breakdown", run="a").to_pylist())
    assert 0 < expected < 500
    assert part.sql(text).to_pylist() == [{"compute_ns": expected}]
    assert Lab(store).sql(text).to_pylist() == [{"compute_ns": 500}]


def test_sql_reads_rollups(store: Path) -> None:
    rows = Lab(store).sql("select run, rank, step, step_ns from rollup_steps where run = 'a' order by all").to_pylist()
    assert rows == [
        {"run": "a", "rank": rank, "step": step, "step_ns": 1000 - 100 * step} for rank in (0, 1) for step in (0, 1)
    ]


@pytest.mark.parametrize(("wins", "trials"), [(0, 1), (1, 1), (8, 8), (7, 12), (900, 1000)])
def test_the_sign_test_is_the_binomial_tail(wins: int, trials: int, memory: MemoryStore) -> None:
    tail = sum(math.comb(trials, each) for each in range(wins, trials + 1)) / 2**trials
    ((chance,),) = memory.con.execute("select sign_test(?, ?)", [wins, trials]).fetchall()
    assert chance == pytest.approx(tail, rel=1e-9)
