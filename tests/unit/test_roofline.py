"""The roofline against brute force: FLOPs, bytes, ceilings and matches by plain Python, launch by launch."""

import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests import corpus, ncu
from tests.memory import MemoryStore
from tracelab.client import Lab
from tracelab.ingest import pipeline
from tracelab.store import session

Row = dict[str, Any]
Metrics = dict[str, float]

OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
TENSOR = "sm__ops_path_tensor_src_{}.sum"
FLOP = {
    "fp64": {"dadd": 1, "dmul": 1, "dfma": 2},
    "fp32": {"fadd": 1, "fmul": 1, "ffma": 2},
    "fp16": {"hadd": 2, "hmul": 2, "hfma": 4},
}
TENSORS = ("fp16", "bf16_dst_fp32", "tf32_dst_fp32", "fp64")  # what compute capability 8.0 multiplies
CEILINGS = {"fp32": ("gemm_fp32", 19_000.0), "tensor_bf16": ("gemm_bf16", 280_000.0), "fp64": ("gemm_fp64", 9_000.0)}
CEILINGS["tensor_fp64"] = CEILINGS["fp64"]  # a product in fp64 runs on tensor cores where there are any
BANDWIDTH = 1_400.0
CLOSE = 1e-12
SPECIFIED = "with cards as (from card_facts('devices', null)) select per_s from specified_ceilings('cards')"


def some_metrics(rng: random.Random) -> Metrics:
    """A launch of which now and then a metric is missing."""
    found: Metrics = {"gpu__time_duration.sum": rng.randint(1, 10**6), "dram__bytes.sum": rng.randint(1, 10**9)}
    for ops in FLOP.values():
        idle = rng.random() < 0.4
        found |= {OP.format(op): 0 if idle else rng.randint(0, 10**9) for op in ops if rng.random() > 0.02}
    return found | {
        TENSOR.format(src): rng.choice((0, rng.randint(0, 10**12))) for src in TENSORS if rng.random() > 0.02
    }


def some_launches(rng: random.Random) -> list[tuple[str, Metrics]]:
    return [(rng.choice("abcd"), some_metrics(rng)) for _ in range(rng.randint(1, 30))]


def as_rows(launches: list[tuple[str, Metrics]]) -> list[Row]:
    return [
        {"launch": number, "device": 0, "kernel": name, "metric": metric, "value": value, "clock_control": "none"}
        for number, (name, metrics) in enumerate(launches)
        for metric, value in metrics.items()
    ]


def by_precision(metrics: Metrics) -> dict[str, float | None]:
    """FLOPs of one launch, by hand: None where a metric is missing; 'all' their sum."""
    found: dict[str, float | None] = {}
    for precision, ops in FLOP.items():
        counts = [metrics.get(OP.format(op)) for op in ops]
        weights = ops.values()
        found[precision] = None if None in counts else sum(c * w for c, w in zip(counts, weights, strict=True) if c)
    for src in TENSORS:
        found["tensor_" + src.split("_", maxsplit=1)[0]] = metrics.get(TENSOR.format(src))
    known = [value for value in found.values() if value is not None]
    return found | {"all": sum(known) if len(known) == len(found) else None}


def summed(values: list[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)


def expected(launches: list[tuple[str, Metrics]]) -> dict[tuple[str, str], tuple[float | None, ...]]:
    """By kernel and precision: FLOPs, GFLOP/s of their ceiling, share of what is attainable."""
    answers: dict[tuple[str, str], tuple[float | None, ...]] = {}
    for kernel in {name for name, _ in launches}:
        members = [metrics for name, metrics in launches if name == kernel]
        dur = sum(metrics["gpu__time_duration.sum"] for metrics in members)
        size = sum(metrics["dram__bytes.sum"] for metrics in members)
        parts = {p: summed([by_precision(metrics)[p] for metrics in members]) for p in by_precision(members[0])}
        for precision, flop in parts.items():
            peak = CEILINGS[precision][1] if precision in CEILINGS else None
            if precision == "all" and flop:
                did = {p: f for p, f in parts.items() if f and p != "all"}
                times = [f / CEILINGS[p][1] for p, f in did.items() if p in CEILINGS]
                peak = flop / max(times) if max(did, key=lambda p: did[p]) in CEILINGS else None
            share = None
            if flop and peak:
                share = (flop / dur) / min(peak, flop / size * BANDWIDTH)
            answers[kernel, precision] = (flop, peak if precision != "all" or flop else None, share)
    return answers


@pytest.mark.parametrize("seed", range(12))
def test_every_figure_is_what_brute_force_finds(seed: int, memory: MemoryStore) -> None:
    launches = some_launches(random.Random(seed))
    ceilings = [{"metric": metric, "best": best, "unit": "gflop_per_s"} for metric, best in set(CEILINGS.values())]
    ceilings.append({"metric": "dram_triad", "best": BANDWIDTH, "unit": "gb_per_s"})
    card = {"rank": 0, "device": 0, "compute_capability": "8.0"}
    tables = {"kernel_metrics": as_rows(launches), "ceilings": ceilings, "devices": [card]}
    answer = memory.filled(tables).query("roofline", ceilings="measured").to_pylist()
    wanted = expected(launches)
    for row in answer:
        flop, peak, share = wanted[row["kernel"], row["precision"]]
        assert row["flop"] == flop, row
        assert (flop is None) == (row["flop_missing"] is not None), row
        if peak is not None:
            assert row["ceiling_gflop_per_s"] == pytest.approx(peak, rel=CLOSE)
        assert row["of_ceiling_ratio"] == (None if share is None else pytest.approx(share, rel=CLOSE)), row
    shown = {(row["kernel"], row["precision"]) for row in answer}
    assert {key for key, (flop, _, _) in wanted.items() if flop or key[1] == "all"} <= shown


@pytest.mark.parametrize("seed", range(8))
def test_every_execution_takes_the_counts_that_brute_force_gives_it(seed: int, memory: MemoryStore) -> None:
    rng = random.Random(seed)
    shapes = [(rng.choice("ab"), rng.randint(1, 3), rng.randint(1, 2)) for _ in range(12)]
    period = [(shape, rng.randint(1, 9)) for shape in shapes]
    metrics = [
        {
            "run": "ncu", "launch": at, "device": 0, "kernel": name, "metric": metric, "value": float(value),
            "grid_x": grid, "grid_y": 1, "grid_z": 1, "block_x": block, "block_y": 1, "block_z": 1,
        }
        for at, ((name, grid, block), flop) in enumerate(period)
        for metric, value in {**dict.fromkeys(map(OP.format, ("fmul", "ffma", *FLOP["fp64"], *FLOP["fp16"])), 0),
                              OP.format("fadd"): flop, "sm__inst_executed_pipe_tensor.sum": 0}.items()
    ]  # fmt: skip
    traced = [*period * 3, *period[: rng.randint(0, 5)]]
    kernels = [
        {
            "run": "t",
            "name": f"void ns::{name}(T1)",
            "device": 0,
            "start_ns": at * 10,
            "dur_ns": 5,
            "grid_x": grid,
            "grid_y": 1,
            "grid_z": 1,
            "block_x": block,
            "block_y": 1,
            "block_z": 1,
        }
        for at, ((name, grid, block), _) in enumerate(traced)
    ]
    counts: dict[Any, list[int]] = defaultdict(list)
    for shape, flop in period:
        counts[shape].append(flop)
    executions: dict[Any, int] = defaultdict(int)
    wanted: dict[Any, int] = defaultdict(int)
    for shape, _ in traced:
        wanted[shape] += counts[shape][executions[shape] % len(counts[shape])]
        executions[shape] += 1
    answer = memory.filled({"kernel_metrics": metrics, "kernels": kernels}).query("kernel_flop")
    found = {}
    for row in answer.to_pylist():
        shape = (row["kernel"][9], int(row["grid"].split(",")[0]), int(row["block"].split(",")[0]))
        found[shape] = row["flop"]
        rest = executions[shape] % len(counts[shape])
        assert row["match"] == ("shape" if rest else "periodic"), row
    assert found == dict(wanted)


@pytest.mark.parametrize(
    "names",
    [
        (
            "void at::native::unrolled<4, at::native::AddFunctor<float>, at::Array<char*, 3> >(int, at::Array)",
            "void at::native::unrolled<(int)4, at::native::AddFunctor<float>, at::Array<char *, (int)3>>(int, T2)",
            "unrolled<4, AddFunctor<float>, Array<char *, 3>>",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, float, 10, true>(float*, float const*, int)",
            "void <unnamed>::softmax_warp_forward<float, float, (int)10, (bool)1>(T1 *, const T1 *, int)",
        ),
        (
            "void k<copy(Iterator&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)",
            "void k<copy(Iterator &)::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)]>(int)",
        ),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        ),
        ("void gemm<256ul>(int)", "void gemm<(unsigned long)256>(int)"),
        ("ampere_sgemm_128x64_nn", "void ampere_sgemm_128x64_nn"),
    ],
)
def test_tools_that_spell_a_kernel_differently_mean_the_same(names: tuple[str, ...], signature: Any) -> None:
    assert len({signature(name) for name in names}) == 1


def test_a_report_read_from_csv_gives_the_published_figures(tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text(ncu.golden_roofline(), "utf-8")
    pipeline.ingest([tmp_path / "report.csv"], store=tmp_path / "lab")
    (row,) = (r for r in Lab(tmp_path / "lab").query("roofline").to_pylist() if r["precision"] == "fp32")
    assert f"{row['achieved_gflop_per_s']:.2f}" == "344.19"
    assert f"{row['intensity_flop_per_byte']:.5f}" == "0.99726"
    assert f"{row['ceiling_gflop_per_s'] / 1e3:.3f}" == "93.568"
    assert f"{row['ceiling_gb_per_s']:.2f}" == "1756.16"
    assert f"{row['ridge_flop_per_byte']:.2f}" == "53.28"
    assert row["bound"] == "memory"


def test_kernels_that_differ_in_template_arguments_differ(signature: Any) -> None:
    assert signature("void f<(int)4, float>(T1)") != signature("void f<(int)8, float>(T1)")
    assert signature("f<a::x<float>>(int)") == "f<x<float>>"
    assert signature("") == ""
    assert signature("(") == "("


@pytest.fixture(scope="module")
def signature() -> Any:
    con = duckdb.connect()
    for name in ("35_names.sql", "45_join.sql"):
        text = (session.MACROS / name).read_text("utf-8")
        con.execute(text.split("\n\n-- shown_bytes", maxsplit=1)[0])
    return lambda name: con.execute("select kernel_signature(?)", [name]).fetchall()[0][0]


@pytest.mark.parametrize(
    ("card", "ceiling", "gflop_per_s"),
    [
        ("NVIDIA A100-SXM4-40GB", "tensor_bf16", 312_000),
        ("NVIDIA A100-SXM4-40GB", "tensor_tf32", 156_000),
        ("NVIDIA A100-SXM4-40GB", "fp64", 9_700),
        ("NVIDIA H100 80GB HBM3", "tensor_fp16", 989_400),
        ("NVIDIA H100 80GB HBM3", "tensor_fp64", 66_900),
        ("NVIDIA H100 PCIe", "tensor_fp64", 51_200),
        ("NVIDIA H200", "fp32", 66_900),
        ("NVIDIA H200", "tensor_fp64", 66_900),
        ("NVIDIA H200", "dram", 4_800),
        ("NVIDIA A100 80GB PCIe", "dram", 1_935),
        ("Quadro RTX 6000", "dram", 672),
        ("Tesla V100-SXM2-16GB", "tensor_fp16", 125_000),
        ("Tesla T4", "tensor_fp16", 65_000),
        ("NVIDIA L4", "tensor_bf16", 121_000),
        ("NVIDIA GeForce RTX 4090", "tensor_bf16", 165_200),
        ("NVIDIA GeForce RTX 4090", "tensor_int8", 660_600),
        ("Tesla P40", "fp32", 11_760),
        ("NVIDIA A100-PG509-200", "tensor_bf16", 312_000),
        ("NVIDIA A100-PG509-200", "dram", 1_555),
        ("NVIDIA B200", "tensor_bf16", 2_250_000),
        ("NVIDIA B200", "tensor_fp8", 4_500_000),
        ("NVIDIA B200", "tensor_tf32", 1_125_000),
        ("NVIDIA B200", "fp32", 75_000),
        ("NVIDIA B200", "fp64", 37_500),
        ("NVIDIA B200", "dram", 7_700),
        ("Tesla K80", "fp32", 4_370),
    ],
)
def test_rates_and_clocks_give_what_the_data_sheet_states(
    card: str, ceiling: str, gflop_per_s: int, memory: MemoryStore
) -> None:
    memory.filled({"devices": [{"rank": 0, "device": 0, "name": card}]})
    rows = memory.con.execute(SPECIFIED + " where ceiling = ?", [ceiling]).fetchall()
    assert rows == [(pytest.approx(gflop_per_s, rel=0.006),)]


@pytest.mark.parametrize(
    "card",
    [
        "Quadro P400",
        "Quadro P4000",
        "NVIDIA GH200 480GB",
        "NVIDIA H200 NVL",
        "NVIDIA GB200",
        "NVIDIA A10G",
        "NVIDIA L40",
        "NVIDIA A100X",
        "Quadro RTX 6000 with Max-Q Design",
        "NVIDIA RTX 6000 Ada Generation",
        "NVIDIA T400",
        "NVIDIA T4G",
        "GRID P40-24Q",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA H100 NVL",
        "Tesla V100-SXM3-32GB",
        "NVIDIA A4000",
    ],
)
def test_a_card_with_a_name_like_that_of_another_has_no_data_sheet(card: str, memory: MemoryStore) -> None:
    memory.filled({"devices": [{"rank": 0, "device": 0, "name": card}]})
    assert memory.con.execute(SPECIFIED).fetchall() == []


@pytest.mark.parametrize(("value", "missing"), [(7.0, None), (None, TENSOR.format("fp16"))])
def test_a_tensor_counter_without_a_number_is_no_zero(
    value: float | None, missing: str | None, memory: MemoryStore
) -> None:
    metrics = {**dict.fromkeys((OP.format(op) for ops in FLOP.values() for op in ops), 0.0)}
    rows = as_rows([("k", metrics | {TENSOR.format(src): 0.0 for src in TENSORS})])
    for row in rows:
        if row["metric"] == TENSOR.format("fp16"):
            row["value"] = value
    card = {"rank": 0, "device": 0, "compute_capability": "8.0"}
    answer = memory.filled({"kernel_metrics": rows, "devices": [card]}).query("roofline")
    (total,) = (row for row in answer.to_pylist() if row["precision"] == "all")
    assert (total["flop"], total["flop_missing"]) == (value, missing)


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason=str(corpus.needs_traces[1].kwargs["reason"]))
def test_a_report_of_a_matrix_product_gives_what_its_own_rule_states(tmp_path: Path) -> None:
    path = corpus.ROOT / "ncu/tanvisharma/3136_64_64_rtx2080ti_sgemm.ncu2022_3.raw.csv"
    pipeline.ingest([path], store=tmp_path / "lab", run="r")
    (row,) = (r for r in Lab(tmp_path / "lab").query("roofline").to_pylist() if r["precision"] == "fp32")
    # 25 x 2 blocks make 3200 x 64 x 64 multiply-adds of the 3136 x 64 x 64 that are asked for, and 204,800 products
    assert row["flop"] == pytest.approx(2 * 3200 * 64 * 64 + 204_800, abs=10)
    assert math.isclose(row["achieved_gflop_per_s"], (2 * 936.297417 + 14.629647) * 1.305874, rel_tol=1e-6)
    assert round(row["of_ceiling_ratio"], 2) == 0.22  # as the rule in the same report says: 22 % of fp32 peak
    assert row["ceiling_gflop_per_s"] == pytest.approx(4352 * 2 * 1.305874, rel=1e-4)


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason=str(corpus.needs_traces[1].kwargs["reason"]))
def test_counts_of_a_metrics_page_are_its_own(tmp_path: Path) -> None:
    pipeline.ingest([corpus.ROOT / "ncu/gardenia/gemm.csv"], store=tmp_path / "lab", run="r")
    rows = {(r["kernel"][:12], r["precision"]): r for r in Lab(tmp_path / "lab").query("roofline").to_pylist()}
    product = rows["void gemm_v0", "fp32"]
    assert (product["flop"], product["dram_bytes"]) == (2 * 34_359_738_368_000, 4_394_965_922_944)
    assert product["dur_ns"] == round(28_293_058_736.76 / 764_999_997.55 * 1e9)
    assert product["time_source"] == "ncu cycles"
    total = rows["void gemm_v0", "all"]  # tensor instructions ran, and nothing says how many operations they were
    assert total["flop"] is None
    assert total["flop_missing"] == ", ".join(TENSOR.format(src) for src in ("bf16", "fp16", "fp64", "tf32"))
    assert rows["void randomI", "all"]["flop"] == 2 * 2 * 838_860_800
