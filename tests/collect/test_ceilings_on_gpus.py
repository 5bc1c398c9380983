"""Ceilings of a node with GPUs, under the fake CUDA: what is measured, on which card, and in which order."""

import json

import pytest

from tests.collect import fake_cuda, gpu_node
from tests.needs import needs_torch

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_ranks")]


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Return a function that measures parts in tiny sizes, and returns the rows and the calls of CUDA."""
    from tracelab.collect.ceilings import run

    gpu_node.open_node(tmp_path, monkeypatch)
    gpu_node.shrink_ceilings(monkeypatch)

    def measured(*parts, gpus=2, gpu=()):
        with fake_cuda.installed(monkeypatch, gpus, work_ms=0.05) as state:
            options = run.CeilingOptions("cuda", parts, quick=True, gpu=gpu, out=tmp_path, run="c", force=True)
            result = run.measure(options)
            lines = (result.folder / "ceilings.jsonl").read_text().splitlines()[1:]
            return [json.loads(line) for line in lines], fake_cuda.read_calls(state.calls), result

    return measured


def test_every_gpu_is_measured_under_its_own_uuid(measure):
    rows, calls, result = measure("stream", "l2")
    uuids = [f"GPU-aaaaaaaa-0000-0000-0000-00000000000{number}" for number in range(2)]
    assert [(row["uuid"], row["metric"]) for row in rows if "skipped" not in row] == [
        (uuid, metric)
        for uuid in uuids
        for metric in ("dram_copy", "dram_scale", "dram_add", "dram_triad", "dram_dot", *_l2(rows, uuid))
    ]
    assert {row["power_limit_w"] for row in rows} == {700.0}
    assert (result.status, json.loads((result.folder / "run.json").read_text())["gpus"]) == ("ok", 2)
    assert "Event.record" in calls


def _l2(rows, uuid):
    """Return the measurements of the cache: the fake device takes as long for any size, so some have no difference."""
    return [row["metric"] for row in rows if row["uuid"] == uuid and row["metric"].startswith("l2_")]


def test_one_gpu_is_chosen_by_ordinal_or_uuid(measure):
    for gpu in ("1", "GPU-aaaaaaaa-0000-0000-0000-000000000001"):
        rows, _, _ = measure("stream", gpu=(gpu,))
        assert {row["uuid"] for row in rows} == {"GPU-aaaaaaaa-0000-0000-0000-000000000001"}
    with pytest.raises(Exception, match=r"--gpu GPU-a: names 2 of the GPUs here; choose of 0 \(GPU-aaaaaaaa"):
        measure("stream", gpu=("GPU-a",))
    with pytest.raises(Exception, match="--gpu 7: names 0"):
        measure("stream", gpu=("7",))


def test_products_of_a_hopper_are_of_all_precisions(measure):
    rows, _, _ = measure("gemm", gpu=("0",))
    layouts = {}
    for row in rows:
        layouts.setdefault(row["metric"], []).append(row["layout"])
    several = [f"gemm_{precision}" for precision in ("fp32", "tf32", "bf16", "fp16", "fp64")]
    assert layouts == {key: ["NN", "NT", "TN"] for key in several} | {"gemm_fp8": ["TN"], "gemm_int8": ["TN"]}
    assert all(row["sustained"] and row["best"] >= row["sustained"] > 0 for row in rows)


def test_copies_go_both_ways_and_pageable_ones_through_no_graph(measure):
    rows, _, _ = measure("copies", gpu=("0",))
    kinds = [row["metric"] for row in rows if row["size_bytes"] == 4096 and "skipped" not in row]
    assert kinds == ["h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "bidir_pinned", "bidir_pageable"]
    assert all("graph" not in row["counting"] for row in rows if "pageable" in row["metric"])
    both = [row["counting"] for row in rows if row["metric"] == "bidir_pinned"]
    assert both[0].startswith("bytes copied in both directions at once")


def test_gpus_copy_to_each_other(measure):
    rows, _, _ = measure("p2p")
    uuids = [f"GPU-aaaaaaaa-0000-0000-0000-00000000000{number}" for number in range(2)]
    assert [
        (row["metric"], row["uuid"], row["peer_uuid"], row["gpus"]) for row in rows if row["size_bytes"] == 4096
    ] == [
        ("p2p", *uuids, 2),
        ("p2p_bidir", *uuids, 2),
        ("p2p", *reversed(uuids), 2),
    ]
    assert rows[0]["counting"].startswith("bytes copied, once; peer access")


def test_collectives_run_on_all_gpus(measure, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    rows, _, result = measure("collectives")
    run = json.loads((result.folder / "run.json").read_text())
    assert (run["environment"]["NCCL_ALGO"], run["versions"]["nccl_version"]) == ("Ring", "2.27.5")
    assert {row["metric"] for row in rows} == {
        f"{name}_{kind}"
        for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
        for kind in ("algbw", "busbw")
    }
    assert {(row["gpus"], row["uuid"], row["size_bytes"]) for row in rows} == {(2, None, 4096), (2, None, 8192)}
    assert rows[0]["counting"] == "S / t of the slowest of 2 ranks, NCCL, mean of 2 calls"


def test_one_gpu_alone_has_neither_peers_nor_collectives(measure):
    rows, _, result = measure("p2p", "collectives", "stream", gpus=1)
    assert {row["metric"]: row["skipped"] for row in rows if "skipped" in row} == {
        "p2p": "needs at least two GPUs",
        "collectives": "needs at least two GPUs",
    }
    assert result.skipped == {"p2p": "needs at least two GPUs", "collectives": "needs at least two GPUs"}


def test_short_work_is_launched_by_a_graph_on_its_own_gpu(measure, monkeypatch):
    from tracelab.collect.ceilings import timing

    monkeypatch.setattr(timing, "_PAIR_S", 0.002)
    monkeypatch.setattr(timing, "_BATCH_S", 0.002)
    rows, calls, _ = measure("copies", gpu=("1",))
    ends = {row["metric"]: row["counting"].rpartition("; ")[2] for row in rows if row["size_bytes"] == 4096}
    pinned = [ends[name] for name in ("h2d_pinned", "d2h_pinned", "bidir_pinned")]
    assert [text.rpartition(", ")[2] for text in pinned] == ["launched by a CUDA graph"] * 3
    assert all(ends[name].endswith(" in a row") for name in ("h2d_pageable", "d2h_pageable"))
    assert "graph.replay" in calls


def test_work_that_waits_for_the_gpu_is_repeated_without_a_graph(monkeypatch):
    import torch

    from tracelab.collect.ceilings import timing
    from tracelab.collect.ceilings.sizes import Sizes

    monkeypatch.setattr(timing, "_PAIR_S", 0.005)
    with fake_cuda.installed(monkeypatch, 1, work_ms=0.05) as state:
        bench = timing.Bench(torch, torch.device("cuda", 0), Sizes(1, (), (), (), repeats=3, warmups=1, most_s=0.2))
        numbers = torch.ones(4, device="cuda")
        times = timing.measure_times(bench, lambda: numbers.sum().item())
    assert (times.graphed, times.per_pair > 1, "graph.replay" in state.calls) == (False, True, False)
    assert min(times.all_ns) >= 50_000
