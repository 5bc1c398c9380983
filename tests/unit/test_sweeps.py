"""The questions about sweeps on random ones, against plain Python and against each other."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise, product
from math import ceil, isclose, log

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import build_store
from tests.properties import examples
from tracelab import schema
from tracelab.query import execute, library, spec
from tracelab.store import session

Row = dict[str, object]
Tables = dict[str, list[Row]]

BATCHES = (8, 16, 32)
LAYOUTS = ((1, "none"), (2, "dp"), (4, "dp"), (2, "ddp"))
STATUSES = ("ok", "oom", "timeout", "failed", "no_kernels", "not_run", None)
TRAINED = {"ok", "timeout", "no_kernels", None}

cell = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["ok", "ok", "ok", *STATUSES]),
        "durations": st.lists(st.integers(1, 60), min_size=1, max_size=3),
        "wait": st.integers(0, 3),
        "pinned": st.booleans(),
    }
)
sweeps = st.dictionaries(st.sampled_from(list(product(BATCHES, LAYOUTS))), cell, min_size=1)


def _tables(sweep: dict) -> dict[str, list[Row]]:
    """The runs and steps of a sweep: of rank 0 the durations as they are, of others one more each."""
    runs, steps = [], []
    for (batch, (gpus, parallel)), made in sweep.items():
        world = gpus if parallel == "ddp" else 1
        run = f"b{batch}-g{gpus}-{parallel}"
        runs.append(
            {
                "run": run,
                "sweep": "s",
                "model": "m",
                "batch_size": batch,
                "global_batch_size": batch * world,
                "gpus": gpus,
                "world_size": world,
                "parallelism": parallel,
                "pin_memory": made["pinned"],
                "status": made["status"],
                "tags": [("dataset_size", "100")],
            }
        )
        steps += [
            {"run": run, "rank": rank, "phase": "train", "epoch": 0, "step": number, "start_ns": 100 * number,
             "dur_ns": dur_ns + rank, "samples": batch, "data_wait_ns": made["wait"]}
            for rank in range(world)
            for number, dur_ns in enumerate(made["durations"])
            if made["status"] not in ("not_run", "oom")
        ]  # fmt: skip
    return {"runs": runs, "steps": steps}


def _speeds(tables: dict[str, list[Row]]) -> dict[str, float]:
    """Samples a second of every run that trained."""
    times: dict[tuple, int] = defaultdict(int)
    samples: Counter = Counter()
    for step in tables.get("steps", ()):
        times[step["run"], step["rank"]] += step["dur_ns"]
        samples[step["run"]] += step["samples"]
    trained = {row["run"] for row in tables["runs"] if row["status"] in TRAINED}
    return {
        run: count * 1e9 / max(dur for (other, _), dur in times.items() if other == run)
        for run, count in samples.items()
        if run in trained
    }


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session on a store of one empty run: a store for each example would be written to the disk run by run."""
    store = build_store(tmp_path_factory.mktemp("lab"), {"runs": [{"run": "r"}]})
    with session.connect(store) as opened:
        yield opened


def _ask(con: duckdb.DuckDBPyConnection, tables: Tables, **asked: dict[str, spec.Value]) -> dict[str, list[Row]]:
    """Answers over these rows, put in the place of the store's."""
    rows = {"runs": [{"run": "r"}], "steps": [], "ops": [], "kernels": []} | tables
    rows["runs"] += [
        {"run": run} for run in {str(row["run"]) for row in rows["steps"]} - {r["run"] for r in rows["runs"]}
    ]
    for name, listed in rows.items():
        table = schema.BY_NAME[name]
        con.register(f"{name}_rows", table.rows([{"source": "a"} | row for row in listed]))
        columns = ", ".join(
            "start_ns + dur_ns as end_ns" if c.name == "end_ns" else f'"{c.name}"' for c in table.view_columns
        )
        con.execute(f"create or replace view {name} as select {columns} from {name}_rows")
    return {
        name: execute.fetch_unchecked(con, each, values).to_pylist()
        for name, values in asked.items()
        for each in [library.find(name)]
    }


def _alike(found: float | None, expected: float | None) -> bool:
    return (found is None) == (expected is None) and (found is None or isclose(found, expected, rel_tol=1e-9))


@examples(10)
@given(sweeps)
def test_cells_statuses_and_speeds_are_those_of_plain_python(con, sweep):
    tables = _tables(sweep)
    said = _ask(con, tables, sweep_coverage={}, sweep_status={}, sweep_throughput={})
    (status,) = said["sweep_status"]
    counts = Counter(made["status"] for made in sweep.values())
    assert [status[name] for name in ("runs", "ok", "oom", "timeout", "failed", "profiler", "not_run", "unknown")] == [
        len(sweep), counts["ok"], counts["oom"], counts["timeout"], counts["failed"], counts["no_kernels"],
        counts["not_run"], counts[None],
    ]  # fmt: skip
    assert {row["run"] for row in said["sweep_coverage"]} == {row["run"] for row in tables["runs"]}
    assert Counter(row["status"] for row in said["sweep_coverage"]) == counts
    expected = {row["run"]: ceil(100 / (row["batch_size"] * row["world_size"])) for row in tables["runs"]}
    assert {row["run"]: row["expected_iterations"] for row in said["sweep_throughput"]} == expected
    speeds = _speeds({**tables, "runs": [row | {"status": "ok"} for row in tables["runs"]]})
    assert all(_alike(row["samples_per_s"], speeds.get(row["run"])) for row in said["sweep_throughput"])


@examples(10)
@given(sweeps)
def test_speed_ups_are_those_of_plain_python_and_efficiency_times_gpus_is_speed_up(con, sweep):
    tables = _tables(sweep)
    said = _ask(con, tables, sweep_scaling={"ignore": "pin_memory"})["sweep_scaling"]
    speeds = _speeds(tables)
    size = {row["run"]: row["gpus"] for row in tables["runs"]}
    counts = {size[run] for run in speeds}
    fewest = min(counts, default=None)
    comparable = speeds if len(counts) > 1 or fewest == 1 else {}
    assert {row["run"] for row in said} == set(size)
    for row in said:
        bases = [run for run in comparable if size[run] == fewest and run.startswith(f"b{row['batch_size']}-")]
        bases.sort(key=lambda run: (not run.endswith("-" + row["parallelism"]), not run.endswith("-none"), run))
        speed, base = speeds.get(row["run"]), speeds.get(bases[0]) if bases else None
        assert row["base_run"] == (bases[0] if bases else None)
        assert _alike(row["speedup_factor"], speed / base if speed and base else None)
        if row["speedup_factor"] is not None:
            assert isclose(row["efficiency_ratio"] * row["processor_factor"], row["speedup_factor"])
            assert isclose(row["processor_factor"] * fewest, size[row["run"]])


@examples(10)
@given(sweeps)
def test_the_crossover_is_the_smallest_batch_from_which_on_all_are_faster(con, sweep):
    tables = _tables(sweep)
    options = {"ignore": "pin_memory"}
    said = _ask(con, tables, sweep_crossover=options, sweep_scaling=options)
    factors: dict[str, dict[int, float]] = defaultdict(dict)
    for row in said["sweep_scaling"]:
        if row["speedup_factor"] is not None and row["processors"] > row["base_processors"]:
            factors[row["layout"]][row["batch_size"]] = row["speedup_factor"]
    for row in said["sweep_crossover"]:
        found = factors.get(row["layout"], {})
        faster = [batch for batch in found if all(found[other] > 1 for other in found if other >= batch)]
        assert row["crossover_batch_size"] == min(faster, default=None)
        assert row["batch_sizes"] == len(found)
        slower = max((batch for batch in found if found[batch] <= 1), default=None)
        assert row["largest_slower_batch_size"] == slower
        if row["estimated_batch_size"] is not None:
            assert slower <= row["estimated_batch_size"] <= row["crossover_batch_size"]
    assert set(factors) <= {row["layout"] for row in said["sweep_crossover"]}


@examples(10)
@given(sweeps)
def test_an_elasticity_is_the_slope_between_neighbours(con, sweep):
    tables = _tables(sweep)
    said = _ask(con, tables, sweep_marginals={"ignore": "pin_memory"})["sweep_marginals"]
    speeds = _speeds(tables)
    by_cell = {(row["batch_size"], row["layout"]): row for row in said}
    assert len(by_cell) == len(speeds)
    for (batch, layout), row in by_cell.items():
        smaller = max((other for other, where in by_cell if where == layout and other < batch), default=None)
        assert row["smaller_batch_size"] == smaller
        if smaller is None:
            assert row["batch_elasticity"] is None
            continue
        before = by_cell[smaller, layout]["samples_per_s"]
        assert _alike(row["batch_elasticity"], log(row["samples_per_s"] / before) / log(batch / smaller))


@examples(10)
@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1, max_size=4))
def test_means_of_ratios_and_ratios_of_means_are_those_of_plain_python(con, times):
    runs, steps = [], []
    for number, pair in enumerate(times):
        for place, dur_ns in enumerate(pair):
            run = f"m{number}-{place}"
            machine, pinned = ("a", "b")[place], bool(place)
            common = {"model": f"m{number}", "batch_size": 8, "gpus": 1, "status": "ok", "sweep": "s"}
            runs.append({"run": run, "tags": [("machine", machine)], "dataset": "d"} | common)
            runs.append({"run": f"p{run}", "pin_memory": pinned, "sweep": "p"} | {**common, "sweep": "p"})
            steps += [
                {
                    "run": name,
                    "rank": 0,
                    "phase": "train",
                    "epoch": 0,
                    "step": 0,
                    "start_ns": 0,
                    "dur_ns": dur_ns,
                    "samples": 8,
                }
                for name in (run, f"p{run}")
            ]
    said = _ask(
        con,
        {"runs": runs, "steps": steps},
        machine_comparison={"sweep": "s"},
        setting_effect={"sweep": "p"},
    )
    of_means = sum(first for first, _ in times) / sum(second for _, second in times)
    of_ratios = sum(first / second for first, second in times) / len(times)
    for rows in said.values():
        assert len(rows) == len(times)
        assert all(isclose(row["ratio_of_means_factor"], of_means) for row in rows)
        assert all(isclose(row["mean_of_ratios_factor"], of_ratios) for row in rows)
    saved = {row["model"]: row["saved_ns"] for row in said["machine_comparison"]}
    assert saved == {f"m{number}": first - second for number, (first, second) in enumerate(times)}


accuracies = st.lists(st.sampled_from([0.1, 0.5, 0.5004, 0.8, 0.801, 0.9]), min_size=1, max_size=8)


@examples(12)
@given(accuracies, st.integers(1, 3))
def test_convergence_is_that_of_plain_python(con, series, patience):
    steps = [
        {
            "run": "r",
            "rank": 0,
            "phase": "validate",
            "epoch": epoch,
            "start_ns": epoch * 100,
            "dur_ns": 50,
            "samples": 10,
            "accuracy": value,
        }
        for epoch, value in enumerate(series)
    ]
    values = {"patience": patience, "target": 0.8}
    ((row,),) = _ask(con, {"steps": steps}, training_convergence=values).values()
    still = [abs(after - before) < 0.005 for before, after in pairwise(series)]
    converged = [at for at in range(len(series)) if len(still[at : at + patience]) == patience
                 and all(still[at : at + patience])]  # fmt: skip
    reached = [at for at, value in enumerate(series) if value >= 0.8]
    assert (row["converged_epoch"], row["target_epoch"], row["best_epoch"]) == (
        min(converged, default=None),
        min(reached, default=None),
        series.index(max(series)),
    )
    assert row["target_ns"] == (reached[0] * 100 + 50 if reached else None)


@pytest.mark.parametrize("name", ["sweep_runtime", "sweep_calls"])
def test_what_a_sweep_adds_up_is_what_other_queries_report_for_a_run(con, name):
    ops = [
        {
            "run": "r",
            "rank": 0,
            "name": f"aten::{at % 3}conv",
            "pid": 1,
            "tid": at % 2,
            "start_ns": at * 10,
            "dur_ns": 25 if at % 4 else 4,
        }
        for at in range(0, 40, 2)
    ]
    kernels = [
        {"run": "r", "rank": 0, "name": "k", "device": at % 2, "start_ns": at * 7, "dur_ns": 20} for at in range(30)
    ]
    said = _ask(
        con,
        {"ops": ops, "kernels": kernels},
        op_summary={},
        kernel_concurrency={},
        gpu_breakdown={},
        **{name: {}},
    )
    (row,) = said[name]
    if name == "sweep_calls":
        assert (row["op_calls"], row["kernels"]) == (
            sum(each["calls"] for each in said["op_summary"]),
            sum(each["kernels"] for each in said["kernel_concurrency"]),
        )
    else:
        assert row["gpu_busy_ns"] == sum(each["busy_ns"] for each in said["kernel_concurrency"])
        assert row["gpu_window_ns"] == sum(each["window_ns"] for each in said["gpu_breakdown"])
        assert row["gpu_sum_ns"] == 600
