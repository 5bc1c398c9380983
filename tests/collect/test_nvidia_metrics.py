"""Which metrics ncu is asked for, and that the roofline made of them lacks nothing."""

import json
from pathlib import Path

import pytest

from tracelab.collect.nvidia.metrics import check_metrics, merge_metrics, parse_metric_list, roofline_metrics
from tracelab.errors import UsageError

LISTING = """Device NVIDIA A100-SXM4-40GB (GA100)
--------------- --------------- ----------
Metric Name     Metric Type     Metric Unit
--------------- --------------- ----------
dram__bytes     Counter         byte
dram__bytes_read Counter         byte
gpu__time_duration Counter       nsecond
lts__t_sectors  Counter         sector

Device NVIDIA H100 80GB HBM3 (GH100)
dram__bytes     Counter         byte
dram__bytes_read Counter         byte
fbpa__only_here Counter         byte
gpu__time_duration Counter       nsecond
lts__t_sectors  Counter         sector
"""
TENSOR = "sm__ops_path_tensor_src_"


def asked_of(*known):
    return [name for name in roofline_metrics(frozenset(known)) if not name.startswith(("launch__", "device__"))]


def test_a_metric_counts_where_every_gpu_has_it():
    assert parse_metric_list(LISTING) == {"dram__bytes", "dram__bytes_read", "gpu__time_duration", "lts__t_sectors"}


def test_a_listing_with_suffixes_names_the_same_metrics():
    assert parse_metric_list("Chip ga100\ndram__bytes.avg  Counter\ndram__bytes.sum  Counter\n") == {"dram__bytes"}
    assert parse_metric_list("==ERROR== Driver could not be loaded.\n") == frozenset()


def test_the_first_way_of_counting_that_the_chip_has_is_requested():
    assert asked_of("dram__bytes", "dram__bytes_read", "dram__bytes_write", "lts__t_sectors") == [
        "dram__bytes.sum",
        "lts__t_sectors.sum",
        "dram__bytes.sum.peak_sustained",
    ]
    assert asked_of("dram__bytes_read", "dram__bytes_write") == ["dram__bytes_read.sum", "dram__bytes_write.sum"]
    assert asked_of("dram__bytes_read") == []


def test_packed_arithmetic_is_requested_where_there_is_any():
    name = "smsp__sass_thread_inst_executed_op_ffma2_pred_on"
    assert asked_of(name) == [f"{name}.sum"]


def test_tensor_operations_are_counted_by_type_each_once():
    assert asked_of(
        *(f"{TENSOR}bf16_dst_fp32{end}" for end in ("", "_sparsity_off", "_sparsity_on")),
        *(f"{TENSOR}fp16_dst_fp16", f"{TENSOR}fp16_dst_fp32"),
        *(f"{TENSOR}tf32_dst_fp32_sparsity_off", f"{TENSOR}tf32_dst_fp32_sparsity_on"),
        *(f"{TENSOR}fp64", f"{TENSOR}fp64_dst_fp64"),
        f"{TENSOR}fp4_fp6_fp8",
        f"{TENSOR}int8",
    ) == [
        *(f"{TENSOR}bf16_dst_fp32.sum", f"{TENSOR}bf16_dst_fp32_sparsity_off.sum.peak_sustained"),
        *(f"{TENSOR}fp16_dst_fp16.sum", f"{TENSOR}fp16_dst_fp32.sum"),
        f"{TENSOR}fp4_fp6_fp8.sum",
        f"{TENSOR}fp64.sum",
        *(f"{TENSOR}tf32_dst_fp32_sparsity_off.sum", f"{TENSOR}tf32_dst_fp32_sparsity_on.sum"),
        f"{TENSOR}tf32_dst_fp32_sparsity_off.sum.peak_sustained",
    ]


CHIPS = json.loads((Path(__file__).parent / "fakes" / "ncu_chips.json").read_text())
PEAKS = {
    "ga100": ["bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "tf32_dst_fp32"],
    "ad102": ["bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "fp8", "tf32_dst_fp32"],
}
COUNTS = {
    "ga100": [*PEAKS["ga100"], "fp64"],
    "ad102": PEAKS["ad102"],
    "gh100": ["bf16_dst_fp32", "fp16", "fp64", "fp8_sparsity_off", "fp8_sparsity_on", "tf32_dst_fp32"],
}


def tensor_metrics(chip):
    return [name.removeprefix(TENSOR) for name in asked_of(*CHIPS[chip]) if "ops_path_tensor" in name]


@pytest.mark.parametrize("chip", ["ga100", "ad102", "gh100"])
def test_each_type_of_a_chip_is_counted_once(chip):
    counts = [name.removesuffix(".sum") for name in tensor_metrics(chip) if name.endswith(".sum")]
    assert sorted(counts) == sorted(COUNTS[chip])


@pytest.mark.parametrize("chip", ["ga100", "ad102"])
def test_the_peaks_of_a_chip_are_those_of_dense_operations(chip):
    peaks = [name for name in tensor_metrics(chip) if name.endswith(".peak_sustained")]
    assert peaks == [f"{name}_sparsity_off.sum.peak_sustained" for name in PEAKS[chip]]


def test_the_peaks_of_hopper_are_those_of_its_warp_groups():
    instruction = "sm__ops_path_tensor_op_hgmma_src_"
    assert [name for name in tensor_metrics("gh100") if name.endswith(".peak_sustained")] == [
        f"{instruction}bf16_dst_fp32_sparsity_off.sum.peak_sustained",
        f"{instruction}fp16_sparsity_off.sum.peak_sustained",
        f"{instruction}tf32_dst_fp32_sparsity_off.sum.peak_sustained",
        "fp8_sparsity_off.sum.peak_sustained",
    ]


def test_instructions_are_counted_where_a_chip_counts_nothing_else():
    by_instruction = [f"sm__ops_path_tensor_op_{op}_src_bf16_dst_fp32_sparsity_{on}" for op in ("hgmma", "hmma")
                      for on in ("off", "on")]  # fmt: skip
    assert asked_of(*by_instruction) == [
        *(f"{name}.sum" for name in by_instruction),
        "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained",
    ]


def test_metrics_of_the_user_s_are_taken_as_they_are_written():
    known = frozenset({"dram__bytes", "sm__throughput"})
    names = ["dram__bytes.sum, sm__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes", "regex:^sm__pipe"]
    assert check_metrics(names, known, "2025.1") == [
        *("dram__bytes.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes", "regex:^sm__pipe"),
    ]
    assert check_metrics(["launch__occupancy_limit_warps"], known, "2025.1") == ["launch__occupancy_limit_warps"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("dram__byte.sum", "did you mean 'dram__bytes.sum'?"),
        ("dram__read_bytes.avg", "did you mean 'dram__bytes_read.avg'?"),
        ("flop_count_sp", "`ncu --query-metrics` lists them"),
        ("dram__bytes.summ", "did you mean dram__bytes.sum?"),
    ],
)
def test_a_metric_that_is_not_known_is_refused_with_the_nearest(asked, said):
    with pytest.raises(UsageError) as refused:
        check_metrics([asked], frozenset({"dram__bytes", "dram__bytes_read", "gpu__time_duration"}), "2025.1")
    assert str(refused.value).endswith(said)


def test_a_metric_requested_twice_is_taken_once():
    assert merge_metrics(["a__b.sum", "c__d.sum"], ["c__d.sum", "e__f.sum"]) == ("a__b.sum", "c__d.sum", "e__f.sum")
