"""FLOPs by shapes on recorded traces, beside TraceLens's tables of the same files."""

import ast
import csv
import io
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.client import Lab

pytestmark = corpus.needs_traces

TABLES = ("GEMM", "CONV_fwd", "CONV_bwd", "SDPA_fwd")
REFERENCES = {
    "h100/google_owlv2-large-patch14-ensemble__1016001": ("first", {"equal": 9, "bias": 10}),
    "h100/gaunernst_bert-small-uncased__1016001": ("first", {"equal": 1, "bias": 4}),
    "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005": ("first", {"equal": 4, "bias": 1, "causal": 1}),
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005": ("second", {"equal": 4, "bias": 1, "causal": 1}),
    "mi300/google_owlv2-large-patch14-ensemble__1016001": ("second", {"equal": 9, "bias": 10}),
    "mi300/resnet_act_checkpoint": ("second", {"equal": 33, "bias": 1, "no input gradient": 1}),
}
"""How many rows of TraceLens's tables are equal, and how many differ for which reason."""


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lab]:
    folder = tmp_path_factory.getbasetemp().parent
    return {"first": Lab(kineto_corpus(folder)), "second": Lab(second_kineto_corpus(folder))}


@pytest.fixture(scope="module")
def answers(labs: dict[str, Lab]) -> dict[str, list[dict[str, Any]]]:
    """The answers about all runs of a store, which are those about each."""
    return {store: lab.query("op_flop").to_pylist() for store, lab in labs.items()}


def rows_of(answer: list[dict[str, Any]], run: str) -> list[dict[str, Any]]:
    return [row for row in answer if row["run"] == run]


def test_an_answer_about_all_runs_has_that_about_one(
    labs: dict[str, Lab], answers: dict[str, list[dict[str, Any]]]
) -> None:
    run = "resnet_act_checkpoint"
    assert labs["second"].query("op_flop", run=run).to_pylist() == rows_of(answers["second"], run)


def reference_rows(name: str) -> list[dict[str, str]]:
    csv.field_size_limit(1 << 24)
    folder = next((corpus.ROOT / "tracelens_reference").glob(f"{name}*_perf_report_csvs"))
    tables = [folder / f"{table}.csv" for table in TABLES]
    return [
        row
        for path in tables
        if path.exists()
        for row in csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))
    ]


def explain(reference: dict[str, str], flop: int) -> str:
    """Return why TraceLens's FLOPs of a call are equal to ours, or not: it counts biases and half of a causal mask."""
    theirs = round(float(reference["GFLOPS_first"]) * 1e9)
    inputs = ast.literal_eval(reference["Concrete Inputs_first"])
    if theirs == flop:
        return "equal"
    if reference.get("param: bias") == "True" and "addmm" in reference["name"]:
        assert theirs == flop + int(reference["param: M"]) * int(reference["param: N"])
        return "bias"
    if reference.get("param: causal") == "True":
        assert 2 * theirs == flop
        return "causal"
    assert inputs[-1] == "[False, True, False]"
    assert theirs == 2 * flop
    return "no input gradient"


@pytest.mark.parametrize("name", REFERENCES)
def test_flops_are_those_of_tracelens_or_differ_for_a_known_reason(
    answers: dict[str, list[dict[str, Any]]], name: str
) -> None:
    store, expected = REFERENCES[name]
    rows = rows_of(answers[store], Path(name).name)
    ours: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["flop"] is not None:
            ours[row["op"], row["shapes"]].append(row)
    reasons: Counter[str] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    for reference in reference_rows(name):
        key = (reference["name"], json.dumps(ast.literal_eval(reference["Input Dims_first"]), separators=(",", ":")))
        reasons[min(explain(reference, row["flop"] // row["calls"]) for row in ours[key])] += 1
        calls[key] += int(reference["name_count"])
    assert reasons == expected
    assert calls == {key: sum(row["calls"] for row in ours[key]) for key in calls}


@pytest.mark.parametrize("store", ["first", "second"])
def test_flops_as_tracelens_defines_them_are_those_of_its_tables(labs: dict[str, Lab], store: str) -> None:
    rows = labs[store].query("op_flop", like="tracelens").to_pylist()
    ours: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for row in rows:
        if row["flop"] is not None:
            ours[row["run"], row["op"], row["shapes"]].add(row["flop"] // row["calls"])
    for name in (name for name, (place, _) in REFERENCES.items() if place == store):
        for reference in reference_rows(name):
            shapes = json.dumps(ast.literal_eval(reference["Input Dims_first"]), separators=(",", ":"))
            assert round(1e9 * float(reference["GFLOPS_first"])) in ours[Path(name).name, reference["name"], shapes]


def test_gpu_time_adds_up_to_that_of_all_rows(labs: dict[str, Lab], answers: dict[str, list[dict[str, Any]]]) -> None:
    for store, lab in labs.items():
        sums: Counter[tuple[str, int]] = Counter()
        for row in answers[store]:
            sums[row["run"], row["rank"]] += row["gpu_ns"]
            assert row["covered_ratio"] is None or 0 <= row["covered_ratio"] <= 1
        totals = lab.sql(
            "select run, rank, sum(dur_ns) filter (has_valid_interval(start_ns, end_ns))::bigint as ns "
            "from gpu_activity where run in (select run from ops) group by run, rank"
        ).to_pylist()
        assert {key: ns for key, ns in sums.items() if ns} == {
            (row["run"], row["rank"]): row["ns"] for row in totals if row["ns"]
        }


MATRIX_CLASSES = {"gemm", "implicit_gemm", "convolution", "attention"}
EAGER = {
    "first": ["control", "gaunernst_bert-small-uncased__1016001", "google_owlv2-large-patch14-ensemble__1016001",
              "kineto_tb_plugin", "param_dlrm_8ranks", "Qwen_Qwen1.5-0.5B-Chat__1016005", "eager_trace"],
    "second": ["google_owlv2-large-patch14-ensemble__1016001", "nw0b", "resnet_act_checkpoint",
               "Qwen_Qwen1.5-0.5B-Chat__1016005", "sglang_Qwen3-8B_prefilldecode"],
}  # fmt: skip
"""Runs of eager programs that record shapes."""

SERVERS = {"eager_trace": 0.11, "sglang_Qwen3-8B_prefilldecode": 0.98}
"""Runs of inference servers, and the least share covered: not every op of theirs has shapes of all that it computes."""

WITHOUT_STRIDES = {"first": "kineto_tb_plugin", "second": "nw0b"}
"""Runs of torch 1.9, which records shapes but no strides: ResNet-50, 6 steps of batch 32."""
RESNET50_CONVOLUTIONS, RESNET50_FIRST_CONVOLUTION = 2 * 4_087_136_256, 2 * 118_013_952
"""FLOPs of one image, as torch.utils.flop_counter has them."""


@pytest.fixture(scope="module")
def matrix_times(labs: dict[str, Lab], answers: dict[str, list[dict[str, Any]]]) -> dict[tuple[str, str], Counter[str]]:
    """Return for each eager run the GPU time of matrix kernels: that of ops with FLOPs, of other ops, and of none."""
    times: dict[tuple[str, str], Counter[str]] = {}
    listed = {store: lab.sql("select name, class from kernel_classes").to_pylist() for store, lab in labs.items()}
    for store, run in [(store, run) for store, runs in EAGER.items() for run in runs]:
        classes = {row["name"]: row["class"] for row in listed[store]}
        unknown = [row for row in rows_of(answers[store], run) if row["flop"] is None]
        without = {row["op"] for row in unknown if row["formula"] is None}
        times[store, run] = Counter()
        for row in labs[store].query("op_kernels", run=run).to_pylist():
            if classes[row["kernel"]] in MATRIX_CLASSES:
                kind = "unlinked" if row["op"] is None else "without" if row["op"] in without else "covered"
                times[store, run][kind] += row["dur_ns"]
        inside = sum(row["gpu_ns"] for row in unknown if row["kind"] in MATRIX_CLASSES)  # ops inside them launch it
        moved = min(inside, times[store, run]["covered"])
        times[store, run]["covered"] -= moved
        times[store, run]["without"] += moved
    return times


def test_all_matrix_kernels_that_ops_of_eager_programs_launch_are_covered(
    matrix_times: dict[tuple[str, str], Counter[str]],
) -> None:
    shares = {key: times["covered"] / (times["covered"] + times["without"]) for key, times in matrix_times.items()}
    assert {run for (_, run), share in shares.items() if run not in SERVERS and share < 1} == set()
    assert {run: share for (_, run), share in shares.items() if run in SERVERS and share < SERVERS[run]} == {}


def test_formulas_cover_nearly_all_gpu_time_of_matrix_kernels(
    matrix_times: dict[tuple[str, str], Counter[str]],
) -> None:
    total: Counter[str] = Counter()
    for times in matrix_times.values():
        total += times
    assert total["covered"] / total.total() > 0.95  # also of kernels launched before the recording, which have no op
    assert total["covered"] > 900_000_000


@pytest.mark.parametrize("store", sorted(WITHOUT_STRIDES))
def test_convolutions_without_recorded_strides_cost_what_their_gradients_show(labs: dict[str, Lab], store: str) -> None:
    rows = labs[store].query("op_flop", run=WITHOUT_STRIDES[store], op_kind="convolution").to_pylist()
    flop: Counter[str] = Counter()
    for row in rows:
        flop[row["op"]] += row["flop"]
    assert flop == {
        "aten::convolution": 6 * 32 * RESNET50_CONVOLUTIONS,
        "aten::cudnn_convolution_backward": 6 * 32 * (2 * RESNET50_CONVOLUTIONS - RESNET50_FIRST_CONVOLUTION),
    }


def test_attention_of_pages_is_twice_what_tracelens_counts_of_a_causal_mask(labs: dict[str, Lab]) -> None:
    path = corpus.ROOT / "tracelens_reference" / "inference" / "sglang_prefilldecode"
    (table,) = path.rglob("InferenceAttention_fwd.csv")
    with table.open(encoding="utf-8", newline="") as file:
        (theirs,) = [
            float(row["GFLOPS_first"]) for row in csv.DictReader(file) if row["name"] == "aiter::mha_batch_prefill"
        ]
    rows = labs["second"].query("op_flop", run="sglang_Qwen3-8B_prefilldecode", op_kind="attention").to_pylist()
    flop = {row["op"]: (row["calls"], row["flop"]) for row in rows}
    assert flop["aiter::mha_batch_prefill"] == (36, 36 * 2 * round(theirs * 1e9))
