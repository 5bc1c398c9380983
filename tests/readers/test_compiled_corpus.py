"""Marks of torch.compile on recorded traces, against plain sums over their events."""

import gzip
import json
from collections import Counter

import pytest

from tests import corpus
from tests.stores import kineto_corpus
from tracelab.client import Lab

pytestmark = corpus.needs_traces

TORCH_2_0 = "hta/negative_queue_length_values_check/rank0.json.gz"
SOURCE_OF_B200 = "/tmp/torchinductor_root/h4/ch4lah5qtiqtyrlhee4kxisgq2na7hyppsiit5mhcmnefm6d7vir.py"  # noqa: S108  in the trace


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(kineto_corpus(tmp_path_factory.getbasetemp().parent))


def test_parts_add_up_to_all_gpu_rows(lab: Lab) -> None:
    rows = lab.query("compiled_regions").to_pylist()
    parts = ("fused_gpu_ns", "library_gpu_ns", "eager_gpu_ns", "unlinked_gpu_ns")
    assert [sum(row[part] for part in parts) for row in rows] == [row["gpu_activity_ns"] for row in rows]
    assert len(rows) >= 4


def test_functions_and_fused_kernels_of_torch_2_0_are_those_of_its_events(lab: Lab) -> None:
    with gzip.open(corpus.ROOT / "kineto" / TORCH_2_0) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    names = Counter(event["name"] for event in events if event.get("cat") == "cpu_op")
    fused = [event for event in events if event.get("cat") == "kernel" and event["name"].startswith("triton_")]
    (run,) = {row["run"] for row in lab.query("generated_kernels").to_pylist() if row["kind"] == "unnamed"}
    (row,) = lab.query("compiled_regions", run=run).to_pylist()
    assert row["graph_calls"] == names["CompiledFunction"] + names["CompiledFunctionBackward"]
    assert row["fused_gpu_ns"] == 1000 * sum(event["dur"] for event in fused)
    assert row["generated_kernels"] == len({event["name"] for event in fused})


def test_the_source_of_a_kernel_is_in_the_op_that_launched_it(lab: Lab) -> None:
    rows = lab.query("generated_kernels").to_pylist()
    assert {(row["dur_ns"], row["kernel_file"]) for row in rows if row["kernel_file"] and row["kernels"] == 1} >= {
        (1984, SOURCE_OF_B200)
    }
