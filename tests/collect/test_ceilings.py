"""Ceilings: what is counted is what was moved and computed; a machine's figures end in a run folder that ingests."""

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.needs import needs_torch
from tests.readers.small import ingest_paths
from tracelab.cli import main
from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.links import COLLECTIVES
from tracelab.collect.ceilings.run import Result, Target, _Session, at_work, refuse_shared_node
from tracelab.collect.ceilings.sizes import MIB, SIZES, Sizes
from tracelab.collect.ceilings.timing import Bench, Times
from tracelab.collect.machine import Gpu, Sampler
from tracelab.errors import UsageError
from tracelab.store import session

CHECKOUT = Path(__file__).parents[2]
TIMES = Times([4.0, 2.0, 8.0], [], 0.0)


def test_stream_kernels_count_what_they_read_and_write() -> None:
    moved = {each.metric: each.moved(1000) for each in rows.STREAMS}
    assert moved == {"dram_copy": 2000, "dram_scale": 2000, "dram_add": 3000, "dram_triad": 3000, "dram_dot": 2000}


def test_rate_is_that_of_the_best_and_of_the_median_repetition() -> None:
    triad = rows.stream(rows.STREAMS[3], 1000, TIMES)
    assert (triad["best"], triad["median"], triad["repeats"], triad["size_bytes"]) == (1500.0, 750.0, 3, 3000)
    assert (triad["unit"], triad["counting"]) == ("gb_per_s", "read + write, 2N + 1N of doubles")


def test_matrix_product_is_two_flop_for_each_of_n_cubed_terms() -> None:
    row = rows.gemm("bf16", 100, "TN", 2, TIMES)
    assert (rows.gemm_flop(8192), row["best"], row["median"]) == (1_099_511_627_776, 1_000_000.0, 500_000.0)
    assert (row["metric"], row["size_bytes"], row["layout"]) == ("gemm_bf16", 60_000, "TN")
    assert row["counting"] == "2n³, n = 100"
    counting = {precision: rows.gemm(precision, 4, "TN", 1, TIMES)["counting"] for precision in ("fp8", "int8")}
    assert counting == {"fp8": "2n³, e4m3, n = 4", "int8": "2n³ integer operations, n = 4"}


def test_sustained_rate_is_the_median_of_what_was_repeated_after_the_warm_up() -> None:
    times = Times([1.0, 2.0, 4.0, 8.0, 5.0], [4.0, 8.0, 5.0], 1.5, per_pair=20, graphed=True)
    row = rows.copy("h2d_pinned", 4000, 4000, "bytes copied, once", times)
    assert (row["best"], row["median"], row["sustained"]) == (4000.0, 1000.0, 800.0)
    assert (row["warmup_s"], row["sustained_s"]) == (1.5, 17 * 20 / 1e9)
    assert row["counting"] == "bytes copied, once; mean of 20 in a row, launched by a CUDA graph"


def test_a_measurement_without_a_window_has_no_sustained_rate() -> None:
    assert {"sustained", "sustained_s", "warmup_s"}.isdisjoint(rows.stream(rows.STREAMS[0], 1000, TIMES))


def test_bandwidth_of_a_cache_is_that_of_the_bytes_by_which_two_sizes_differ() -> None:
    launch_ns = 1000.0
    small, large = (Times([launch_ns + ns, launch_ns + ns + 3], [launch_ns + ns], 0.5) for ns in (250.0, 1000.0))
    (row,) = rows.cache_stream(rows.STREAMS[3], 50 * MIB, [MIB, 4 * MIB], [small, large])
    moved = 3 * 3 * MIB
    assert (row["metric"], row["best"], row["median"]) == ("l2_triad", moved / 750, moved / 750)
    assert (row["sustained"], row["size_bytes"]) == (moved / 750, 12 * MIB)
    assert row["counting"] == (
        "read + write, 2N + 1N of doubles; difference of 3 and 12 MiB moved, in a cache of 50 MiB"
    )
    assert list(rows.cache_stream(rows.STREAMS[3], 50 * MIB, [MIB, 4 * MIB], [large, small])) == []


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    algorithm, bus = rows.collective("all_reduce", 1000, 4, "NCCL", 20, TIMES.all_ns)
    assert (algorithm["metric"], algorithm["best"], algorithm["median"]) == ("all_reduce_algbw", 500.0, 250.0)
    assert (bus["metric"], bus["best"], bus["median"]) == ("all_reduce_busbw", 750.0, 375.0)
    assert bus["counting"] == "1.5 × S / t of the slowest of 4 ranks, NCCL, mean of 20 calls"
    factors = {metric: rows.bus_factor(metric, 4) for metric in COLLECTIVES}
    assert factors == {
        "all_reduce": 1.5,
        "all_gather": 0.75,
        "reduce_scatter": 0.75,
        "all_to_all": 0.75,
        "broadcast": 1,
    }


def test_fit_finds_the_latency_and_the_bandwidth_that_times_were_made_of() -> None:
    times = {size: 2000 + size / 50 for size in (4096, 65_536, 1 << 20, 256 << 20)}
    latency_ns, gb_per_s = rows.fit_copy_times(times) or (0, 0)
    assert math.isclose(latency_ns, 2000, rel_tol=1e-9)
    assert math.isclose(gb_per_s, 50, rel_tol=1e-9)
    found = {
        row["metric"]: (round(row["best"], 6), row["unit"], row["size_bytes"]) for row in rows.fitted_rows("x", times)
    }
    assert found == {
        "x_fit": (50.0, "gb_per_s", None),
        "x_latency": (2000.0, "ns", None),
        "x_half": (25.0, "gb_per_s", 100_000),
    }


def test_fit_weighs_small_and_large_copies_alike() -> None:
    times = {1000: 200.0, 2000: 300.0, 1_000_000_000: 1.05e8}  # 100 ns + 0.1 ns a byte; the large one is off by 5 %
    latency_ns, gb_per_s = rows.fit_copy_times(times) or (0, 0)
    assert math.isclose(latency_ns, 93.97281475, rel_tol=1e-8)  # numpy's least squares of relative errors
    assert math.isclose(1 / gb_per_s, 0.10460902, rel_tol=1e-7)


@pytest.mark.parametrize("times", [{}, {4: 1.0}, {4: 2.0, 8: 2.0}, {4: 3.0, 8: 2.0}])
def test_times_that_do_not_grow_are_not_fitted(times: dict[int, float]) -> None:
    assert rows.fitted_rows("x", times) == []


def test_arrays_are_larger_than_any_cache_of_a_gpu() -> None:
    assert {key: each.array_bytes for key, each in SIZES.items() if key[0] == "cuda"} == {
        ("cuda", False): 1 << 30,
        ("cuda", True): 256 << 20,
    }


def test_a_clock_is_that_of_the_work_and_not_of_rest_before_or_behind_it() -> None:
    said = [
        (345, "gpu_idle"),
        (1980, "none"),
        (1755, "sw_power_cap"),
        (1710, "sw_power_cap, hw_thermal_slowdown"),
        (345, "gpu_idle"),
    ]
    seen = [Gpu(0, "nvml", sm_clock_hz=mhz * 1_000_000, throttle_reasons=reasons) for mhz, reasons in said]
    assert at_work(seen) == (1_755_000_000, {"sw_power_cap", "hw_thermal_slowdown"})


def test_a_card_that_nobody_looked_at_has_no_clock() -> None:
    assert at_work([]) == (None, set())


@needs_torch
def test_work_goes_on_for_the_warm_up_and_the_window() -> None:
    import time

    import torch

    from tracelab.collect.ceilings.timing import Bench, measure_times

    bench = Bench(torch, torch.device("cpu"), tiny_sizes())
    times = measure_times(bench, lambda: time.sleep(0.002), warmup_s=0.02, window_s=0.03)
    assert 0.03 <= sum(times.sustained_ns) / 1e9 <= 0.2
    before = times.all_ns[: len(times.all_ns) - len(times.sustained_ns)]
    assert 0.02 <= sum(before) / 1e9 <= 0.1
    assert times.all_ns[len(before) :] == times.sustained_ns
    assert min(times.all_ns) >= 2e6


@needs_torch
def test_work_ends_at_the_time_limit_with_what_was_measured_until_then() -> None:
    import time

    import torch

    from tracelab.collect.ceilings.timing import Bench, measure_times

    bench = Bench(torch, torch.device("cpu"), Sizes(1, (), (), (), repeats=50, warmups=0, most_s=0.01))
    times = measure_times(bench, lambda: time.sleep(0.01))
    assert (len(times.all_ns), times.sustained_ns) == (3, [])


def test_a_gpu_is_measured_over_the_sizes_that_the_guide_names() -> None:
    sizes = SIZES["cuda", False]
    assert (sizes.collectives[0], sizes.collectives[-1], sizes.calls) == (1 << 10, 4 << 30, 20)
    assert (len(sizes.gemms) > 1, sizes.warmup_s, sizes.window_s) == (True, 1.0, 1.0)


def tiny_sizes() -> Sizes:
    """Return sizes that a test measures in milliseconds."""
    return Sizes(1 << 16, (16, 32), (4096, 1 << 20), (), 3, 1, 1.0, 0.001, 0.001)


@needs_torch
def test_what_roofline_requests_is_what_is_measured(tmp_path: Path) -> None:
    import torch

    from tracelab.collect.ceilings.copies import copy_measurements
    from tracelab.collect.ceilings.kernels import gemm_measurements, measure_streams
    from tracelab.collect.ceilings.timing import Bench

    bench = Bench(torch, torch.device("cpu"), tiny_sizes())
    streams = list(measure_streams(bench))
    assert [row["metric"] for row in streams] == ["dram_copy", "dram_scale", "dram_add", "dram_triad", "dram_dot"]
    assert [row["size_bytes"] for row in streams[3:]] == [3 * 65_536, 2 * 65_536]
    copies = [row for _, work in copy_measurements(bench) for row in work()]
    assert [(row["metric"], row["size_bytes"]) for row in copies[:2]] == [
        ("h2h_pageable", 4096),
        ("h2h_pageable", 1 << 20),
    ]
    products = {name: work for name, work in gemm_measurements(bench) if name not in ("gemm_tf32", "gemm_fp16")}
    gemms = [row for work in products.values() for row in work()]
    assert [(row["metric"], row["layout"]) for row in gemms[:3]] == [
        ("gemm_fp32", "NN"),
        ("gemm_fp32", "NT"),
        ("gemm_fp32", "TN"),
    ]
    assert {(row["metric"], row["layout"]) for row in gemms[-4:]} == {("gemm_fp8", "TN"), ("gemm_int8", "TN")}
    assert [row["size_bytes"] for row in gemms if row["metric"] == "gemm_int8"] == [3 * 16 * 16, 3 * 32 * 32]
    assert all(row["best"] >= row["median"] > 0 and row["sustained"] > 0 for row in streams + gemms)


@needs_torch
@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp8", "int8"])
def test_a_product_is_of_operands_in_its_layout(precision: str, layout: str) -> None:
    import torch

    from tracelab.collect.ceilings.kernels import Product, build_operands, build_product
    from tracelab.collect.ceilings.timing import Bench

    if precision == "fp8" and layout != "TN":
        pytest.skip("computed in one layout alone")
    bench = Bench(torch, torch.device("cpu"), tiny_sizes())
    left, right = build_operands(bench, Product(precision, 16, layout))
    strides = {"N": (16, 1), "T": (1, 16)}
    assert (right.stride(), left.stride()) == (strides[layout[0]], strides[layout[1]])
    product = build_product(bench, precision, left, right)().double()
    assert left.element_size() == {"fp32": 4, "bf16": 2}.get(precision, 1)
    assert torch.allclose(product, left.double() @ right.double(), rtol=0.05, atol=0.2)


@needs_torch
def test_ceilings_of_a_processor_end_in_a_run_folder_that_ingests(tmp_path: Path) -> None:
    words = ["collect", "ceilings", "--device", "cpu", "--quick", "--only", "gemm", "--only", "collectives"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "runs"), "--run", "c"])
    assert (done.exit_code, "21 figures" in done.stderr) == (0, True)
    assert "gemm_tf32: not measured: a processor has no TF32" in done.stderr
    assert "roofline, mfu and op_flop compare GPUs alone; figures of a CPU are in the table ceilings" in done.stderr
    lab = ingest_paths(tmp_path, [tmp_path / "runs"], run=None)
    con = session.connect(lab.store)
    assert con.sql("select workload, status, gpus from runs").fetchall() == [("ceilings", "ok", 0)]
    assert con.sql("select distinct metric from ceilings where skipped is null order by 1").fetchall() == [
        (metric,)
        for metric in sorted(
            ["gemm_fp32", "gemm_bf16", "gemm_fp64", "gemm_fp8", "gemm_int8"]
            + [f"{name}_{kind}" for name in COLLECTIVES for kind in ("algbw", "busbw")]
        )
    ]
    assert con.sql("select metric, skipped, best from ceilings where skipped is not null order by 1").fetchall() == [
        ("gemm_fp16", "a processor takes seconds for each product in fp16", None),
        ("gemm_tf32", "a processor has no TF32", None),
    ]
    assert con.sql("select bool_and(starts_with(device_name, 'CPU')), count(gpus) from ceilings").fetchall() == [
        (True, 0)
    ]
    assert con.sql("select count(*) from ceilings where sustained > 0 and warmup_s = 0.02").fetchall() == [(11,)]
    assert con.sql("select count(*) > 0 from host_samples").fetchall() == [(True,)]


def test_figures_whose_median_is_far_below_the_best_are_counted(tmp_path: Path) -> None:
    session = _Session(Sampler(tmp_path / "samples", 0.0), lambda _row: None)
    target = Target(Bench(SimpleNamespace(), SimpleNamespace(type="cpu"), SIZES["cpu", True]), "CPU")
    for median in (79.9, 80.0, 100.0):
        session._write({"metric": "dram_copy", "best": 100.0, "median": median}, target, 0.0, {})
    session.lines.close()
    result = Result(tmp_path, "ok", None, session.figures, {}, varying=session.varying)
    assert result.notes == [
        "1 of 3 figures vary: their median is below 80 % of the best; measure again on an idle machine"
    ]
    assert not Result(tmp_path, "ok", None, 3, {}).notes


def test_several_tasks_of_a_node_do_not_measure_it_at_the_same_time() -> None:
    srun = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2"}
    srun |= {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "n[1-2]"}
    with pytest.raises(UsageError, match=r"srun started 4 processes on this node.*start srun --ntasks-per-node=1"):
        refuse_shared_node(srun)
    refuse_shared_node(srun | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_PROCID": "1"})
    refuse_shared_node({})


def test_sweeps_and_ceilings_need_none_of_what_asking_needs() -> None:
    code = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'duckdb', 'polars', 'pyarrow', 'msgspec', 'rich', 'isal'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "from tracelab.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    for words, expected in (
        (["collect", "sweep", "S0-smoke", "--dry-run"], "S0-smoke-d0.5-b4-g2"),
        (["collect", "ceilings", "--help"], "--quick"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert expected in done.stdout, done.stderr
