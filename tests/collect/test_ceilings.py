"""Ceilings: what is counted is what was moved and computed; a machine's figures end in a run folder that ingests."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.needs import needs_torch
from tests.readers.small import ingest_paths
from tracelab.cli import main
from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.run import at_work
from tracelab.collect.ceilings.sizes import SIZES, Sizes
from tracelab.collect.machine import Gpu
from tracelab.store import session

CHECKOUT = Path(__file__).parents[2]
TIMES_NS = [4.0, 2.0, 8.0]


def test_stream_kernels_count_what_they_read_and_write() -> None:
    moved = {each.metric: each.moved(1000) for each in rows.STREAMS}
    assert moved == {"dram_copy": 2000, "dram_scale": 2000, "dram_add": 3000, "dram_triad": 3000, "dram_dot": 2000}


def test_rate_is_that_of_the_best_and_of_the_median_repetition() -> None:
    triad = rows.stream(rows.STREAMS[3], 1000, TIMES_NS)
    assert (triad["best"], triad["median"], triad["repeats"], triad["size_bytes"]) == (1500.0, 750.0, 3, 3000)
    assert (triad["unit"], triad["counting"]) == ("gb_per_s", "read + write, 2N + 1N of doubles")


def test_matrix_product_is_two_flop_for_each_of_n_cubed_terms() -> None:
    row = rows.gemm("bf16", 100, 2, TIMES_NS)
    assert (rows.gemm_flop(8192), row["best"], row["median"]) == (1_099_511_627_776, 1_000_000.0, 500_000.0)
    assert (row["metric"], row["size_bytes"], row["counting"]) == ("gemm_bf16", 60_000, "2n³, n = 100")


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    algorithm, bus = rows.collective("all_reduce", 1000, 4, "NCCL", TIMES_NS)
    assert (algorithm["metric"], algorithm["best"], algorithm["median"]) == ("all_reduce_algbw", 500.0, 250.0)
    assert (bus["metric"], bus["best"], bus["median"]) == ("all_reduce_busbw", 750.0, 375.0)
    assert [row["best"] for row in rows.collective("broadcast", 1000, 4, "NCCL", TIMES_NS)] == [500.0, 500.0]


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


@pytest.mark.parametrize(
    ("one_s", "least_s", "repeats"),
    [
        (0.0014, 2.0, 1429),  # a product that would be done twenty times in 28 ms
        (0.02, 2.0, 100),
        (0.0014, 0.0, 20),
        (1.0, 2.0, 5),
        (10.0, 2.0, 3),
        (0.00001, 2.0, 10_000),
    ],
)
@needs_torch
def test_work_goes_on_until_a_card_has_come_to_its_limits(one_s: float, least_s: float, repeats: int) -> None:
    from tracelab.collect.ceilings.kernels import count_repetitions

    assert count_repetitions(SIZES["cuda", False], one_s, least_s) == repeats


@needs_torch
def test_what_roofline_requests_is_what_is_measured(tmp_path: Path) -> None:
    import torch

    from tracelab.collect.ceilings.kernels import Bench, measurements

    tiny = Sizes(1 << 16, 16, (4096, 1 << 20), (), 3, 1, 1.0)
    bench = Bench(torch, torch.device("cpu"), tiny)
    found = [row for _, work in measurements(bench, ("stream", "gemm", "copies")) for row in work()]
    assert [row["metric"] for row in found[:10]] == [
        *("dram_copy", "dram_scale", "dram_add", "dram_triad", "dram_dot"),
        *("gemm_fp32", "gemm_bf16", "gemm_fp64", "h2h_pageable", "h2h_pageable"),
    ]
    assert all(row["best"] >= row["median"] > 0 for row in found)
    assert [row["size_bytes"] for row in found[3:6]] == [3 * 65_536, 2 * 65_536, 3 * 16 * 16 * 4]


@needs_torch
def test_ceilings_of_a_processor_end_in_a_run_folder_that_ingests(tmp_path: Path) -> None:
    words = ["collect", "ceilings", "--device", "cpu", "--quick", "--only", "gemm", "--only", "collectives"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "runs"), "--run", "c"])
    assert (done.exit_code, "7 figures" in done.stderr) == (0, True)
    lab = ingest_paths(tmp_path, [tmp_path / "runs"], run=None)
    con = session.connect(lab.store)
    assert con.sql("select workload, status, gpus from runs").fetchall() == [("ceilings", "ok", 0)]
    assert con.sql("select distinct metric from ceilings order by 1").fetchall() == [
        (metric,)
        for metric in sorted(
            ["gemm_fp32", "gemm_bf16", "gemm_fp64"]
            + [f"{name}_{kind}" for name in ("all_reduce", "broadcast") for kind in ("algbw", "busbw")]
        )
    ]
    assert con.sql("select bool_and(starts_with(device_name, 'CPU')), count(gpus) from ceilings").fetchall() == [
        (True, 0)
    ]
    assert con.sql("select count(*) > 0 from host_samples").fetchall() == [(True,)]


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
