"""What is compared of two sides: their steps, whole recordings, or what ran on the GPU, and what is left out."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.compare.small_runs import recording, together
from tests.memory import MemoryStore
from tests.stores import h200
from tracelab.compare import writers
from tracelab.compare.comparison import Request, compare_runs, compare_source
from tracelab.compare.fetch import Source
from tracelab.compare.notes import describe_recording_costs
from tracelab.compare.recordings import StepCounts
from tracelab.errors import NoDataError


def test_steps_without_gpu_work_are_left_out_and_counted(memory: MemoryStore) -> None:
    """Of 7 and 8 marked steps the first two and the third of `a` launch nothing; each side loses its first and last."""
    base, candidate = recording("a", steps=7), recording("b", steps=8)
    for name in ("api_calls", "kernels", "memcpys"):
        base[name] = [row for row in base[name] if row["correlation"] // 10 not in (0, 1, 2)]
    memory.filled(together(base, candidate))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert comparison.steps == (
        (StepCounts(7, 2, {"first_or_last": 2, "no_gpu_work": 3}),),
        (StepCounts(8, 6, {"first_or_last": 2}),),
    )
    assert (
        "- Steps left out: of the 7 of the base 2 count (3 without recorded GPU work, 2 first or last); of the 8 of "
        "the candidate 6 count (2 first or last)."
    ) in writers.write_markdown(comparison).splitlines()
    content = json.loads(writers.write_json(comparison, strict=False))
    assert content["base"] == [
        {"run": "a", "steps": 2, "marked_steps": 7, "left_out": {"first_or_last": 2, "no_gpu_work": 3}}
    ]


def test_steps_of_whole_graphs_count(memory: MemoryStore) -> None:
    """A profiler that records a CUDA graph as one row records no kernels of it."""
    sides = [recording("a"), recording("b")]
    for side in sides:
        side["graph_launches"] = [row | {"name": None} for row in side.pop("kernels") if row["stream"] == 7]
        del side["memcpys"]
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert comparison.unit == "ranges"
    assert {row.metric: row.base for row in comparison.rows}["gpu_time"] == 4_000


def test_recordings_without_steps_are_compared_as_a_whole(memory: MemoryStore) -> None:
    sides = [recording("a"), recording("b", gemm_ns=5_000)]
    for side in sides:
        side["annotations"] = []
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    values = {row.metric: (row.base, row.candidate) for row in comparison.rows if row.family == "headline"}
    assert values == {
        "window_time": (46_500, 47_500),  # from 1,000 to 47,500, or 48,500
        "gpu_time": (27_500, 32_500),
        "exposed_communication": (5_000, 5_000),
        "exposed_copies": (2_500, 2_500),
        "idle": (19_000, 15_000),
    }
    assert "whole recordings are compared" in comparison.warnings[0]


def test_two_profilers_are_compared_by_what_ran_on_the_gpu(memory: MemoryStore) -> None:
    sides = together(recording("a"), recording("b", gemm="void gemm_kernel<(int)3>(T1 *)"))
    sides["sources"] = [{"run": "a", "format": "kineto"}, {"run": "b", "format": "nsys"}]
    memory.filled(sides)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    families = {row.family for row in comparison.rows}
    assert (comparison.main.metric, families) == ("gpu_time", {"headline", "class", "copy", "kernel", "op_gpu"})
    assert "step_time" not in {row.metric for row in comparison.rows}
    assert "Two profilers recorded the sides" in comparison.notes[1]
    assert comparison.notes[2] == (
        "Whether both sides ran on one GPU model is not known: a recording does not name its GPU."
    )


def test_step_times_of_run_folders_suffice(memory: MemoryStore) -> None:
    steps = [
        {"run": run, "phase": "train", "step": at, "start_ns": at * 1_000, "dur_ns": dur_ns}
        for run, dur_ns in (("a", 700), ("b", 770))
        for at in range(6)
    ]
    memory.filled({"steps": steps})
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert [(row.metric, row.base, row.candidate) for row in comparison.rows] == [("step_time", 700, 770)]


def test_recorded_steps_that_a_profiler_slows_are_compared_with_the_others(shared_stores: Path) -> None:
    """The others, by the run folders: of 11,851,904 and 11,441,280 ns the shorter one; with graphs 11,059,520."""
    comparison = compare_runs(h200(shared_stores), Request(("transformer-bf16",), ("transformer-bf16-graphs",)))
    assert comparison.warnings == (
        "Recorded steps take 1.17 times as long in the base and 0.99 times as long in the candidate as the slower of "
        "the steps before and after them, waits for data left out: step time, idle time and ops on the CPU "
        "include what recording costs. By these recorded steps the change is −17.8 %, by the other steps 11.44 ms → "
        "11.06 ms (−3.3 %).",
    )


def test_a_side_whose_threads_waited_for_cores_is_named(memory: MemoryStore) -> None:
    """Of 4 s that the threads of b could run they waited for 3 s, of those of c for 2 s; nothing is known of a."""
    waits = {"b": (1_000_000_000, 3_000_000_000), "c": (1_000_000_000, 1_000_000_000)}
    samples = [
        {"run": run, "source": run, "host": "node", "time_ns": at * 10**10, "cores": 2, "util_ratio": 1.0}
        | dict(zip(("own_cpu_ns", "own_wait_ns"), times, strict=True))
        for run, times in waits.items()
        for at in (1, 2)
    ]
    memory.filled(together(*(recording(run) for run in "abc"), {"host_samples": samples}))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b", "c")))
    assert (
        "b: its threads waited for a core for 75 % of the time in which they could run, while its processes kept 0.1 "
        "of 2 cores busy and others 1.9. So did those of 1 other run. Times include these waits."
    ) in comparison.warnings
    facts = {row.fact: (row.verdict, row.base, row.candidate) for row in comparison.facts}
    assert facts["core_wait_ratio"] == ("unknown", None, "50 %, 75 %")


def test_what_recording_costs_a_side_may_be_unknown() -> None:
    costs = pl.DataFrame(
        {
            "run": ["a", "b", "c"],
            "recorded_ns": [150.0, 170.0, 100.0],
            "other_ns": [100.0, 100.0, 100.0],
            "is_slower": [True, True, False],
        }
    )
    assert describe_recording_costs(costs, ["c"], ["d"]) == []
    others = pl.DataFrame(
        {"run": ["e", "f"], "recorded_ns": [98.0, 97.0], "other_ns": [100.0, 100.0], "is_slower": [False, False]}
    )
    assert describe_recording_costs(pl.concat([costs, others]), ["a", "e", "f"], ["c"]) == []  # of medians 0.98 times
    assert describe_recording_costs(costs, ["a", "b"], ["d"]) == [
        "Recorded steps take 1.60 times as long in the base as the slower of the steps before and after them, "
        "waits for data left out: step time, idle time and ops on the CPU include what recording costs. How much it "
        "costs the candidate is not known."
    ]


def test_first_and_last_of_the_steps_of_run_folders_do_not_count(memory: MemoryStore) -> None:
    """Of steps of 900, 500, 600, 700 and 100 ns the median of the middle three counts."""
    times_ns = {"a": (900, 500, 600, 700, 100), "b": (100, 520, 620, 720, 900)}
    memory.filled(
        {
            "steps": [
                {"run": run, "phase": "train", "step": at, "start_ns": at * 1_000, "dur_ns": dur_ns}
                for run, each in times_ns.items()
                for at, dur_ns in enumerate(each)
            ]
        }
    )
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    (row,) = comparison.rows
    assert (row.metric, row.base, row.candidate) == ("step_time", 600, 620)


def test_runs_without_times_are_refused(memory: MemoryStore) -> None:
    memory.filled({"sources": [{"run": "a"}, {"run": "b"}]})
    with pytest.raises(NoDataError, match="run a has neither steps nor times on a GPU nor ops"):
        compare_source(Source(memory.con), Request(("a",), ("b",)))


def test_a_recording_without_times_is_left_out_of_a_side_of_several_and_named(memory: MemoryStore) -> None:
    """The whole side is refused only where no recording of it has times."""
    failed = {"sources": [{"run": "a-2"}], "runs": [{"run": "a-2", "status": "failed"}]}
    memory.filled(together(recording("a-1"), recording("a-3"), recording("b"), failed))
    compared = compare_source(Source(memory.con), Request(("a-1", "a-2", "a-3"), ("b",)))
    assert (compared.request.base, len(compared.steps[0])) == (("a-1", "a-3"), 2)
    assert compared.warnings[0] == "1 of 3 recordings of the base is left out: a-2 (status failed, no times)."
    with pytest.raises(NoDataError, match="run a-2 has neither steps nor times on a GPU nor ops"):
        compare_source(Source(memory.con), Request(("a-2",), ("b",)))


def test_a_failed_recording_without_steps_is_left_out_where_others_have_some(memory: MemoryStore) -> None:
    cut = {name: rows for name, rows in recording("a-2").items() if name != "annotations"}
    failed = {"runs": [{"run": "a-2", "status": "oom"}]}
    memory.filled(together(recording("a-1"), cut, failed, recording("b")))
    compared = compare_source(Source(memory.con), Request(("a-1", "a-2"), ("b",)))
    assert (compared.unit, compared.request.base) == ("ranges", ("a-1",))
    assert "a-2 (status oom, no steps)" in compared.warnings[0]


def test_the_run_that_lacks_what_the_others_have_is_named(memory: MemoryStore) -> None:
    """Step times of a run folder cannot be compared with a recording without steps."""
    steps = [{"run": "a", "phase": "train", "epoch": 0, "step": at, "start_ns": 9 * at, "dur_ns": 8} for at in range(6)]
    memory.filled(together({"steps": steps}, {"sources": [{"run": "b"}]}))
    with pytest.raises(NoDataError, match="run a has times of steps and no trace, and b no steps"):
        compare_source(Source(memory.con), Request(("a",), ("b",)))


def test_gpu_work_that_no_step_launched_is_stated(memory: MemoryStore) -> None:
    """A copy of 700 ns is launched at 9,500, behind the first step's range, which ends at 9,000."""
    tables = together(recording("main"), recording("new"))
    place = {"run": "new", "rank": 0, "pid": 1}
    tables["api_calls"].append(
        place
        | {"tid": 1, "api": "runtime", "name": "cudaMemcpyAsync", "start_ns": 9_500, "dur_ns": 20, "correlation": 999}
    )
    tables["memcpys"].append(
        place | {"device": 0, "stream": 7, "direction": "DtoD", "start_ns": 9_600, "dur_ns": 700, "correlation": 999}
    )
    compared = compare_source(Source(memory.filled(tables).con), Request(("main",), ("new",)))
    note = "GPU work that was launched before, between or behind the ranges of steps is in no metric: "
    assert [each for each in compared.notes if each.startswith("GPU work")] == [
        f"{note}1 row of 700 ns in new (most: DtoD, 700 ns)."
    ]
