"""Image classification with any classification model of torchvision."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from common import accuracy, torchvision
from images import CLASSES, pictures
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

AUXILIARY = 0.3  # weight of auxiliary heads in the loss: GoogLeNet and Inception have some


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
    models, name, size = torchvision().models, settings.model, settings.image_size
    if name not in models.list_models(module=models):
        raise ValueError(f"torchvision has no classification model {name!r}; it has resnet18, vgg16, vit_b_16 …")
    own = {"image_size": size} if name.startswith("vit_") else {}  # a position embedding depends on the image size
    least = 1 if own else models.get_model_weights(name).DEFAULT.meta["min_size"][0]
    if size < least:
        raise ValueError(f"{name} needs images of at least {least} pixels; add --image-size {least}")
    return models.get_model(name, num_classes=settings.classes or CLASSES[settings.data], **own)


def weights(settings: Settings) -> Path:
    """Return where torch caches torchvision's weights of this model."""
    best = torchvision().models.get_model_weights(settings.model).DEFAULT
    return Path(torch.hub.get_dir()) / "checkpoints" / best.url.rsplit("/", 1)[-1]


def data(settings: Settings, *, train: bool) -> Dataset[tuple[Tensor, int]]:
    """Return labeled images."""
    return pictures(settings.data, settings.data_root, settings.image_size, settings.classes, train=train)


def workload(network: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the step: it takes a batch and returns loss and accuracy."""

    def step(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        outputs = network(images)
        scores, *auxiliary = outputs if isinstance(outputs, tuple) else (outputs,)
        loss = cross_entropy(scores, labels) + sum(AUXILIARY * cross_entropy(head, labels) for head in auxiliary)
        return loss, accuracy(scores, labels)

    return step
