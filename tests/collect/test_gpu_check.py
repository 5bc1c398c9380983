"""`make gpu-check`: its bands, its table, and both of its parts on a CPU and under the fake CUDA."""

import importlib.util
import json
import sys
import tarfile
from pathlib import Path

import pytest

from tests.collect import fake_cuda, gpu_node
from tests.memory import MemoryStore
from tests.needs import needs_torch

FOLDER = Path(__file__).parents[2] / "gpu_check"


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch):
    """Import the scripts' modules by their bare names, and forget them afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
            del sys.modules[name]


def load(name):
    """Import a script of the folder under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"gpu_check_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_torch
def test_a_machine_without_a_gpu_gets_one_sentence_and_code_3(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert load("run").main([]) == 3
    assert capsys.readouterr().out == (
        "gpu-check: torch sees no GPU on this machine; run it on a GPU node, or add --device cpu for a trial\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_band_includes_its_borders():
    from outcome import between, equal, exit_code, render_table, skip

    checks = [
        between("a", 0.7, 0.7, 1.0),
        between("b", 1.01, 0.7, 1.0, " GB/s"),
        between("c", None, 0, 1),
        equal("d", 3, 4),
    ]
    checks.append(skip("e", "needs a GPU"))
    assert [(each.status, each.reason) for each in checks] == [
        ("pass", ""),
        ("fail", "outside the band"),
        ("skipped", "not measured"),
        ("fail", "differs"),
        ("skipped", "needs a GPU"),
    ]
    assert (exit_code(checks), exit_code(checks[:1])) == (1, 0)
    table = render_table(checks).splitlines()
    assert table[3] == "| b | fail | 1.01 GB/s | 0.7 to 1 GB/s | outside the band |"
    assert table[-1] == "1 passed, 2 failed, 2 skipped"


@pytest.mark.parametrize(
    "card",
    [
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H200",
        "Tesla V100-SXM2-16GB",
        "NVIDIA GeForce RTX 3090",
        "NVIDIA A100-SXM4-40GB",
    ],
)
def test_data_sheets_are_those_of_the_queries(card: str, memory: MemoryStore):
    from data_sheet import specified_rates

    memory.filled({"devices": [{"rank": 0, "device": 0, "name": card}]})
    rows = memory.con.sql(
        "with cards as (from card_facts('devices', null)) select ceiling, per_s from specified_ceilings('cards')"
    ).fetchall()
    rates = {name: specified.rate for name, specified in specified_rates(card).items()}
    assert rates == {name: pytest.approx(rate) for name, rate in rows}
    assert specified_rates("NVIDIA Unknown 1") == {}


def ceiling(metric, sustained, best=None, **more):
    """Return a row of ceilings as it is written."""
    row = {"metric": metric, "sustained": sustained, "best": best or sustained, "median": sustained, "uuid": "GPU-1"}
    return row | {"device_name": "NVIDIA H200", "gpus": 1} | more


def test_ceilings_are_judged_against_the_data_sheet_and_each_other():
    from node_checks import judge_ceilings

    rows = [
        ceiling("dram_copy", 3000.0),
        ceiling("dram_triad", 4080.0),  # 85 % of 4800 GB/s
        ceiling("gemm_bf16", 197_900.0, layout="NN"),  # 20 % of 989 TFLOP/s
        ceiling("gemm_fp32", 40_000.0, best=39_000.0),
        ceiling("h2d_pinned", 50.0),
        ceiling("bidir_pinned", 90.0),
        ceiling("h2d_pageable", None, best=10.0, median=10.0),
        ceiling("h2d_pinned_latency", None, best=2500.0, median=2500.0),
        ceiling("l2_copy", 6000.0),
        ceiling("gemm_fp32", 25_000.0, uuid="GPU-2", clock_hz=990_000_000),  # 37 % at half the clock of the data sheet
        ceiling("gemm_bf16", 98_900.0, uuid="GPU-2", clock_hz=1_000_000_000),  # 10 %
        ceiling("gemm_fp16", 90_000.0, uuid="GPU-3", device_name="Tesla V100-SXM2-16GB"),
        ceiling("gemm_fp16", 90_000.0, uuid=None, device_name="NVIDIA Unknown 1"),
        ceiling("p2p", 400.0, gpus=2),
        {"metric": "gemm_fp8", "skipped": "too old", "uuid": "GPU-1", "gpus": 1, "device_name": "NVIDIA H200"},
    ]
    made = {each.name: each for each in judge_ceilings(rows)}
    slowed = "NVIDIA H200 GPU-2: gemm_fp32 sustained of the data sheet"
    assert (made[slowed].measured, made[slowed].expected) == ("0.3736", "0.25 to 1.05")
    assert made[slowed.replace("fp32", "bf16")].expected == "0.218579 to 1.05"
    assert {made[slowed.replace("fp32", name)].status for name in ("fp32", "bf16", "fp16")} == {
        "pass",
        "fail",
        "skipped",
    }
    volta = "Tesla V100-SXM2-16GB GPU-3: gemm_{} sustained of the data sheet".format
    assert (made[volta("fp16")].status, made[volta("bf16")].reason) == ("pass", "the data sheet has no such rate")
    unknown = "NVIDIA Unknown 1: gemm_fp16 sustained of the data sheet"
    assert made[unknown].reason == "no data sheet of NVIDIA Unknown 1"
    first = "NVIDIA H200 GPU-1: "
    checks = {name.removeprefix(first): each for name, each in made.items() if name.startswith(first)}
    judged = {name: each.measured for name, each in checks.items() if each.status == "pass"}
    assert judged == {
        "dram sustained of the data sheet": "0.85",
        "gemm_fp32 sustained of the data sheet": "0.5978",
        "h2d_pinned": "50 GB/s",
        "both directions at once over one": "1.8",
        "pageable over pinned": "0.2",
        "latency of a copy": "2500 ns",
        "L2 over DRAM": "1.471",
    }
    assert {name: each.measured for name, each in checks.items() if each.status == "fail"} == {
        "gemm_bf16 sustained of the data sheet": "0.2",
    }


def test_an_error_in_one_part_is_a_failed_check_and_the_others_are_made(tmp_path, monkeypatch, capsys):
    from node_checks import Node
    from outcome import skip

    def breaks():
        yield skip("first", "")
        raise RuntimeError("CUDA error: unspecified launch failure")

    node = Node(tmp_path, "cpu", quick=True, until=float("inf"))
    monkeypatch.setattr(node, "_captures", breaks)
    monkeypatch.setattr(node, "_ceilings", lambda: iter([skip("last", "")]))
    checks = [(each.name, each.status, each.reason) for each in node.run(("captures", "ceilings"))]
    assert checks == [
        ("first", "skipped", ""),
        ("captures", "fail", "CUDA error: unspecified launch failure"),
        ("last", "skipped", ""),
    ]
    assert [each.name for each in node.checks] == ["first", "captures", "last"]
    assert "RuntimeError" in capsys.readouterr().err


def test_steps_are_compared_with_those_of_a_run_without_a_profiler():
    from node_checks import compare_steps

    def steps(state, *durations_ns):
        return [{"dur_ns": ns, "profiler_state": state} for ns in durations_ns]

    rows = {
        "none": steps("off", 90, 90, 90),
        "again": steps("off", 110, 110, 110),
        "kineto": steps("off", 105, 105)
        + steps("attached", 300)
        + steps("recording", 400, 130, 130)
        + steps("off", 150),
        "attached": steps("off", 80) + steps("recording", 300) + steps("attached", 103),
    }
    assert [(each.measured, each.status) for each in compare_steps(rows)] == [
        ("1.1", "pass"),  # 110 over the median of 90 and 110
        ("1.05", "pass"),
        ("1.3", "pass"),
        ("1.5", "fail"),
        ("1.03", "pass"),
        ("3.077", "fail"),
    ]
    del rows["attached"]
    assert len(list(compare_steps(rows))) == 5


@pytest.mark.parametrize(("device", "attached"), [("cuda", [True]), ("cpu", [])])
def test_kineto_records_a_second_time_on_a_gpu_and_leaves_cupti_attached(tmp_path, monkeypatch, device, attached):
    import node_checks

    runs = {}

    def train(_node, _workload, run, *, profiler="none", keep_attached=False, **_options):
        runs[run] = (profiler, keep_attached)
        return "ok", ""

    monkeypatch.setattr(node_checks.Node, "_train", train)
    monkeypatch.setattr(node_checks, "read_steps", lambda _run: [{"dur_ns": 1, "profiler_state": "recording"}] * 10)
    list(node_checks.Node(tmp_path, device, quick=False, until=0.0)._overhead())
    assert [keeps for profiler, keeps in runs.values() if profiler == "kineto"] == [False, *attached]
    first, last = next(iter(runs.items())), [*runs.items()][-1]
    assert (first, last) == (("overhead-none", ("none", False)), ("overhead-again", ("none", False)))


def test_the_largest_files_are_left_out_of_an_archive_that_is_too_large(tmp_path):
    import random

    from package import pack

    folder = tmp_path / "results"
    folder.mkdir()
    for name, size in (("small", 1000), ("large", 9000), ("middle", 5000)):
        (folder / name).write_bytes(random.Random(size).randbytes(size))
    archive, left_out = pack(folder, 8000)
    assert left_out == ["large"]
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["results/middle", "results/small"]


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_both_parts_hold_on_a_processor(tmp_path, capsys):
    out = tmp_path / "results"
    assert (
        load("run").main(["--device", "cpu", "--quick", "--out", str(out), "--only", "captures", "--only", "overhead"])
        == 0
    )
    states = {each["name"]: each["status"] for each in json.loads((out / "checks.json").read_text())}
    assert [name for name, status in states.items() if status == "pass"] == [
        "capture triad-kineto",
        "capture gemm-kineto",
        "capture copies-kineto",
        "capture collectives-kineto",
        "steps recorded",
    ]
    assert "fail" not in states.values()
    capsys.readouterr()
    assert load("compare").main([str(tmp_path / "results.tar.gz")]) == 0
    table = capsys.readouterr().out
    assert "| copies-kineto: calls of aten::copy_ | pass | 24 | 24 |  |" in table
    assert "| collectives-kineto: all_reduce of rank 1 | pass | 6 | 6 |  |" in table
    with pytest.raises(SystemExit) as ended:
        load("compare").main([str(tmp_path)])
    assert ended.value.code == 2


@needs_torch
def test_ceilings_of_gpus_are_measured_and_judged_under_the_fake_cuda(tmp_path, monkeypatch):
    gpu_node.open_node(tmp_path, monkeypatch)
    gpu_node.shrink_ceilings(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with fake_cuda.installed(monkeypatch, 1, work_ms=0.05):
        load("run").main(["--out", str(tmp_path / "r"), "--quick", "--only", "ceilings"])
    made = {each["name"]: each for each in json.loads((tmp_path / "r" / "checks.json").read_text())}
    assert (made["ceilings measured"]["status"], "ceilings" in made) == ("pass", False)
    judged = {name.partition(": ")[2].split()[0]: each for name, each in made.items() if "data sheet" in name}
    gemms = [f"gemm_{precision}" for precision in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")]
    assert list(judged) == ["dram", *gemms]
    assert {each["status"] for each in judged.values()} == {"fail"}  # nothing here is as fast as an H200
    assert judged["dram"]["expected"] == "0.7 to 1.02"


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_captures_of_gpus_hold_under_the_fake_cuda(tmp_path, monkeypatch, capsys):
    import truths

    some = [each for each in truths.captures("cpu", 2) if each.run in ("gemm-kineto", "copies-kineto", "gemm-ncu")]
    monkeypatch.setattr(truths, "captures", lambda _device, _gpus: some)  # in sizes of a CPU
    gpu_node.open_node(tmp_path, monkeypatch)
    with fake_cuda.installed(monkeypatch, 2):
        load("run").main(["--out", str(tmp_path / "r"), "--quick", "--only", "captures"])
    states = {each["name"]: each for each in json.loads((tmp_path / "r" / "checks.json").read_text())}
    assert states["capture gemm-kineto"]["status"] == "pass", states
    assert json.loads((tmp_path / "r" / "facts.json").read_text())["gpus"][0]["name"] == "NVIDIA H200"
    capsys.readouterr()
    load("compare").main([str(tmp_path / "r")])
    assert "| gemm-kineto: calls of aten::mm | pass | 12 | 12 |  |" in capsys.readouterr().out
