"""Image classification: any model of torchvision learns to name pictures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from common import accuracy, torchvision
from images import CLASSES, pictures
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    model: str = "resnet18"
    data: str = "synthetic"
    data_root: str | None = None
    image_size: int = 32
    classes: int = 0  # as many as the data set has


def model(settings: Settings) -> nn.Module:
    """Build an untrained model."""
    return torchvision().models.get_model(settings.model, num_classes=settings.classes or CLASSES[settings.data])


def weights(settings: Settings) -> Path:
    """Where torch keeps the weights that torchvision offers for this model."""
    best = torchvision().models.get_model_weights(settings.model).DEFAULT
    return Path(torch.hub.get_dir()) / "checkpoints" / best.url.rsplit("/", 1)[-1]


def data(settings: Settings, *, train: bool) -> Dataset[tuple[Tensor, int]]:
    """Pictures with labels."""
    return pictures(settings.data, settings.data_root, settings.image_size, train=train)


def workload(network: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the step: it takes a batch, and gives the loss to go down and the accuracy."""

    def step(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        scores = network(images)
        return cross_entropy(scores, labels), accuracy(scores, labels)

    return step
