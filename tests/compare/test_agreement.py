"""A comparison and run_difference, side by side in a report, have the same figures for what both measure."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.compare.small_runs import ALL_REDUCE, Tables, together
from tests.memory import MemoryStore
from tests.properties import examples
from tracelab.compare.comparison import Comparison, Request, compare_source
from tracelab.compare.fetch import Source

STEP_NS = 100
METRICS = {
    ("window", "step_time"): "step_time",
    ("window", "window_time"): "window_time",
    ("breakdown", "exposed_communication"): "exposed_communication",
    ("breakdown", "exposed_copies"): "exposed_copies",
    ("breakdown", "idle"): "idle",
}
PREFIXES = {"kernels": "kernel:", "memcpys": "copy:", "ops": "op:"}


def metric_of(row: dict[str, Any]) -> str | None:
    """Return the metric of a comparison that a row of run_difference is, or None."""
    if row["section"] in PREFIXES:
        return f"{PREFIXES[row['section']]}{row['name']}"
    return METRICS.get((row["section"], row["name"]))


def assert_agreement(comparison: Comparison, difference: list[dict[str, Any]]) -> set[str]:
    """Check each metric that both have, and return the names of these."""
    rows = {row.metric: row for row in comparison.rows}
    shared = {metric: row for row in difference if (metric := metric_of(row)) in rows}
    for metric, row in shared.items():
        measured = rows[metric]
        assert (row["before_each_ns"], row["after_each_ns"]) == (round(measured.base), round(measured.candidate)), (
            metric
        )
    return set(shared)


work = st.tuples(
    st.sampled_from(["volta_sgemm_128x32_nt", ALL_REDUCE, "HtoD", "DtoD", "memset"]),
    st.integers(0, 120),  # from the call to the start on the device
    st.integers(1, 60),
)
steps = st.lists(st.lists(work, max_size=4), min_size=1, max_size=7)
sides = st.lists(steps, min_size=1, max_size=2)
"""The steps of each rank of a run, with the GPU rows that each launches."""


def build_run(run: str, ranks: list[list[list[tuple[str, int, int]]]], *, slower: int) -> Tables:
    """Return the rows of a run; each step is as long as the others, and one row is launched before all."""
    tables: Tables = {name: [] for name in ("annotations", "api_calls", "kernels", "memcpys", "memsets")}
    for rank, marked in enumerate(ranks):
        place = {"run": run, "rank": rank, "pid": rank}
        correlation = 0
        tables["kernels"].append(place | {"device": rank, "name": "early", "start_ns": 0, "dur_ns": 5})
        for number, listed in enumerate(marked):
            start_ns = 1_000 + number * (STEP_NS + slower)
            mark = {"name": f"step {number}", "scope": "cpu", "tid": 1, "start_ns": start_ns, "dur_ns": STEP_NS - 10}
            tables["annotations"].append(place | mark)
            for at, (kind, late, dur_ns) in enumerate(listed):
                correlation += 1
                call = {"api": "runtime", "name": "launch", "tid": 1, "start_ns": start_ns + at, "dur_ns": 1}
                tables["api_calls"].append(place | call | {"correlation": correlation})
                row = place | {"device": rank, "stream": 7, "start_ns": start_ns + at + late, "dur_ns": dur_ns}
                row |= {"correlation": correlation}
                if kind == "memset":
                    tables["memsets"].append(row)
                elif kind in ("HtoD", "DtoD"):
                    tables["memcpys"].append(row | {"direction": kind})
                else:
                    tables["kernels"].append(row | {"name": kind})
    return tables


GEMM, COPY = [("volta_sgemm_128x32_nt", 0, 1)], [("HtoD", 0, 1)]


@example([[GEMM, GEMM, GEMM]], [[GEMM, GEMM, GEMM, GEMM, COPY, GEMM]], 0)  # of one step idle time is unknown
@examples(40)
@given(sides, sides, st.integers(0, 9))
def test_both_have_the_figures_of_the_same_steps(
    memory: MemoryStore, base: list[Any], candidate: list[Any], slower: int
) -> None:
    memory.filled(together(build_run("a", base, slower=0), build_run("b", candidate, slower=slower)))
    request = Request(("a",), ("b",), allow_different=("gpus", "ranks"))
    comparison = compare_source(Source(memory.con), request)
    difference = memory.query("run_difference", top_rows=99).to_pylist()
    shared = assert_agreement(comparison, difference)
    assert ("step_time" if comparison.unit == "ranges" else "window_time") in shared
    expected = {row.metric for row in comparison.rows if row.family in ("kernel", "copy")}
    assert expected <= shared
    assert {row["per"] for row in difference} == {"step" if comparison.unit == "ranges" else "recording"}


@examples(20)
@given(st.lists(st.lists(st.integers(1, 50), max_size=3), min_size=1, max_size=6), st.integers(0, 9))
def test_both_have_the_figures_of_runs_without_a_gpu(memory: MemoryStore, listed: list[list[int]], slower: int) -> None:
    tables: Tables = {"annotations": [], "ops": []}
    for run, longer in (("a", 0), ("b", slower)):
        place = {"run": run, "rank": 0, "pid": 1, "tid": 1}
        for number, durations in enumerate(listed):
            start_ns = number * 300
            tables["annotations"] += [
                place | {"name": name, "scope": "cpu", "tid": tid, "start_ns": start_ns + after_ns, "dur_ns": dur_ns}
                for name, tid, after_ns, dur_ns in (
                    (f"step {number}", 1, 0, 200 + longer),
                    ("gloo:all_reduce", 2, 40, 50 + longer),
                    ("enumerate(DataLoader)#_Iter.__next__", 1, 80, 20),
                )
            ]
            tables["ops"] += [
                place | {"name": f"aten::op{at}", "start_ns": start_ns + 60 * at, "dur_ns": dur_ns + longer}
                for at, dur_ns in enumerate(durations)
            ]
    tables["ops"].append(
        {"run": "a", "rank": 0, "pid": 1, "tid": 1, "name": "aten::op0", "start_ns": 9_000, "dur_ns": 5}
    )
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    shared = assert_agreement(comparison, memory.query("run_difference", top_rows=99).to_pylist())
    assert {row.metric for row in comparison.rows} <= shared
