"""FLOPs by shapes beside torch's own counter, of models that torch runs and profiles on the CPU."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs_torch, torch
from tests.readers.small import ingest_paths
from tracelab.client import Lab
from tracelab.resources import COLLECTORS

pytestmark = needs_torch

OF_RESNET18 = 3_627_132_948
"""FLOPs of ResNet18's forward pass with 10 classes at batch size 1, with the bias of its last layer."""


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [*sys.path, str(COLLECTORS)])
    from common import torchvision  # type: ignore[import-not-found]

    return torchvision()


def counted(folder: Path, work: Callable[[], object]) -> tuple[dict[str, int], dict[str, int]]:
    """Return FLOPs by op, by shapes and by torch's counter."""
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.flop_counter import FlopCounterMode

    work()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        work()
    trace = folder / "rank0.pt.trace.json"
    profiler.export_chrome_trace(str(trace))
    by_shapes: Counter[str] = Counter()
    for row in Lab(ingest_paths(folder, [trace]).store).query("op_flop").to_pylist():
        if row["kind"] in ("gemm", "convolution", "attention"):
            assert row["gpu_ns"] == 0
            by_shapes[row["op"]] += row["flop"]
    with FlopCounterMode(display=False) as counter:
        work()
    by_torch = {str(op).replace(".", "::", 1): flop for op, flop in counter.get_flop_counts()["Global"].items()}
    return dict(by_shapes), by_torch


def test_resnet18_costs_what_torch_counts(tmp_path: Path, torchvision: Any) -> None:
    network, image = torchvision.models.resnet18(num_classes=10).eval(), torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        by_shapes, by_torch = counted(tmp_path, lambda: network(image))
    assert by_shapes == by_torch == {"aten::convolution": 3_627_122_688, "aten::addmm": 10_240}
    assert sum(by_shapes.values()) + 2 * 10 == OF_RESNET18


def test_products_convolutions_and_attention_cost_what_torch_counts(tmp_path: Path) -> None:
    functional = torch.nn.functional
    a, b, batch = torch.randn(5, 7), torch.randn(7, 11), torch.randn(3, 5, 7)
    image, grouped, transposed = torch.randn(2, 6, 9, 9), torch.randn(8, 3, 3, 2), torch.randn(6, 4, 3, 3)
    sound, kernel = torch.randn(2, 4, 20), torch.randn(5, 4, 3)
    q, k = torch.randn(2, 4, 10, 16), torch.randn(2, 4, 12, 16)

    def work() -> None:
        torch.mm(a, b)
        torch.bmm(batch, batch.transpose(1, 2))
        torch.baddbmm(torch.zeros(3, 5, 5), batch, batch.transpose(1, 2))
        torch.addmm(torch.zeros(11), a, b)
        functional.conv2d(image, grouped, stride=(2, 1), padding=1, dilation=2, groups=2)
        functional.conv_transpose2d(image, transposed, stride=2)
        functional.conv1d(sound, kernel, padding=1)
        functional.scaled_dot_product_attention(q, k, k)

    with torch.no_grad():
        by_shapes, by_torch = counted(tmp_path, work)
    assert by_shapes.pop("aten::_scaled_dot_product_flash_attention_for_cpu") == 2 * 2 * 4 * 10 * 12 * (16 + 16)
    attention = {op for op in by_torch if "attention" in op}
    assert by_shapes == {op: flop for op, flop in by_torch.items() if op not in attention}
    assert sum(by_torch[op] for op in attention) in (0, 2 * 2 * 4 * 10 * 12 * (16 + 16))


def test_a_backward_pass_costs_what_torch_counts(tmp_path: Path) -> None:
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2), nn.Flatten(), nn.Linear(100, 5)
    )
    images = torch.randn(2, 3, 12, 12)
    by_shapes, by_torch = counted(tmp_path, lambda: network(images).sum().backward())
    assert by_shapes == by_torch
    assert by_shapes["aten::convolution_backward"] == 2 * 2 * (12 * 12 * 8 * 3 * 9 + 2 * 5 * 5 * 4 * 8 * 9)
