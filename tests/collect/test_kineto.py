"""PyTorch's profiler in a process whose GPU fails."""

import gzip
import json
from pathlib import Path

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.profiling.kineto import Kineto
from tracelab.collect.recording.profilers import KinetoOptions

pytestmark = needs_torch


def test_a_failed_kernel_leaves_what_the_cpu_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def synchronize() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    kineto = Kineto(torch, KinetoOptions(), 0, tmp_path, tmp_path)
    kineto.start()
    torch.ones(4).add(1)
    kineto._profile.profiler.use_device = "cuda"  # as on a GPU: torch synchronizes it when the profiler stops
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(kineto, "_synchronize", synchronize)
    kineto.stop()
    kineto.save(None)
    events = json.loads(gzip.decompress((tmp_path / "rank0.pt.trace.json.gz").read_bytes()))["traceEvents"]
    assert sum(event.get("name") == "aten::add" for event in events) == 1


def test_torch_does_not_warn_of_cycles_that_a_recording_never_has(tmp_path: Path) -> None:
    kineto = Kineto(torch, KinetoOptions(), 0, tmp_path, tmp_path)
    assert kineto._build_profile().acc_events
