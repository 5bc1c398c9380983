"""Comparisons from rows to sentences, on recordings that add up by hand."""

import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree
from zlib import crc32

import polars as pl
import pytest
from click.testing import CliRunner

from tests.build import build_store
from tests.compare.small_runs import Tables, recording, together, with_facts
from tests.memory import MemoryStore
from tests.stores import h200
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.compare import sentences, writers
from tracelab.compare.comparability import NotComparableError
from tracelab.compare.comparison import Comparison, Request, compare_runs, compare_source
from tracelab.compare.fetch import Source
from tracelab.compare.gates import Gate, parse_gate
from tracelab.compare.notes import describe_recording_costs
from tracelab.compare.recordings import StepCounts, build_recordings
from tracelab.errors import NoDataError, UsageError

SCHEMA = {
    "testsuites": ({"testsuite"}, {"tests", "failures", "errors", "skipped"}),
    "testsuite": ({"testcase"}, {"name", "tests", "failures", "errors", "skipped"}),
    "testcase": ({"failure", "error", "skipped", "system-out"}, {"classname", "name", "time"}),
    "failure": (set(), {"message", "type"}),
    "error": (set(), {"message", "type"}),
    "skipped": (set(), {"message"}),
    "system-out": (set(), set()),
}
"""Elements of JUnit's XML with their children and attributes, as CI systems read them."""


@pytest.fixture(scope="module")
def slower(memory: MemoryStore) -> Comparison:
    """Four recordings of each side; the candidate's matrix product has another tile and takes 1,000 ns more."""
    base = [with_facts(recording(f"base{at}", slower=at), torch_version="2.12.0") for at in range(4)]
    candidate = [
        with_facts(
            recording(f"new{at}", gemm="gemm_kernel_2", gemm_ns=5_000, slower=1_000 + at), torch_version="2.13.0"
        )
        for at in range(4)
    ]
    memory.filled(together(*base, *candidate))
    names = [tuple(f"{side}{at}" for at in range(4)) for side in ("base", "new")]
    gates = ("step_time > 3%", "step_time > 30%", "class:gemm > 20%", "exposed_copies > 1%")
    return compare_source(Source(memory.con), Request(names[0], names[1], gates=tuple(map(parse_gate, gates))))


def test_values_are_medians_of_the_steps_without_first_and_last(slower: Comparison) -> None:
    rows = {row.metric: (round(row.base), round(row.candidate)) for row in slower.rows}
    assert rows == {
        "step_time": (10_002, 11_002),  # 10,001.5 and 11,001.5, rounded to even
        "gpu_time": (5_500, 6_500),
        "exposed_communication": (1_000, 1_000),
        "exposed_copies": (500, 500),
        "idle": (4_502, 4_502),
        "class:gemm": (4_000, 5_000),
        "class:communication": (2_000, 2_000),
        "copy:HtoD": (500, 500),
        "op_gpu:aten::mm": (4_000, 5_000),
        "op:aten::mm": (600, 600),
        "op:aten::empty": (400, 400),
        "kernel:gemm_kernel_2": (4_000, 5_000),
        "kernel:ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)": (2_000, 2_000),
    }
    assert slower.steps == ((StepCounts(5, 3, {"first_or_last": 2}),) * 4,) * 2


def test_verdicts_follow_from_all_recordings(slower: Comparison) -> None:
    assert slower.verdict == "slower"
    assert {row.metric for row in slower.rows if row.verdict == "slower"} == {
        "step_time", "gpu_time", "class:gemm", "op_gpu:aten::mm", "kernel:gemm_kernel_2",
    }  # fmt: skip
    assert {row.verdict for row in slower.rows} == {"slower", "same"}


def test_kernel_with_another_index_is_matched_by_its_key(slower: Comparison) -> None:
    assert {each.stage: (each.base, each.candidate) for each in slower.matching.matches}["key"] == (
        ("gemm_kernel",), ("gemm_kernel_2",),
    )  # fmt: skip
    assert slower.matching.shares == {"name": (2 / 6, 2 / 7), "key": (4 / 6, 5 / 7)}


def test_gates_fail_pass_or_stay_undecided(slower: Comparison) -> None:
    assert {str(each.gate): each.verdict for each in slower.gates} == {
        "step_time > 3%": "failed",
        "step_time > 30%": "passed",
        "class:gemm > 20%": "failed",
        "exposed_copies > 1%": "passed",
    }
    assert (slower.exit_code(strict=False), slower.exit_code(strict=True)) == (1, 1)


def test_a_metric_of_a_gate_is_in_the_first_table_alone(slower: Comparison) -> None:
    for everything in (False, True):
        lines = writers.write_text(slower, everything=everything, width=100).splitlines()
        assert len([line for line in lines if line.startswith("class:gemm ")]) == 1
        assert len([line for line in lines if line.startswith("step_time ")]) == 1


def test_details_beyond_a_limit_are_counted(slower: Comparison) -> None:
    """A kernel and an op change by 1 % of the step or more; all details are 2 classes, 2 kernels, an op and 2 ops."""
    last = [
        writers.write_text(slower, everything=everything, most=most, width=200).splitlines()[-1]
        for everything, most in ((False, None), (False, 0), (True, 1))
    ]
    assert last == [
        "- Details that change by less than 1 % of the step are left out; --all lists them.",
        "- Details that change by less than 1 % of the step are left out, and 2 others with smaller changes than those "
        "listed; --all without --limit lists them.",
        "- 3 details with smaller changes than those listed are left out; --all without --limit lists them.",
    ]


def test_comment_begins_with_the_verdict_and_names_the_cause(slower: Comparison) -> None:
    lines = writers.write_markdown(slower).splitlines()
    assert lines[0] == (
        "**Slower:** step time grows by 10.0 % (95 % interval +10.0 % to +10.0 %), 10.00 µs → 11.00 µs, in 4 + 4 "
        "recordings (3 steps each)."
    )
    assert lines[2].strip() == "Largest differences per step: class:gemm +1.000 µs."
    assert "| step_time | 10.00 µs | 11.00 µs | +10.0 % | +10.0 % to +10.0 % | **slower** |" in lines
    assert "- The sides differ in: torch: 2.12.0 → 2.13.0." in lines
    matched = "- Kernels matched: 100 % of the base's and 100 % of the candidate's kernel time"
    assert f"{matched} (by name 28.6 %, by key 71.4 %)." in lines


def test_junit_has_the_elements_and_counts_that_ci_systems_read(slower: Comparison) -> None:
    root = ElementTree.fromstring(writers.write_junit(slower, strict=False))  # noqa: S314  ours
    for parent in root.iter():
        children, attributes = SCHEMA[parent.tag]
        assert {child.tag for child in parent} <= children
        assert set(parent.attrib) == attributes
    suite = root[0]
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 9, "failures": 2, "errors": 0, "skipped": 0}
    assert len(list(suite.iter("testcase"))) == 9
    assert len(list(suite.iter("failure"))) == 2


def test_json_has_exact_values(slower: Comparison) -> None:
    content = json.loads(writers.write_json(slower, strict=False))
    assert (content["tracelab"], content["verdict"], content["exit_code"]) == ("comparison/1", "slower", 1)
    (gemm,) = [row for row in content["metrics"] if row["metric"] == "class:gemm"]
    assert (gemm["base_ns"], gemm["difference_ns"], gemm["change_ratio"]) == (4_000, 1_000, pytest.approx(0.25))
    assert gemm["base_bytes"] is None
    assert content["gates"][0] | {"message": ""} == {
        "metric": "step_time", "percent": 3.0, "verdict": "failed", "message": "",
    }  # fmt: skip


def test_text_fits_the_width_and_breaks_no_unit(slower: Comparison) -> None:
    text = writers.write_text(slower, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"\d$", "\n".join(line for line in text.splitlines() if line.startswith("- ")))


def test_noise_runs_measure_the_floor(memory: MemoryStore) -> None:
    runs = [recording(f"r{at}", slower=slower) for at, slower in enumerate((0, 100, 200, 300, 2_500))]
    memory.filled(together(*runs))
    comparison = compare_source(Source(memory.con), Request(("r0",), ("r1",), noise=("r0", "r2", "r3")))
    step = comparison.main
    assert (step.floor_measured, step.floor) == (True, pytest.approx(0.03))
    assert not any("differ by up to" in note for note in comparison.warnings)
    noisy = compare_source(Source(memory.con), Request(("r0", "r4"), ("r1",)))
    assert "Recordings of the base differ by up to 25 % in step_time" in noisy.warnings[-1]
    assert "Noise floor: 3.0 % of step_time, measured on 3 recordings" in writers.write_markdown(comparison)


def test_single_recordings_are_undecided_and_strict_exits_with_4(memory: MemoryStore) -> None:
    memory.filled(together(recording("a", steps=8), recording("b", steps=8, slower=1_000)))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("step_time", 3),)))
    assert (comparison.verdict, comparison.main.tendency) == ("undecided", "slower")
    assert (comparison.exit_code(strict=False), comparison.exit_code(strict=True)) == (0, 4)
    assert "Within these recordings the candidate is slower: +10.0 % to +10.0 %." in writers.write_markdown(comparison)
    assert 'type="undecided"' in writers.write_junit(comparison, strict=True)


def refused(memory: MemoryStore, base: Tables, candidate: Tables, *allowed: str) -> str:
    """Return the sentence that refuses a comparison."""
    memory.filled(together(base, candidate))
    with pytest.raises(NotComparableError) as refusal:
        compare_source(Source(memory.con), Request(("a",), ("b",), allow_different=allowed))
    return str(refusal.value)


def test_other_hardware_and_batches_are_refused_unless_allowed(memory: MemoryStore) -> None:
    base = with_facts(recording("a"), batch_size=8)
    candidate = with_facts(recording("b"), gpu="H100", batch_size=16)
    assert refused(memory, base, candidate, "gpu") == (
        "base and candidate cannot be compared: batch size 8 against 16; record both with one batch size, or add "
        "--allow-different batch_size"
    )
    allowed = Request(("a",), ("b",), allow_different=("gpu", "batch_size"))
    (warning,) = compare_source(Source(memory.con), allowed).warnings
    assert warning == (
        "Compared although the sides differ in GPU model, batch size: effects include these differences."
    )


def test_the_gpu_that_a_run_folder_names_is_compared_where_no_device_is_recorded(memory: MemoryStore) -> None:
    base, candidate = (
        {name: rows for name, rows in with_facts(recording(run), gpu=gpu).items() if name != "devices"}
        | {"runs": [{"run": run, "gpu": gpu}]}
        for run, gpu in (("a", "NVIDIA A100"), ("b", "H100"))
    )
    assert "GPU model A100 against H100" in refused(memory, base, candidate)


def test_other_input_shapes_are_refused(memory: MemoryStore) -> None:
    candidate = recording("b")
    candidate["ops"] = [
        row | ({"input_shapes": "[[4, 3]]"} if "input_shapes" in row else {}) for row in candidate["ops"]
    ]
    assert "only 0 % of the calls of common ops have inputs of the same shapes" in refused(
        memory, recording("a"), candidate
    )


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


@pytest.mark.parametrize(
    ("devices", "peak_bytes"),
    [((0, 1, None), 700), ((None, None, None), 900)],
    ids=["of the fullest GPU", "of the host without one"],
)
def test_peak_memory_is_that_of_the_fullest_gpu(
    memory: MemoryStore, devices: tuple[int | None, ...], peak_bytes: int
) -> None:
    """Of three allocators the peaks are 500, 700 and 900 bytes; the candidate has 100 more each."""
    tables = together(recording("a"), recording("b"))
    tables["memory_events"] = [
        {"run": run, "pid": 1, "device": device, "time_ns": at, "size_bytes": most, "allocated_bytes": most + more}
        for run, more in (("a", 0), ("b", 100))
        for device, peak in zip(devices, (500, 700, 900), strict=True)
        for at, most in ((5, peak), (6, peak - 300))
    ]
    memory.filled(tables)
    rows = compare_source(Source(memory.con), Request(("a",), ("b",))).rows
    assert [(row.base, row.candidate) for row in rows if row.metric == "peak_memory"] == [
        (peak_bytes, peak_bytes + 100)
    ]


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


def on_cpu(run: str, exposed_ns: int) -> Tables:
    """Five steps of 1,000 ns: an op for 500 ns, and gloo from 400 ns on, of which the op hides 100 ns."""
    place = {"run": run, "rank": 0, "pid": 1, "scope": "cpu"}
    starts = [crc32(run.encode()) + 1_000 * at for at in range(5)]
    return {
        "annotations": [
            place | {"tid": tid, "name": name, "start_ns": start + at, "dur_ns": dur_ns}
            for step, start in enumerate(starts)
            for tid, name, at, dur_ns in (
                (1, f"ProfilerStep#{step}", 0, 1_000),
                (2, "gloo:all_reduce", 400, 100 + exposed_ns),
            )
        ],
        "ops": [
            {"run": run, "rank": 0, "pid": 1, "tid": 1, "name": "aten::mm", "start_ns": start, "dur_ns": 500}
            for start in starts
        ],
    }


def test_a_gate_on_exposed_communication_counts_gloo_on_the_cpu(memory: MemoryStore) -> None:
    """50 ns of a step in the base, 400 ns in the candidate."""
    base, candidate = ([f"{side}{at}" for at in range(4)] for side in "bc")
    memory.filled(together(*(on_cpu(run, 50) for run in base), *(on_cpu(run, 400) for run in candidate)))
    gates = (parse_gate("exposed_communication > 5%"),)
    compared = compare_source(Source(memory.con), Request(tuple(base), tuple(candidate), gates=gates))
    (row,) = (each for each in compared.rows if each.metric == "exposed_communication")
    assert (row.base, row.candidate) == (50, 400)
    assert (compared.gates[0].verdict, compared.exit_code(strict=False)) == ("failed", 1)


def test_sums_over_steps_and_names_are_those_of_the_queries(memory: MemoryStore) -> None:
    memory.filled(recording("a"))
    source = Source(memory.con)
    answers = source.answers()
    stepped = {row["step"]: row["kernel_ns"] for row in memory.query("step_breakdown").to_pylist()}
    kernels = answers.gpu_rows.filter(answers.gpu_rows["kind"] == "kernel")
    summed = {step + 2: sum(rows["dur_ns"]) for (step,), rows in kernels.group_by("step_id")}
    assert summed == {step: kernel_ns for step, kernel_ns in stepped.items() if step is not None}
    (breakdown,) = memory.query("gpu_breakdown").to_pylist()
    for name in ("window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"):
        assert answers.gpu_windows[name].sum() == breakdown[name]
    self_ns = {row["op"]: row["self_ns"] for row in memory.query("op_summary").to_pylist()}
    assert {op: rows["self_ns"].sum() for (op,), rows in answers.host_ops.group_by("op")} == self_ns
    _, (built,) = build_recordings(answers, ["a"])
    assert built.series["class:gemm"].tolist() == [4_000] * 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = together(*(recording(run, slower=slower) for run, slower in (("main", 0), ("main-2", 10), ("new", 2_000))))
    return build_store(tmp_path_factory.mktemp("compare") / "lab", tables)


def run_command(store: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["compare", *words, "--store", str(store)])
    return result.exit_code, result.output


def test_a_failure_has_another_exit_code_than_a_regression(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "comment.md"
    target.write_text("kept")
    code, output = run_command(store, "main1", "new", "-o", str(target))
    assert (code, "add --force to overwrite it" in output, target.read_text()) == (6, True, "kept")


def test_command_writes_a_comment_and_exits_by_its_gates(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "comment.md"
    gate = ("--fail-on", "step_time > 3%", "--strict")
    code, _ = run_command(store, "--base-runs", "main*", "--candidate-runs", "new", *gate, "-o", str(target))
    assert code == 4
    verdict = "**Undecided:** step time differs by +19.9 %, 10.01 µs → 12.00 µs, in 2 + 1 recordings"
    assert target.read_text().startswith(verdict)


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


def test_python_returns_rows_and_the_verdict(store: Path) -> None:
    result = Lab(store).compare("main", "new", fail_on="step_time > 3%")
    assert (result.verdict, result.gates) == ("undecided", {"step_time > 3%": "undecided"})
    row = result.to_pylist()[0]
    assert (row["metric"], row["base_ns"], row["candidate_ns"], row["change_ratio"]) == (
        "step_time",
        10_000,
        12_000,
        pytest.approx(0.2),
    )
    assert result.pl()["metric"][0] == "step_time"
    assert result.arrow().num_rows == len(result) > 5
    assert "<td>step_time</td>" in result._repr_html_()
    assert repr(result).startswith("Undecided: step time differs by +20.0 %")
    assert result.markdown().startswith("**Undecided:**")


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("main",), 2, "name the candidate: CANDIDATE, or --candidate-runs PATTERN"),
        (("--candidate-runs", "new"), 2, "name the base: BASE, or --base-runs PATTERN"),
        (
            ("main", "new", "--base-runs", "main"), 2,
            "the base is given twice, as main and by --base-runs; omit one of the two",
        ),
        (("main", "new", "--step-name", "("), 2, "--step-name '(' is no regular expression: missing ): ("),
        (("main", "new", "--step-name", "no_such"), 3, "--step-name 'no_such' finds no range of main, new;"),
        (("main", "main"), 2, "main is in base and candidate; name different runs"),
        (("main", "mian"), 3, "the store has no run 'mian'; nearest: main"),
        (("main", "--candidate-runs", "x*"), 3, "x*: the store has no such run; it has main, main-2, new"),
        (("main", "new", "--fail-on", "step_time"), 2, "expected METRIC > PERCENT%, such as 'step_time > 3%'"),
        (("main", "new", "--noise-runs", "main-2"), 2, "--noise-runs matches one run, main-2"),
        (("main", "new", "--allow-different", "color"), 2, "--allow-different color: expected one of gpu, gpus"),
        (("main", "new", "-o", "x.doc"), 2, "x.doc: no format has this suffix"),
    ],
)  # fmt: skip
def test_wrong_request_is_refused_with_what_to_do(store: Path, words: tuple[str, ...], code: int, problem: str) -> None:
    exited, output = run_command(store, *words)
    assert (exited, problem in output) == (code, True), output


def test_gate_on_an_unknown_metric_lists_the_metrics(store: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no metric 'step_tim' .* \(did you mean 'step_time'\?\); they have step_time"
    ):
        Lab(store).compare("main", "new", fail_on="step_tim > 3%")


@pytest.fixture(scope="module")
def other_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sides = [with_facts(recording("main")), with_facts(recording("new"), gpu="H100")]
    return build_store(tmp_path_factory.mktemp("refused") / "lab", together(*sides))


REASON = (
    "base and candidate cannot be compared: GPU model A100 against H100; record both on one GPU model, or add "
    "--allow-different gpu"
)


def test_refusal_exits_with_5_and_is_a_document_of_the_format(other_gpu: Path, tmp_path: Path) -> None:
    def refuse(*words: str) -> tuple[str, str]:
        result = CliRunner().invoke(main, ["compare", "main", "new", *words, "--store", str(other_gpu)])
        assert result.exit_code == 5
        assert result.stderr.endswith(f"tracelab: {REASON}\n")
        return result.stdout, result.stderr

    assert refuse()[0] == ""
    content = json.loads(refuse("--format", "json")[0])
    assert (content["tracelab"], content["verdict"], content["exit_code"]) == ("comparison/1", "refused", 5)
    assert (content["reason"], content["metrics"], content["request"]["base"]) == (REASON, [], ["main"])
    assert {each["fact"]: each["verdict"] for each in content["comparability"]}["gpu"] == "different"
    compared = json.loads(
        writers.write_json(Lab(other_gpu).compare("main", "new", allow_different=["gpu"]).comparison, strict=False)
    )
    assert set(content) - {"reason", "request"} == set(compared) - {"unit"}
    assert content["kernels"].keys() == compared["kernels"].keys()
    markdown = refuse("--format", "markdown")[0]
    assert markdown.startswith("**Refused:** base and candidate cannot be compared: GPU model A100 against H100;")
    suite = ElementTree.fromstring(refuse("--format", "junit")[0])[0]  # noqa: S314  ours
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "1", "failures": "0", "errors": "1", "skipped": "0",
    }  # fmt: skip
    (error,) = suite.iter("error")
    assert (error.get("type"), error.get("message")) == ("refused", REASON)
    refuse("-o", str(tmp_path / "comment.md"))
    assert (tmp_path / "comment.md").read_text() == markdown


def test_missing_data_are_a_document_too_and_exit_with_3(store: Path) -> None:
    code, output = run_command(store, "main", "--candidate-runs", "x*", "--format", "json")
    assert code == 3
    assert json.loads(output.splitlines()[0])["reason"].startswith("--candidate-runs x*: the store has no such run")


def test_python_has_the_exit_code_of_the_command(store: Path) -> None:
    lab = Lab(store)
    gate = "step_time > 3%"
    codes = [lab.compare("main", "new", fail_on=gate, strict=strict).exit_code for strict in (False, True)]
    assert codes == [0, 4]
    assert lab.compare("main", "new", noise_runs="main*").comparison.request.noise == ("main", "main-2")


def test_idle_time_copies_and_memory_are_more_or_less(memory: MemoryStore) -> None:
    base, candidate = recording("a", steps=8), recording("b", steps=8)
    candidate["memcpys"] = [row | {"dur_ns": 400} for row in candidate["memcpys"]]
    candidate["kernels"] = [row | ({"dur_ns": 4_500} if row["dur_ns"] == 4_000 else {}) for row in candidate["kernels"]]
    memory.filled(together(base, candidate))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    words = {row.metric: sentences.format_verdict(row) for row in comparison.rows}
    assert {name: words[name] for name in ("exposed_copies", "copy:HtoD", "exposed_communication", "class:gemm")} == {
        "exposed_copies": "undecided (less)",
        "copy:HtoD": "undecided (less)",
        "exposed_communication": "undecided (less)",
        "class:gemm": "undecided (slower)",
    }
    content = json.loads(writers.write_json(comparison, strict=False))
    assert {row["metric"]: row["tendency"] for row in content["metrics"]}["copy:HtoD"] == "less"


def test_folded_tables_of_a_comment_have_names_that_a_gate_takes(memory: MemoryStore) -> None:
    name = f"void cutlass::Kernel<{', '.join(['Tile128'] * 20)}>(Params)"
    sides = [recording(run, gemm=name, gemm_ns=dur_ns) for run, dur_ns in (("a", 3_000), ("b", 4_000))]
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    (cell,) = [
        line.split(" | ")[0]
        for line in writers.write_markdown(comparison, everything=True).partition("<details>")[2].splitlines()
        if "Tile128" in line and "µs" in line
    ]
    assert html.unescape(cell) == f"| kernel:{name}"
    assert name not in writers.write_text(comparison, everything=True, width=100)


def test_a_name_of_a_thousand_characters_is_shortened_in_a_comment(memory: MemoryStore) -> None:
    name = f"void kernel<{'float, ' * 200}int>(Params)"
    memory.filled(together(*(recording(run, gemm=name, gemm_ns=ns) for run, ns in (("a", 3_000), ("b", 4_000)))))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("gpu_time", 3),)))
    markdown = writers.write_markdown(comparison, everything=True)
    (cell,) = [
        line.split(" | ")[0] for line in markdown.splitlines() if line.startswith("| kernel:void kernel&lt;float")
    ]
    assert (len(html.unescape(cell)), cell[-18:]) == (302, "float, int>(Params)"[-18:])
    assert "Gate 'gpu_time > 3%' is undecided" in markdown


def test_a_limit_is_one_of_each_kind_of_details(memory: MemoryStore) -> None:
    memory.filled(together(recording("a"), recording("b")))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    whole = sentences.list_details(comparison, everything=True)
    limited = sentences.list_details(comparison, everything=True, most=1)
    assert max(len(each.rows) for each in whole) > 1
    assert [(each.title, len(each.rows)) for each in limited] == [(each.title, 1) for each in whole]
    assert [each.rows[0] for each in limited] == [each.rows[0] for each in whole]


def test_hostile_names_are_text_in_every_format(memory: MemoryStore) -> None:
    hostile = "<script>alert(1)</script> | `x` ](http://a) \x1b[2J\x00"
    sides = [recording(run, gemm=hostile, gemm_ns=dur_ns) for run, dur_ns in (("a", 3_000), ("b", 4_000))]
    memory.filled(together(*sides))
    gate = Gate(f"kernel:{hostile}", 3)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(gate,)))
    markdown, junit = writers.write_markdown(comparison), writers.write_junit(comparison, strict=False)
    assert "<script>" not in markdown
    assert "](http" not in markdown.replace("\\]", "")
    for text in (markdown, junit, writers.write_text(comparison, width=100)):
        assert not {"\x1b", "\x00"} & set(text)
    cases = ElementTree.fromstring(junit).iter("testcase")  # noqa: S314  ours
    assert r"kernel:<script>alert(1)</script> | `x` ](http://a) \x1b[2J\x00 > 3%" in {
        case.get("name") for case in cases
    }
    assert json.loads(writers.write_json(comparison, strict=False))["gates"][0]["metric"] == gate.metric


def test_copies_without_a_direction_and_ranks_without_steps_count(memory: MemoryStore) -> None:
    tables = together(recording("a"), recording("b"))
    tables["memcpys"] = [row | {"direction": None} for row in tables["memcpys"]]
    tables["kernels"].append(
        {"run": "a", "source": "other", "rank": 1, "pid": 2, "device": 0, "name": "k", "start_ns": 0, "dur_ns": 5}
    )
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), allow_different=("gpus", "ranks")))
    values = {row.metric: (row.base, row.candidate) for row in comparison.rows}
    assert values["copy:unknown"] == (500, 500)
    assert values["class:gemm"] == (4_000, 4_000)


def test_gate_on_what_one_side_does_not_record_is_undecided(memory: MemoryStore) -> None:
    tables = together(recording("a"), recording("b"))
    tables["memory_events"] = [
        {"run": "a", "pid": 1, "device": 0, "time_ns": 5, "size_bytes": 8, "allocated_bytes": 8, "address": 1}
    ]
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("peak_memory", 3),)))
    assert [each.verdict for each in comparison.gates] == ["undecided"]
    assert (comparison.exit_code(strict=False), comparison.exit_code(strict=True)) == (0, 4)
    sentence = (
        "Gate 'peak_memory > 3%' is undecided: not every recording has peak_memory; record with profile_memory=True."
    )
    assert sentence in writers.write_text(comparison, width=200)
    junit = ElementTree.fromstring(writers.write_junit(comparison, strict=True))  # noqa: S314  ours
    assert [error.get("message") for error in junit.iter("error")] == [sentence]


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [
        ("copy:DtoD", "passed"),
        ("class:attention", "passed"),
        ("op:aten::mm", "undecided"),
        ("op_gpu:aten::mm", "undecided"),
        ("window_time", "undecided"),
    ],
)
def test_gate_on_what_neither_side_has_is_no_wrong_request(memory: MemoryStore, metric: str, verdict: str) -> None:
    """Copies and kernel classes are recorded, so one without rows takes no time; ops are not, so any may have run."""
    tables = together(recording("a"), recording("b"))
    del tables["ops"]
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate(metric, 3),)))
    assert [each.verdict for each in comparison.gates] == [verdict]


def test_gate_on_what_two_profilers_record_differently_is_undecided(memory: MemoryStore) -> None:
    sides = together(recording("a"), recording("b"))
    sides["sources"] = [{"run": "a", "format": "kineto"}, {"run": "b", "format": "nsys"}]
    memory.filled(sides)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("step_time", 3),)))
    assert "Gate 'step_time > 3%' is undecided: two profilers recorded the sides" in writers.write_text(
        comparison, width=200
    )


@pytest.mark.parametrize("metric", ["class:atention", "copy:HtoE", "kernel:k", "op:aten::nn", "peak_mem"])
def test_gate_on_a_name_of_no_metric_is_a_wrong_request(memory: MemoryStore, metric: str) -> None:
    memory.filled(together(recording("a"), recording("b")))
    with pytest.raises(UsageError, match=f"--fail-on '{metric} > 3%': no metric '{metric}' in these recordings"):
        compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate(metric, 3),)))


def test_copies_that_the_candidate_no_longer_makes_are_compared(memory: MemoryStore) -> None:
    tables = together(recording("a"), recording("b"))
    tables["memcpys"] = [row for row in tables["memcpys"] if row["run"] == "a"]
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert {row.metric: (row.base, row.candidate) for row in comparison.rows}["copy:HtoD"] == (500, 0)


def test_what_explains_another_speed_is_the_first_line_below_the_tables(memory: MemoryStore) -> None:
    sides = [with_facts(recording(run), git_commit=run, precision=each) for run, each in (("a", "fp16"), ("b", "tf32"))]
    memory.filled(together(*sides))
    compared = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert writers.closing_lines(compared)[0] == "The sides differ in: precision: fp16 → tf32; commit: a → b."


def test_facts_that_both_sides_mix_are_no_difference_of_the_sides(memory: MemoryStore) -> None:
    runs = [("a", "old"), ("b", "new"), ("c", "new"), ("d", "old")]
    memory.filled(together(*(with_facts(recording(run), git_commit=commit) for run, commit in runs)))
    compared = compare_source(Source(memory.con), Request(("a", "b"), ("c", "d")))
    assert writers.closing_lines(compared)[0] == "Recordings within a side differ in: commit: new, old on both sides."
