"""What captures leave behind, ingested and asked: a roofline lacks nothing, and knows its clocks."""

from tests.collect.test_nvidia_captures import STEP, captured
from tracelab.client import Lab
from tracelab.ingest.pipeline import ingest


def answers(store, question, *columns):
    rows = Lab(store).query(question).to_pylist()
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_capture_of_ncu_s_gives_a_roofline_that_lacks_nothing(tmp_path):
    _, export, _ = captured(tmp_path, "ncu", *STEP)
    ingest(list(export.files), tmp_path / "lab")
    # By hand, of 1,000 of everything: fp16 counts 2+2+4, fp32 and fp64 1+1+2; the tensor cores count operations as they
    # are, those on fp8 dense and sparse, and those on integers are no FLOPs.
    assert answers(tmp_path / "lab", "roofline", "kernel", "precision", "flop", "flop_missing") == [
        ("gemm", "all", 22_000, None),
        ("gemm", "fp16", 8_000, None),
        ("gemm", "fp32", 4_000, None),
        ("gemm", "fp64", 4_000, None),
        ("gemm", "tensor_bf16", 1_000, None),
        ("gemm", "tensor_fp16", 1_000, None),
        ("gemm", "tensor_fp64", 1_000, None),
        ("gemm", "tensor_fp8", 2_000, None),
        ("gemm", "tensor_tf32", 1_000, None),
    ]
    columns = ("dram_bytes", "dur_ns", "clock_control", "device_name", "rank")
    assert set(answers(tmp_path / "lab", "roofline", *columns)) == {(4_000, 2_000, "none", "NVIDIA H100 80GB HBM3", 0)}


def test_a_capture_of_nsys_s_gives_its_kernels(tmp_path):
    _, export, _ = captured(tmp_path, "nsys", *STEP)
    ingest(list(export.files), tmp_path / "lab")
    assert answers(tmp_path / "lab", "kernel_summary", "rank", "kernel", "calls", "dur_ns") == [
        (0, "gemm", 1, 400),
        (0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 400),
    ]
