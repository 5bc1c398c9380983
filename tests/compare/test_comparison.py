"""Comparisons from rows to sentences, on recordings that add up by hand."""

import json
import re
from xml.etree import ElementTree

import pytest

from tests.compare.small_runs import Tables, recording, together, with_facts
from tests.memory import MemoryStore
from tracelab.compare import writers
from tracelab.compare.comparability import NotComparableError
from tracelab.compare.comparison import Comparison, Request, compare_source
from tracelab.compare.fetch import Source
from tracelab.compare.gates import Gate, parse_gate
from tracelab.compare.recordings import StepCounts, build_recordings

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


def test_copies_that_the_candidate_no_longer_makes_are_compared(memory: MemoryStore) -> None:
    tables = together(recording("a"), recording("b"))
    tables["memcpys"] = [row for row in tables["memcpys"] if row["run"] == "a"]
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert {row.metric: (row.base, row.candidate) for row in comparison.rows}["copy:HtoD"] == (500, 0)
