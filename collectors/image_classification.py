"""Image classification: any model of torchvision learns to name pictures of noise."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from common import learn, precision, torchvision
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    model: str = "resnet18"
    batch_size: int = 8
    image_size: int = 64
    classes: int = 10
    precision: str = "fp32"
    device: str = "cpu"
    learning_rate: float = 0.01


def model(settings: Settings) -> nn.Module:
    """Build an untrained model."""
    return torchvision().models.get_model(settings.model, num_classes=settings.classes)


def batch(settings: Settings) -> tuple[Tensor, Tensor]:
    """Return images of noise and labels at random, on the host."""
    images = torch.rand(settings.batch_size, 3, settings.image_size, settings.image_size)
    return images, torch.randint(settings.classes, (settings.batch_size,))


def workload(settings: Settings, network: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the training step: it takes a batch, and gives the loss."""
    optimizer = torch.optim.SGD(network.parameters(), lr=settings.learning_rate, momentum=0.9)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        images, labels = images.to(settings.device), labels.to(settings.device)
        with precision(settings.precision, settings.device):
            loss = cross_entropy(network(images), labels)
        return learn(loss, optimizer)

    return step
