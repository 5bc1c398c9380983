"""Workloads of language models on a node with GPUs, under the fake CUDA."""

from collections import Counter

import pytest

from tests.collect import gpu_node
from tests.needs import needs_torch

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_ranks")]

TINY = {"context": "8"}


@pytest.fixture
def node(tmp_path, monkeypatch):
    return gpu_node.open_node(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": "bf16", "set": {"context": "8", "recompute": "1"}},
        {"precision": "fp8"},
        {"accumulate": 2},
        {"accumulate": 2, "parallel": "ddp", "gpus": 2, "precision": "fp16"},
        {"parallel": "fsdp", "gpus": 2, "fsdp_wrap": "model", "fsdp_reshard": "never"},
        {"parallel": "fsdp", "gpus": 2, "precision": "fp8", "accumulate": 2},
        {"parallel": "tp", "gpus": 2, "precision": "bf16"},
        {"parallel": "dp", "gpus": 2, "precision": "fp8"},
        {"cuda_graphs": True, "precision": "bf16"},
        {"cuda_graphs": True, "precision": "fp8"},
        {"parallel": "ddp", "gpus": 2, "set": {"context": "8", "loss_tokens": "4"}},
        {"parallel": "tp", "gpus": 2, "set": {"context": "8", "loss_tokens": "4", "recompute": "2"}},
        {"parallel": "fsdp", "gpus": 2, "set": {"context": "8", "loss_tokens": "4", "embeddings": "untied"}},
        {"compile": True, "compile_mode": "max-autotune"},
        {"profiler": "kineto"},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()) or "plain",
)
def test_a_decoder_trains(node, options):
    run = node.train("decoder", **{"set": TINY} | options)
    assert (run.status, run.error) == ("ok", None)


def test_a_loss_in_parts_is_the_mean_over_unequal_replicas(node):
    own = {"context": "8", "loss_tokens": "4"}
    alone, split = (
        [row["loss"] for row in node.train("decoder", batch_size=3, set=own, **options).rows("steps")]
        for options in ({}, {"parallel": "dp", "gpus": 2})
    )
    assert len(split) == 4  # a warm-up step, two steps, the epoch
    assert split == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}, {"parallel": "tp", "gpus": 2}, {"profiler": "kineto"}])
def test_inference_runs(node, options):
    run = node.train("inference", set={"prompt": "4", "output": "3"}, **options)
    assert (run.status, run.error) == ("ok", None)
    counted = Counter(row["phase"] for row in run.rows("steps"))
    assert counted == {"warmup": 1, "train": 2, "prefill": 2, "decode": 4, "epoch": 1}
