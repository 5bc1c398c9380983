"""The store keeps the shared relations of large runs, as long as their sources are the same."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.build import build_store
from tests.golden import cases
from tests.ranks import kernel
from tracelab.client import Lab
from tracelab.paths import packing, tables, what_if
from tracelab.query import execute, library
from tracelab.store import compaction, computed_tables, rollups, session, shared_relations
from tracelab.store.alignment import Alignment
from tracelab.store.kept_relations import open_kept

NAMES = ("matched_collectives", "rank_clocks", "collective_waits")
LARGE = 4


@pytest.fixture(autouse=True)
def _from_four_rows_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", LARGE)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The relations that are computed, in order."""
    names: list[str] = []
    original = shared_relations._compute

    def compute(con: object, name: str, run: str | None) -> str:
        names.append(name)
        return original(con, name, run)  # type: ignore[arg-type]

    monkeypatch.setattr(shared_relations, "_compute", compute)
    return names


def store_of(folder: Path, wait_ns: int, *, collectives: int = LARGE // 2, run: str = "job") -> Path:
    """Return a store with collectives of two ranks; rank 0 waits in each for rank 1."""
    rows = [
        kernel(rank, at + rank * wait_ns, at + 100, source=f"{run}{rank}", run=run)
        for rank in (0, 1)
        for at in range(0, 500 * collectives, 500)
    ]
    return build_store(folder, {"kernels": rows}, trace_bytes=None)


def relations_of(store: Path, runs: list[str] | None = None) -> dict[str, tuple[object, object]]:
    """Return types and rows of the relations in a new session."""
    text = " ".join(NAMES)
    with session.connect(store, referenced=text) as con:
        shared_relations.provide(con, text, runs, lambda: open_kept(con))
        return {
            name: (con.execute(f"describe {name}").fetchall(), con.execute(f"from {name}").fetchall()) for name in NAMES
        }


def waits(store: Path) -> list[int]:
    """Return the waits of all ranks; a query takes the relations as `relations_of` does."""
    with session.connect(store, referenced="collective_waits") as con:
        computed_tables.provide(con, "collective_waits")
        rows = con.execute("select wait_ns from collective_waits order by start_ns").fetchall()
    return [wait_ns for (wait_ns,) in rows]


def test_few_rows_that_follow_from_many_are_kept(
    tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("gpu_breakdown", "stream_summary", "kernel_class_share", "advice", "timeline", "nccl_share")
    answers = []
    small, large = (store_of(tmp_path / run, 10, collectives=n, run=run) for n, run in ((1, "small"), (2, "large")))
    for store, params in ((small, {}), (large, {}), (large, {}), (large, {"rank": 1})):
        for name in names:
            with session.connect(store) as con:
                answers.append(execute.run(con, library.find(name), params).to_pylist())
        assert (store / rollups.FOLDER).exists() == (store == large)
    of_both = 2 * ["device_times", "stream_times", "class_shares", "width_states", "communication_kernels"]
    assert sorted(computed) == sorted([*of_both, "device_states", "communication_clocks", "activity_times"])
    assert answers[6:12] == answers[12:18]
    assert [[row for row in rows if row["rank"] == 1] for rows in answers[12:18]] == answers[18:]
    monkeypatch.setattr(execute, "_keeps_own", lambda *_: False)
    with session.connect(large) as con:
        assert [execute.run(con, library.find(name), {}).to_pylist() for name in names[4:]] == answers[16:18]


def test_kept_rows_are_those_that_are_computed(tmp_path: Path, computed: list[str]) -> None:
    store = store_of(tmp_path / "lab", 10)
    first = relations_of(store)
    assert sorted(computed) == sorted(["communication_kernels", *NAMES])
    assert relations_of(store) == first
    assert relations_of(store, ["job"]) == first
    assert len(computed) == 1 + len(NAMES)


def test_rows_of_other_sources_replace_the_kept_ones(tmp_path: Path, computed: list[str]) -> None:
    store = store_of(tmp_path / "lab", 10)
    assert waits(store) == [10, 0, 10, 0]
    kept = set(store.glob(f"{rollups.FOLDER}/*/*"))
    store_of(store, 30)
    computed.clear()
    assert waits(store) == [30, 0, 30, 0]
    assert computed
    replaced = set(store.glob(f"{rollups.FOLDER}/*/*"))
    assert len(replaced) == len(kept)
    assert not replaced & kept


def test_rows_of_another_version_are_replaced(
    tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path / "lab", 10)
    assert waits(store) == [10, 0, 10, 0]
    kept = set(store.glob(f"{rollups.FOLDER}/*/*"))
    monkeypatch.setattr(duckdb, "__version__", "another")
    computed.clear()
    relations_of(store)
    assert computed
    replaced = set(store.glob(f"{rollups.FOLDER}/*/*"))
    assert len(replaced) == len(kept)
    assert not replaced & kept


def test_damaged_rows_are_computed_again(tmp_path: Path, computed: list[str]) -> None:
    store = store_of(tmp_path / "lab", 10)
    assert waits(store) == [10, 0, 10, 0]
    for path in store.glob(f"{rollups.FOLDER}/*/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-20])
    computed.clear()
    assert waits(store) == [10, 0, 10, 0]
    assert "collective_waits" in computed


@pytest.mark.parametrize("lost", ["*", rollups.KEYS_FILE, "[!k]*"])
def test_rows_without_a_file_of_theirs_are_computed_and_kept_again(
    tmp_path: Path, computed: list[str], lost: str
) -> None:
    store = store_of(tmp_path / "lab", 10)
    assert waits(store) == [10, 0, 10, 0]
    kept = sorted(store.glob(f"{rollups.FOLDER}/*/*/*.parquet"))
    for path in store.glob(f"{rollups.FOLDER}/*/*/{lost}"):
        path.unlink()
    computed.clear()
    assert waits(store) == [10, 0, 10, 0]
    assert "collective_waits" in computed
    assert sorted(store.glob(f"{rollups.FOLDER}/*/*/*.parquet")) == kept


def test_a_dropped_run_leaves_no_kept_rows(tmp_path: Path) -> None:
    store = store_of(tmp_path / "lab", 10)
    assert waits(store) == [10, 0, 10, 0]
    assert list(store.glob(f"{rollups.FOLDER}/*/*/*.parquet"))
    compaction.drop(store, {"job"}, None)
    assert not list(store.glob(f"{rollups.FOLDER}/*/*/*.parquet"))


def test_small_runs_are_not_kept(tmp_path: Path) -> None:
    store = store_of(tmp_path / "lab", 10, collectives=1)
    assert waits(store) == [10, 0]
    assert not (store / rollups.FOLDER).exists()


def test_few_collectives_among_many_kernels_are_kept(tmp_path: Path, computed: list[str]) -> None:
    rows = [kernel(rank, 10 * rank, 100, source=f"job{rank}", run="job") for rank in (0, 1)]
    others = [rows[1] | {"name": "gemm", "start_ns": 200 + at} for at in range(LARGE - len(rows))]
    store = build_store(tmp_path / "lab", {"kernels": rows + others}, trace_bytes=None)
    assert waits(store) == waits(store) == [10, 0]
    assert sorted(computed) == sorted(["communication_kernels", *NAMES])


def test_sums_of_many_ops_are_kept_however_few_names_they_have(tmp_path: Path, computed: list[str]) -> None:
    thread = {"run": "job", "source": "job0", "rank": 0, "pid": 0, "tid": 3}
    ops = [thread | {"name": "add", "start_ns": 100 * at, "dur_ns": 50} for at in range(LARGE)]
    kernels = [kernel(0, 100 * at, 100 * at + 50, source="job0", run="job") for at in range(LARGE)]
    store = build_store(tmp_path / "lab", {"kernels": kernels, "ops": ops}, trace_bytes=None)
    for _ in range(2):
        with session.connect(store) as con:
            assert execute.run(con, library.find("op_summary"), {})["calls"].to_pylist() == [LARGE]
    assert computed == ["op_times"]


def test_sums_of_many_ops_are_kept_where_gpus_have_few_rows(tmp_path: Path, computed: list[str]) -> None:
    thread = {"run": "job", "source": "job0", "rank": 0, "pid": 0, "tid": 3}
    ops = [thread | {"name": "add", "start_ns": 100 * at, "dur_ns": 50} for at in range(LARGE)]
    kernels = [kernel(0, 0, 50, source="job0", run="job")]
    store = build_store(tmp_path / "lab", {"kernels": kernels, "ops": ops}, trace_bytes=None)
    for _ in range(2):
        with session.connect(store) as con:
            assert execute.run(con, library.find("op_summary"), {})["calls"].to_pylist() == [LARGE]
            execute.run(con, library.find("kernel_concurrency"), {})
    assert computed == ["op_times"]


def test_rollups_read_kept_relations(tmp_path: Path, computed: list[str]) -> None:
    store = store_of(tmp_path / "lab", 10)
    answers = []
    for name in ("gpu_breakdown", "fleet_summary"):
        with session.connect(store) as con:
            answers.append(execute.run(con, library.find(name), {}).to_pylist())
    assert [row["window_ns"] for row in answers[0]] == [600, 590]
    assert [row["window_ns"] for row in answers[1]] == [1190]
    assert computed.count("device_times") == 1


def test_moved_rows_have_no_kept_relations(tmp_path: Path) -> None:
    with session.connect(store_of(tmp_path / "lab", 10), alignment=Alignment(), referenced="sources") as con:
        assert open_kept(con) is None


def test_a_store_that_cannot_be_written_to_answers(tmp_path: Path) -> None:
    store = store_of(tmp_path / "lab", 10)
    (store / rollups.FOLDER).write_text("no folder")
    assert waits(store) == [10, 0, 10, 0]


def paths_of(store: Path) -> list[object]:
    """Return the critical path of a run and two replays, each by a new session."""
    answers: list[object] = []
    for name, params in (
        ("critical_path_rows", {}),
        ("what_if", {}),
        ("what_if", {"change": "ideal_network"}),
        ("what_if", {"op": "add", "factor": 3.0}),
    ):
        with session.connect(store) as con:
            answers.append(execute.run(con, library.find(name), params).to_pylist())
    return answers


def test_paths_through_a_kept_graph_are_those_through_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = {"rank": 0, "pid": 0, "tid": 3}
    rows = {
        "kernels": [
            kernel(rank, at + 9 * rank, at + 100, source=f"job{rank}", run="job", pid=rank, correlation=at + 1)
            for rank in (0, 1)
            for at in range(10, 1000, 500)
        ],
        "ops": [{**thread, "source": "job0", "run": "job", "name": "add", "start_ns": 1, "dur_ns": 700}],
        "api_calls": [
            {**thread, "source": "job0", "run": "job", "api": "runtime", "name": "cudaLaunchKernel"}
            | {"start_ns": at, "dur_ns": 5, "correlation": at + 4}
            for at in (7, 507)
        ],
    }
    store = build_store(tmp_path / "lab", rows, trace_bytes=None)
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", 10**6)
    expected = paths_of(store)
    scoped = Lab(store).scoped(within="add", to="600ns")
    expected_in_scope = scoped.query("critical_path_rows", run="job").to_pylist()
    assert {each["name"] for each in expected_in_scope} >= {"add"}
    assert not (store / rollups.FOLDER).exists()
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", LARGE)
    assert paths_of(store) == expected
    monkeypatch.setattr(packing, "build_graph", None)
    assert paths_of(store) == expected
    assert scoped.query("critical_path_rows", run="job").to_pylist() == expected_in_scope
    monkeypatch.undo()
    for path in store.glob(f"{rollups.FOLDER}/*/*/outline.parquet"):
        path.write_bytes(b"")
    assert paths_of(store) == expected


Queries = tuple[tuple[str, dict[str, Any]], ...]
KEPT_PATHS: Queries = (
    ("critical_path", {}),
    ("critical_path", {"by": "op"}),
    ("critical_path", {"by": "rank", "rank": 1}),
    ("critical_path_timeline", {}),
    ("critical_path_timeline", {"rank": 1}),
    ("what_if", {}),
    ("what_if", {"change": "no_waits", "of_rank": 1}),
    ("what_if", {"op": "mm", "factor": 3.0}),
)
UNKEPT_PATHS: Queries = (
    ("critical_path", {"step": 1}),
    ("critical_path_timeline", {"bins": 7}),
    ("critical_path_timeline", {"step": 2}),
)


def job_of_paths(folder: Path, wait_ns: int) -> Path:
    """Return a store with two ranks, each of which launches two collectives in two steps; rank 1 comes later."""
    rows: dict[str, list[dict[str, Any]]] = {"kernels": [], "ops": [], "api_calls": [], "annotations": []}
    for rank in (0, 1):
        thread = {"run": "job", "source": f"job{rank}", "rank": rank, "pid": rank, "tid": 3}
        for step, at in ((1, 0), (2, 1000)):
            late, of_step = at + rank * wait_ns, {"scope": "cpu", "name": f"step {step}"}
            rows["annotations"].append({**thread, **of_step, "start_ns": at, "dur_ns": 900})
            rows["ops"].append({**thread, "name": "mm", "start_ns": at, "dur_ns": 80 + rank * wait_ns})
            call = {"api": "runtime", "name": "cudaLaunchKernel", "start_ns": late + 10, "dur_ns": 5}
            rows["api_calls"].append({**thread, **call, "correlation": at + 1})
            of_rank = {"source": f"job{rank}", "run": "job", "pid": rank, "correlation": at + 1}
            rows["kernels"].append(kernel(rank, late + 50, at + 800, **of_rank))
    return build_store(folder, rows, trace_bytes=None)


def answers_of_paths(store: Path, queries: Queries, scope: dict[str, Any] | None = None) -> list[object]:
    """Return the answers of queries of paths, each by a new session."""
    lab = Lab(store).scoped(**scope) if scope else Lab(store)
    return [lab.query(name, **params).to_pylist() for name, params in queries]


def test_kept_sums_of_paths_are_those_of_fresh_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a scope, of a step, or of other bins, a session computes them as ever."""
    scopes: tuple[dict[str, Any], ...] = ({"steps": "2"}, {"within": "mm"}, {"from_": "100ns", "to": "700ns"})
    in_scope = (KEPT_PATHS[1], KEPT_PATHS[3], KEPT_PATHS[5])
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", 10**6)
    store = job_of_paths(tmp_path / "lab", 100)
    expected = answers_of_paths(store, (*KEPT_PATHS, *UNKEPT_PATHS))
    expected_in_scope = [answers_of_paths(store, in_scope, scope) for scope in scopes]
    assert all(expected)
    assert all(map(all, expected_in_scope))
    assert not (store / rollups.FOLDER).exists()
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", LARGE)
    assert answers_of_paths(store, (*KEPT_PATHS, *UNKEPT_PATHS)) == expected
    assert [answers_of_paths(store, in_scope, scope) for scope in scopes] == expected_in_scope
    monkeypatch.setattr(tables, "compute_paths", None)
    monkeypatch.setattr(what_if, "compute_what_if", None)
    assert answers_of_paths(store, KEPT_PATHS) == expected[: len(KEPT_PATHS)]
    for each in (*UNKEPT_PATHS, ("what_if", {"factor": 0.25})):
        with pytest.raises(TypeError):
            answers_of_paths(store, (each,))


def test_sums_of_paths_of_other_sources_replace_the_kept_ones(tmp_path: Path) -> None:
    queries = (KEPT_PATHS[0], KEPT_PATHS[3], KEPT_PATHS[5])
    before = answers_of_paths(job_of_paths(tmp_path / "lab", 100), queries)
    kept = set((tmp_path / "lab").glob(f"{rollups.FOLDER}/*/*"))
    after = answers_of_paths(job_of_paths(tmp_path / "lab", 300), queries)
    replaced = set((tmp_path / "lab").glob(f"{rollups.FOLDER}/*/*"))
    assert after == answers_of_paths(job_of_paths(tmp_path / "fresh", 300), queries)
    assert before != after
    assert len(replaced) == len(kept)
    assert not replaced & kept


def test_sums_of_paths_are_kept_where_sql_names_them(tmp_path: Path, computed: list[str]) -> None:
    lab = Lab(job_of_paths(tmp_path / "lab", 100))
    text = "select sum(dur_ns)::bigint as dur_ns, max(window_ns) as window_ns from path_times"
    assert lab.sql(text).to_pylist() == lab.sql(text).to_pylist() == [{"dur_ns": 1900, "window_ns": 1900}]
    assert computed.count("path_times") == 1


def test_answers_of_the_last_changes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_tables, "_MOST_KEPT", 3)
    lab = Lab(job_of_paths(tmp_path / "lab", 100))
    compute, factors = what_if.compute_what_if, []
    monkeypatch.setattr(
        what_if, "compute_what_if", lambda *given: factors.append(given[1]["factor"]) or compute(*given)
    )
    for factor in (0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1):
        lab.query("what_if", factor=factor)
    assert factors == [0.1, 0.2, 0.3, 0.4, 0.1]
    assert len(list((tmp_path / "lab").glob(f"{rollups.FOLDER}/*/*/what_if_runs.parquet"))) == 3


def test_causes_are_kept_for_the_usual_parameters_alone(tmp_path: Path, computed: list[str]) -> None:
    """Rank 1 comes 2,000 ns late, after a gap before work that was launched in time: overhead, of at most 30 us."""
    starts = {0: (0, 1000), 1: (0, 3000)}
    kernels = [
        kernel(rank, at, 4000 if at else 100, source=f"job{rank}", run="job", pid=rank, correlation=at + 1)
        for rank, each in starts.items()
        for at in each
    ]
    calls = [
        {"source": f"job{rank}", "run": "job", "rank": rank, "pid": rank, "tid": 3, "api": "runtime"}
        | {"name": "cudaLaunchKernel", "start_ns": 90, "dur_ns": 5, "correlation": at + 1}
        for rank, each in starts.items()
        for at in each[1:]
    ]
    store = build_store(tmp_path / "lab", {"kernels": kernels, "api_calls": calls}, trace_bytes=None)
    query = library.find("straggler_causes")

    def ask(**params: int) -> list[tuple[str, int]]:
        with session.connect(store) as con:
            rows = execute.run(con, query, params).to_pylist()
        return [(row["cause"], row["cost_ns"]) for row in rows if row["cause"] is not None]

    assert ask() == [("overhead", 2000)]
    assert computed.count("delay_costs") == 1
    assert ask(min_gap_ns=500) == [("dependency", 2000)]
    assert ask() == [("overhead", 2000)]
    assert computed.count("delay_costs") == 1

    def idle(**params: int) -> list[tuple[int, int]]:
        with session.connect(store) as con:
            rows = execute.run(con, library.find("idle_causes"), params).to_pylist()
        return [(row["overhead_ns"], row["dependency_ns"]) for row in rows]

    assert idle() == idle() == [(900, 0), (2900, 0)]
    assert idle(rank=1) == [(2900, 0)]
    assert idle(min_gap_ns=1000) == [(900, 0), (0, 2900)]
    assert idle(device=0) == [(900, 0), (2900, 0)]
    assert computed.count("idle_times") == 1


@pytest.mark.parametrize(
    ("case", "relation"),
    [
        ("memcpy_overlap/copies_and_kernels", "copy_overlaps"),
        ("memset_summary/beside_kernels_and_copies", "memset_times"),
        ("launch_latency/queue", "launch_times"),
        ("kernel_concurrency/equal_timestamps", "concurrent_times"),
        ("role_overlap/described_and_guessed", "role_times"),
        ("op_kernels/forward_and_backward", "op_kernel_times"),
        ("op_summary/gpu_by_launch", "op_times"),
        ("mfu/flop_of_shapes", "shape_flops"),
        ("sweep_shares/four_denominators", "gpu_share_times"),
        ("sweep_runtime/sums_and_unions", "busy_times"),
    ],
)
def test_a_kept_answer_is_the_computed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed: list[str], case: str, relation: str
) -> None:
    store = build_store(tmp_path / "lab", cases.tables(cases.FOLDER / case), trace_bytes=None)

    query = library.find(Path(case).parent.name)
    one_rank = {"rank": 0} if any(param.name == "rank" for param in query.params) else {}
    chosen = {"from": "shapes"} if relation == "shape_flops" else {"run": "r"}

    def ask(**params: int) -> tuple[object, object]:
        with session.connect(store) as con:
            rows = execute.run(con, query, {**chosen, **params})
        return rows.schema.remove_metadata(), rows.to_pylist()

    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", 10**6)
    expected, of_rank = ask(), ask(**one_rank)
    assert relation not in computed
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", 1)
    assert ask() == ask() == expected
    assert ask(**one_rank) == of_rank
    assert computed.count(relation) == 1


@pytest.mark.parametrize("least_kept_rows", [1, 10**6])
def test_flops_of_shapes_are_the_same_for_one_rank_and_in_the_rows_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_kept_rows: int
) -> None:
    recorded = cases.tables(cases.FOLDER / "mfu/flop_of_shapes")
    tables = {
        name: [
            {**row, "source": f"s{rank}", "rank": rank, **({"device": rank} if name == "kernels" else {})}
            for rank in range(3)
            for row in (rows if rank != 1 or name != "kernels" else rows[:1])
        ]
        for name, rows in recorded.items()
    }
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", least_kept_rows)
    lab = Lab(build_store(tmp_path / "lab", tables, trace_bytes=None))

    def ask(**chosen: int) -> list[dict[str, object]]:
        return lab.query("mfu", **{"from": "shapes", "min_coverage": 0.0}, **chosen).to_pylist()

    of_one = [ask(rank=1), ask(device=2)]
    every = ask()
    assert of_one == [[every[1]], [every[2]]]
    assert [ask(rank=rank) for rank in range(3)] == [ask(device=rank) for rank in range(3)] == [[row] for row in every]
    assert len({row["flop"] for row in every}) == 2


def test_what_reads_captures_of_other_runs_is_kept_by_sessions_of_one_run(
    tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", 1)
    recorded = cases.tables(cases.FOLDER / "op_kernels/forward_and_backward")

    def ask(*runs: str) -> list[dict[str, object]]:
        tables = {
            name: [{**row, "run": run, "source": run} for run in runs for row in recorded[name]]
            for name in ("kernels", "ops", "api_calls")
        }
        with session.connect(build_store(tmp_path / "".join(runs), tables, trace_bytes=None)) as con:
            return execute.run(con, library.find("op_kernels"), {"run": "a"}).to_pylist()

    of_two = ask("a", "b")
    assert computed == []
    assert ask("a") == of_two
    assert computed == ["op_kernel_times"]
