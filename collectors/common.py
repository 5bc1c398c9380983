"""What workloads share: torchvision on every machine, and what is right of an answer."""

import importlib
import sys
from types import ModuleType

import torch
from torch import Tensor

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


def accuracy(scores: Tensor, wanted: Tensor) -> Tensor:
    """The share of rows whose highest score is the wanted one."""
    return (scores.detach().argmax(-1) == wanted).float().mean()
