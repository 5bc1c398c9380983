"""Training on an Apple GPU: a step ends when the device has finished, and what cannot work is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.process.placement import place_ranks
from tracelab.collect.run_end import finish_run
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.collect.training import worker
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.step_log import StepLog
from tracelab.errors import UsageError

MPS = Settings("gemm", device="mps")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"parallel": "ddp"}, "--device mps is one GPU.*use --parallel none"),
        ({"profiler": "ncu"}, "not --device mps; use --profiler kineto"),
        ({"profiler": "nsys"}, "not --device mps; use --profiler kineto"),
        ({"precision": "tf32"}, "--precision tf32 needs an NVIDIA GPU"),
        ({"cuda_graphs": True}, "--cuda-graphs needs an NVIDIA or AMD GPU"),
    ],
)
def test_what_an_apple_gpu_cannot_do_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        place_ranks(Settings("gemm", device="mps", **options), {})


def test_a_run_on_an_apple_gpu_is_of_one_gpu() -> None:
    decided = place_ranks(MPS, {})
    assert (decided.settings.device, decided.gpus, decided.world_size) == ("mps", 1, 1)


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_a_machine_without_an_apple_gpu_gets_one_sentence(tmp_path: Path) -> None:
    result = train(Settings("gemm", device="mps", out=tmp_path, run="r"))
    assert (result.status, result.error) == (
        "failed",
        "torch sees no Apple GPU; use --device cpu, or a torch for macOS on Apple silicon",
    )


def fake_torch(calls: list[str]) -> Any:
    """Return torch as it is on a Mac, as far as a rank asks it."""
    mps = SimpleNamespace(synchronize=lambda: calls.append("synchronize"))
    backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True, get_name=lambda: "Apple M4"))
    return SimpleNamespace(
        mps=mps, backends=backends, device=lambda kind: SimpleNamespace(type=kind), stack=torch.stack, empty=torch.empty
    )


@needs_torch
def test_a_step_ends_when_the_device_has_finished_it(tmp_path: Path) -> None:
    calls: list[str] = []
    log = StepLog(RankContext(fake_torch(calls), MPS, Job(), SimpleNamespace(type="mps")), tmp_path)
    step = log.begin("train", 0, 0)
    with log.loading(step):
        calls.append("load")
    log.end(step, torch.tensor(0.5), torch.tensor(0.25))
    log.settle(step)
    log.close()
    assert calls == ["load", "synchronize"]
    row = json.loads((tmp_path / "steps.rank0.jsonl").read_text().splitlines()[1])
    assert (row["loss"], row["accuracy"], row["dur_ns"] > row["data_wait_ns"] > 0) == (0.5, 0.25, True)
    assert not list(tmp_path.glob("memory_peaks*"))


@needs_torch
def test_batches_are_copied_before_the_loader_reuses_them() -> None:
    copies: list[dict[str, Any]] = []
    tensor = SimpleNamespace(to=lambda device, **options: copies.append({"device": device, **options}), dim=lambda: 2)
    RankContext(None, MPS, Job(), SimpleNamespace(type="mps")).to_device([tensor])
    assert [each["non_blocking"] for each in copies] == [False]


def test_a_rank_on_a_mac_names_its_gpu(tmp_path: Path) -> None:
    calls: list[str] = []
    context = worker._rank_context(fake_torch(calls), worker.RankTask(MPS, Job(), tmp_path, tmp_path, ""))
    assert (context.device.type, context.mps, context.cuda, context.devices) == ("mps", True, False, [])
    assert worker._gpu_name(context.torch, context) == "Apple M4"


@pytest.mark.parametrize(("device", "status"), [("mps", "ok"), ("cuda", "no_kernels")])
def test_a_trace_without_kernels_is_what_a_mac_records(device: str, status: str, tmp_path: Path) -> None:
    description = {"profiler": "kineto", "gpus": 1, "axes": {"device": device}, "gpu": None, "pin_memory": None}
    description |= {"versions": {}, "capture": {}, "environment": {}}
    outcomes = {0: {"status": "ok", "kernels": 0, "copies": 0}}
    assert finish_run(tmp_path, description, outcomes, None).status == status
