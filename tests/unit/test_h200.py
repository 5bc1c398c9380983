"""Runs recorded on a GPU: answers beside what was measured in another way, or is known of the program."""

import json
from pathlib import Path
from typing import Any

import pytest

import tracelab
from tests import stores
from tracelab.client import Lab
from tracelab.query.library import default_step_name
from tracelab.report.summary.html import render_summaries
from tracelab.report.summary.lead import plain_text
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import summarize
from tracelab.resources import QUERIES

DATA = Path(__file__).parents[2] / "data" / "h200"
TRAINED = (
    *("alexnet-batch64", "alexnet-batch256", "resnet18-batch16", "resnet18-batch64", "vgg16-batch64"),
    *("transformer-bf16", "transformer-bf16-graphs"),
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return tracelab.open(stores.h200(tmp_path_factory.getbasetemp().parent))


def query(lab: Lab, name: str, **params: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lab.query(name, **params).to_pylist()
    return rows


def timed_steps(run: str) -> list[int]:
    """Return the times of the recorded steps, as events on the GPU measured them."""
    lines = (DATA / run / "steps.rank0.jsonl").read_text("utf-8").splitlines()[1:]
    return [row["dur_ns"] for row in map(json.loads, lines) if row.get("profiler_state") == "recording"]


def test_step_times_are_those_of_events_on_the_gpu(lab: Lab) -> None:
    """The CPU launches a step of VGG-16 in 17 ms, for which the GPU takes 113 ms."""
    text = (QUERIES / "summary" / "steps.sql").read_text("utf-8")
    steps = lab.sql(text.replace("$runs", "[]").replace("$step_name", f"'{default_step_name()}'")).to_pylist()
    counted = {row["run"]: row["step_ns"] for row in steps if row["number"] is not None}
    for run in TRAINED:
        _, middle, _ = timed_steps(run)
        assert counted[run] == pytest.approx(middle, rel=0.05), run  # the log leaves out the time between steps
    assert (timed_steps("vgg16-batch64")[1], counted["vgg16-batch64"]) == (113_493_408, 113_496_691)


def test_utilization_is_of_the_time_that_the_gpu_takes(lab: Lab) -> None:
    shapes = {"from": "shapes"}
    (row,) = query(lab, "mfu", run="vgg16-batch64", **shapes)
    assert (row["step_ns"], row["flop_per_step"], row["precision"]) == (113_721_253, 5_929_662_946_305, "fp32")
    assert row["mfu_ratio"] == pytest.approx(5_929_662_946_305 / 113_721_253 / 66_908.16, rel=1e-9)


def test_a_summary_takes_flop_of_shapes_where_none_are_counted(lab: Lab) -> None:
    transformer, vgg = summarize(lab.store, ("vgg16-batch64", "transformer-bf16"))
    assert (vgg.figures[-1].text, transformer.figures[-1].text) == ("77.9 %", "≥ 22.3 %")
    assert transformer.figures[-1].note.endswith(
        "FLOPs by the shapes of ops, known of 86.8 % of the time: query mfu --from shapes --min-coverage 0.5"
    )


def test_counted_flop_are_those_of_the_program(lab: Lab) -> None:
    flop = {
        run: sum(row["flop"] for row in query(lab, "roofline", run=run) if row["precision"] == "all")
        for run in ("gemm-bf16-ncu", "triad-ncu", "resnet18-ncu")
    }
    assert flop["gemm-bf16-ncu"] == 2 * 2048**3
    assert flop["triad-ncu"] == 2 * 2 * 4_194_304
    per_sample = json.loads((DATA / "resnet18-batch16" / "run.json").read_text("utf-8"))["flop_per_sample"]
    assert flop["resnet18-ncu"] / (16 * per_sample) == pytest.approx(1.024, abs=0.001)  # with norms and activations


def test_kernels_stay_below_the_measured_ceilings(lab: Lab) -> None:
    (product,) = [row for row in query(lab, "roofline", run="gemm-bf16-ncu") if row["precision"] == "tensor_bf16"]
    assert (product["ceiling_source"], product["ceiling_basis"]) == ("measured", "sustained")
    assert product["achieved_gflop_per_s"] == pytest.approx(2 * 2048**3 / 25_632, rel=1e-9)
    assert product["of_ceiling_ratio"] == pytest.approx(0.987, abs=0.001)


def test_copies_have_the_bytes_of_the_batches(lab: Lab) -> None:
    rows = {row["run"]: row for row in query(lab, "memcpy_throughput") if row["src_memory"] == "Pinned"}
    pictures, labels = 64 * 3 * 224 * 224 * 4, 64 * 8
    for run in ("alexnet-batch64", "resnet18-batch64", "vgg16-batch64"):
        assert (rows[run]["copies"], rows[run]["size_bytes"]) == (6, 3 * (pictures + labels))
        assert 50 < rows[run]["throughput_gb_per_s"] < 64  # of PCIe 5.0 × 16


def test_half_of_the_work_of_two_streams_overlaps(lab: Lab) -> None:
    (row,) = query(lab, "kernel_concurrency", run="streams")
    assert (row["kernels"], row["max_concurrent"]) == (60, 2)
    assert row["concurrency_ratio"] == pytest.approx(1 / 3, abs=0.01)


def test_replayed_kernels_take_as_long_as_launched_ones(lab: Lab) -> None:
    sums = {
        row["run"]: row["dur_ns"]
        for row in lab.sql("select run, sum(dur_ns)::bigint as dur_ns from kernels group by run").to_pylist()
    }
    assert sums["transformer-bf16-graphs"] == pytest.approx(sums["transformer-bf16"], rel=0.001)


def test_warnings_are_of_runs_that_recording_slows(lab: Lab) -> None:
    """Medians without waits for data of recorded steps, and of those after the recording, by the run folders."""
    warnings = {row["run"]: row["message"] for row in lab.doctor().to_pylist() if row["severity"] == "warning"}
    slowed = {
        "decoder-compiled": ("24.02", "2.08", "11.55"),
        "decoder-recompute": ("46.23", "1.74", "26.61"),
        "script-nsys": ("2.045", "1.51", "1.355"),
    }
    assert warnings.keys() == slowed.keys()
    for run, (recorded, times, after) in slowed.items():
        assert (
            f"a median of {recorded} ms without waits for data, {times} times the {after} ms of the " in warnings[run]
        )


def test_modules_tell_the_recomputed_blocks_apart(lab: Lab) -> None:
    """Of four blocks the first and the third run their forward pass a second time in each of two steps."""
    rows = query(lab, "module_time", run="decoder-recompute", most_depth=2)
    blocks = {row["layer"]: row for row in rows if row["class"] == "Block"}
    assert {name: (row["calls"], row["recompute_ns"] > 0) for name, row in blocks.items()} == {
        "Block_0": (4, True),
        "Block_1": (2, False),
        "Block_2": (4, True),
        "Block_3": (2, False),
    }
    for name in ("Block_0", "Block_2"):  # without the last addition, which no backward op needs
        assert blocks[name]["recompute_ns"] == pytest.approx(0.885 * blocks[name]["forward_ns"], rel=0.01)


def test_flop_of_shapes_are_those_of_a_decoder(lab: Lab) -> None:
    """Of the forward pass torch counts all; a product has two in the backward pass, attention five for its two."""
    known = json.loads((DATA / "decoder-compiled" / "run.json").read_text("utf-8"))
    forward = 8 * known["flop_per_sample"]
    scores = 4 * 2 * 2 * 8 * 16 * 1024 * 1024 * 64  # of four blocks: queries by keys, and weights by values
    blocks = 4 * 2 * 8 * 1024 * (2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 2816)
    again = {"decoder-compiled": (3, 0.0), "decoder-recompute": (2, 0.5)}  # steps, share of the blocks
    for run, (steps, share) in again.items():
        rows = query(lab, "op_flop", run=run)
        gemm, attention = (
            sum(row["flop"] for row in rows if row["kind"] == kind) / steps for kind in ("gemm", "attention")
        )
        assert gemm == 3 * (forward - scores) + share * blocks, run
        assert attention == 3.5 * scores + share * scores, run


def test_a_summary_states_what_recording_costs(lab: Lab) -> None:
    """In three and two recorded steps the GPU works for 8.110 and 13.64 ms each; kernels cost at most 4.934 ms."""
    for run, steps, work_ms in (("resnet18-batch16", 3, 8.110), ("decoder-recompute", 2, 13.64)):
        (row,) = query(lab, "gpu_breakdown", run=run)
        assert (row["window_ns"] - row["idle_ns"]) / steps / 1e6 == pytest.approx(work_ms, abs=0.005)
    (unrecorded,) = summarize(lab.store, ("resnet18-batch16",))
    kernels = next(each for each in unrecorded.leads if each.query == "kernel_class_share")
    assert kernels.details.endswith(
        "the run may gain more without the profiler, up to 4.934 ms of the 14.84 ms of a step that is not recorded, "
        "33.25 %."
    )
    (summary,) = summarize(lab.store, ("decoder-recompute",))
    assert summary.figures[0].text == "48.92 ms"
    assert summary.figures[0].note.endswith(
        "recorded steps take 1.74 times as long as the 4 after the recording, 26.61 ms "
        "without waits for data: idle and host-bound time include what recording costs"
    )
    host = next(each for each in summary.leads if each.query == "idle_causes")
    costs = (
        "The loss includes what recording costs: recorded steps take 1.74 times as long as the 4 after the recording, "
        "26.61 ms without waits for data, of which GPU work takes 13.64 ms, so that it is less without the profiler."
    )
    (row,) = (each for each in summary_rows([summary]).to_pylist() if each["text"] == plain_text(host.sentence))
    assert costs in row["text"]
    assert costs in plain_text(render_summaries([summary], named=True))
    loader = [each for each in summary.leads if each.topics == ("data",)]
    assert not any("recording costs" in each.sentence for each in loader)


def test_a_replay_without_the_cpu_side_takes_as_long_as_cuda_graphs(lab: Lab) -> None:
    """The same training ran with its passes replayed as CUDA graphs, which leave little to the CPU: 11 ms a step."""
    rows = query(lab, "what_if", run="transformer-bf16", change="scale", **{"class": "cpu_side"}, factor=0)
    predicted_ns = rows[0]["time_after_ns"] / 3
    (_, graphs_ns, _) = timed_steps("transformer-bf16-graphs")
    assert predicted_ns == pytest.approx(graphs_ns, rel=0.05)
    assert rows[0]["time_before_ns"] / 3 > 1.25 * graphs_ns


def test_each_profiler_finds_the_same_kernels_of_a_script(lab: Lab) -> None:
    """Three runs of data/script.py, two steps each: 29 kernels a step."""
    classes = {"gemm": 22, "optimizer": 16, "elementwise": 12, "reduction": 6, "fill": 2}
    kernel_sums_ns = []
    for run in ("script-kineto", "script-nsys"):
        rows = query(lab, "kernel_class_share", run=run)
        assert {row["class"]: row["kernels"] for row in rows} == classes
        kernel_sums_ns.append(rows[0]["kernel_sum_ns"])
    assert kernel_sums_ns == [128_806, 128_992]
    counted = "select count(distinct launch) as launches from kernel_metrics where run = 'script-ncu'"
    assert lab.sql(counted).to_pylist() == [{"launches": sum(classes.values())}]


def test_recorded_waits_of_streams_explain_a_critical_path(lab: Lab) -> None:
    """cuDNN runs parts of a convolution on streams of its own, which wait for each other by events."""
    unknown = {
        run: query(lab, "critical_path", run=run)[0]["unknown_ratio"] for run in ("vgg16-batch64", "vgg16-syncs")
    }
    assert unknown == {"vgg16-batch64": pytest.approx(0.33, abs=0.005), "vgg16-syncs": pytest.approx(0.115, abs=0.0005)}
