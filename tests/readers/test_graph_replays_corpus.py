"""Ops of graph replays on recorded traces of inference servers, against what TraceLens finds of them."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import corpus
from tracelab.client import Lab
from tracelab.ingest import pipeline

pytestmark = corpus.needs_traces

CAPTURES = corpus.ROOT / "kineto2" / "tracelens" / "inference"
FULL = "vllm_decode_full_graph_execution"
REFERENCES = {FULL: "vllm_decode_full", "graph_execution": "vllm_prefilldecode_piecewise"}
ROUNDED_NS = 10
"""TraceLens adds up times in µs that it has read as numbers of 64 bits since 1970."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("graphs") / "lab"
    piecewise = corpus.ROOT / "kineto" / "tracelens" / "vllm_prefilldecode_piecewise" / "graph_execution.json.gz"
    pipeline.ingest([piecewise, CAPTURES / f"{FULL}.json.gz", *CAPTURES.glob("graph_capture_rank_0.*")], store)
    return Lab(store)


def listed(lab: Lab, run: str, **params: Any) -> list[dict[str, Any]]:
    return lab.query("graph_replays", run=run, **params).to_pylist()


def test_each_kernel_of_a_whole_decode_step_has_an_op_and_a_module(lab: Lab) -> None:
    rows = listed(lab, FULL)
    assert (len(rows), {row["capture"] for row in rows}) == (421, {"capture_32_FULL"})
    assert {(row["agreement_ratio"], row["reason"]) for row in rows} == {(1.0, None)}
    assert all(row["op"] and row["module"].startswith("GptOssForCausalLM_0/GraphModule_0") for row in rows)
    assert (rows[2]["op"], rows[2]["shapes"]) == ("aten::addmm", "[[5120],[32,2880],[2880,5120],[],[]]")


def test_pieces_of_a_prefill_step_are_those_of_the_capture_of_its_size(lab: Lab) -> None:
    rows = listed(lab, "graph_execution")
    graphs = {row["replay_group"]: (row["most_kernels"], row["replays"], row["equal_captures"]) for row in rows}
    assert sorted(graphs.values()) == [(4, 1, 1), (12, 1, 1), (15, 23, 23)]
    assert {row["capture"] for row in rows} == {"capture_8192_PIECEWISE"}


def test_a_capture_of_another_size_is_refused(lab: Lab) -> None:
    (of_prefill,) = {row["capture_run"] for row in listed(lab, "graph_execution")}
    rows = listed(lab, FULL, capture_run=of_prefill)
    assert {row["op"] for row in rows} == {None}
    (reason,) = {row["reason"] for row in rows}
    assert reason.startswith("only ")
    assert reason.endswith(" of 421 kernels have the name of the launch at their place in the capture")


@pytest.mark.parametrize("run", REFERENCES)
def test_times_of_ops_are_those_of_tracelens(lab: Lab, run: str) -> None:
    ours: Counter[str] = Counter()
    for row in listed(lab, run):
        ours[row["op"]] += row["dur_ns"]
    path: Path = corpus.ROOT / "tracelens_reference" / "inference" / REFERENCES[run] / "perf_csvs" / "ops_summary.csv"
    with path.open(encoding="utf-8", newline="") as file:
        theirs: Counter[str] = Counter()
        for row in csv.DictReader(file):
            theirs[row["name"]] += round(1000 * float(row["total_direct_kernel_time_sum"]))
    assert len(ours) > 8
    assert {op: abs(dur_ns - theirs[op]) <= ROUNDED_NS for op, dur_ns in ours.items()} == dict.fromkeys(ours, True)


def test_flops_of_replayed_products_are_those_of_tracelens_without_its_bias(lab: Lab) -> None:
    path: Path = corpus.ROOT / "tracelens_reference" / "inference" / REFERENCES[FULL] / "perf_csvs" / "GEMM.csv"
    with path.open(encoding="utf-8", newline="") as file:
        theirs = {
            (int(row["param: M"]), int(row["param: N"]), int(row["param: K"])): (
                int(row["name_count"]),
                round(float(row["GFLOPS_first"]) * 1e9),
                row["param: bias"] == "True",
            )
            for row in csv.DictReader(file)
            if row["name"].startswith("aten::")
        }
    rows = lab.query("op_flop", run=FULL, op_kind="gemm").to_pylist()
    ours: Counter[tuple[int, int, int]] = Counter()
    for row in rows:
        m, k = json.loads(row["shapes"])[-4 if row["op"] == "aten::addmm" else 0]
        n = json.loads(row["shapes"])[-3 if row["op"] == "aten::addmm" else 1][1]
        ours[m, n, k] += row["calls"]
        _, flop, has_bias = theirs[m, n, k]
        assert row["flop"] == row["calls"] * (flop - has_bias * m * n)
    assert ours == {key: count for key, (count, _, _) in theirs.items()}
    assert sum(row["replayed_calls"] for row in rows) == 72
    total = lab.sql(f"select sum(dur_ns)::bigint as ns from gpu_activity where run = '{FULL}'").to_pylist()
    assert [{"ns": sum(row["gpu_ns"] for row in lab.query("op_flop", run=FULL).to_pylist())}] == total
