"""What workloads share: torchvision on every machine, precision by name, and learning from a loss."""

import importlib
import sys
from types import ModuleType

import torch
from torch import Tensor, optim

_DECLARED: list[torch.library.Library] = []
"""Keeps the declarations below alive."""


def torchvision() -> ModuleType:
    """Import torchvision; on a torch without CUDA its compiled operators are missing, and two must be declared."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(operators)
    return importlib.import_module("torchvision")


def precision(name: str, device: str) -> torch.autocast:
    """Return the context in which forward and loss run: fp32, tf32 (matrix products only) or bf16."""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    return torch.autocast(device, torch.bfloat16, enabled={"fp32": False, "tf32": False, "bf16": True}[name])


def learn(loss: Tensor, optimizer: optim.Optimizer) -> Tensor:
    """Go one step down the loss, and give its value."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
