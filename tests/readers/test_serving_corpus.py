"""Steps of inference servers on recorded traces, against what TraceLens prints of them."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.client import Lab

pytestmark = corpus.needs_traces

NS_PER_MS = 1_000_000
DOUBLES_NS = 20
"""How far TraceLens's times may be from the exact ones: it adds up doubles of absolute times in µs."""
BEFORE_ITS_STEP_NS = (493_759_680, 118_918)
"""Of span and busy time of SGLang's trace, what it launched before its own mark, among a wait for the batch before."""


@pytest.mark.parametrize(
    ("reference", "store", "run", "step"),
    [
        ("vllm_prefilldecode_piecewise", kineto_corpus, "graph_execution", ("mixed", 9, 37, 8155, 37)),
        ("vllm_decode_full", second_kineto_corpus, "vllm_decode_full_graph_execution", ("decode", 0, 32, 0, 32)),
        ("sglang_prefilldecode", second_kineto_corpus, "sglang_Qwen3-8B_prefilldecode", ("prefill", 15, 0, 15360, 0)),
    ],
)
def test_a_step_has_the_span_and_the_busy_time_of_the_whole_trace(
    reference: str,
    store: Callable[[Path], Path],
    run: str,
    step: tuple[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = corpus.ROOT / "tracelens_reference" / "inference" / reference / "perf_csvs"
    with (folder / "gpu_timeline.csv").open(newline="") as file:
        timeline = {row["type"]: float(row["time ms"]) * NS_PER_MS for row in csv.DictReader(file)}
    lab = Lab(store(tmp_path_factory.getbasetemp().parent))
    rows = lab.query("serving_steps").to_pylist()
    (row,) = (each for each in rows if run in each["run"] and each["step"] == 0)
    counts = ("phase", "prefill_requests", "decode_requests", "prefill_tokens", "decode_tokens")
    assert tuple(row[name] for name in counts) == step
    span_ns, busy_ns = BEFORE_ITS_STEP_NS if run.startswith("sglang") else (0, 0)
    assert abs(row["gpu_span_ns"] + span_ns - timeline["total_time"]) <= DOUBLES_NS
    assert abs(row["gpu_busy_ns"] + busy_ns - timeline["busy_time"]) <= DOUBLES_NS
