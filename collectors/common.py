"""What workloads share: importing torchvision and transformers anywhere, accuracy, and number formats."""

import importlib.util
import sys
from types import ModuleType

import torch
from torch import Tensor

_DECLARED: list[torch.library.Library] = []
"""Keeps the declarations below alive."""


def torchvision() -> ModuleType:
    """Import torchvision; with a torch that lacks its compiled operators, declare two of them first."""
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


def transformers() -> ModuleType:
    """Import Hugging Face's transformers, and before it torchvision, which it imports where that is installed."""
    try:
        if importlib.util.find_spec("torchvision"):
            torchvision()
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        raise ValueError("huggingface needs transformers; run pip install 'tracelab[huggingface]'") from error


def weight_dtype(precision: str) -> torch.dtype:
    """Return the format in which weights of a precision are stored."""
    if precision == "fp8":
        raise ValueError("no weights are in fp8 here; use --precision bf16")
    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the share of rows whose highest score is at the label."""
    return (scores.detach().argmax(-1) == labels).float().mean()
