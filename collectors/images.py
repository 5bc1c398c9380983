"""Labeled images: synthetic noise, CIFAR, or folders of images on disk."""

from pathlib import Path

import torch
from common import torchvision
from torch import Tensor
from torch.utils.data import Dataset

CLASSES = {"synthetic": 10, "cifar10": 10, "cifar100": 100, "folder": 1000}
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Noise(Dataset[tuple[Tensor, int]]):
    """As many random images as CIFAR has, repeating a few, so that generating them costs no time."""

    def __init__(self, size: int, classes: int, *, train: bool, different: int = 64) -> None:
        generator = torch.Generator().manual_seed(int(train))
        self.pictures = torch.randn(different, 3, size, size, generator=generator)
        self.classes, self.length = range(classes), 50_000 if train else 10_000

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return self.pictures[place % len(self.pictures)], place % len(self.classes)


def pictures(name: str, root: str | None, size: int, classes: int, *, train: bool) -> Dataset[tuple[Tensor, int]]:
    """Return a data set by name, resized; synthetic noise has `classes` labels or 10. Nothing is downloaded."""
    if name not in CLASSES:
        raise ValueError(f"no data set {name!r}; choose one of {', '.join(CLASSES)}")
    if name == "synthetic":
        return Noise(size, classes or CLASSES[name], train=train)
    vision = torchvision()
    change = vision.transforms
    shorter = size if size <= 64 else size * 256 // 224
    crop = [change.Resize(shorter), change.CenterCrop(size)]
    prepare = change.Compose([*crop, change.ToTensor(), change.Normalize(MEAN, SPREAD)])
    if name == "folder":
        part = Path(root) / ("train" if train else "val")
        if not part.is_dir():
            raise ValueError(f"--data-root has no folder {part.name}; it must contain train/<class>/ and val/<class>/")
        return vision.datasets.ImageFolder(part, prepare)
    kind = {"cifar10": vision.datasets.CIFAR10, "cifar100": vision.datasets.CIFAR100}[name]
    if not (Path(root) / kind.base_folder).is_dir():
        raise ValueError(
            f"--data-root has no folder {kind.base_folder}; unpack the data set there, nothing is downloaded"
        )
    try:
        return kind(root, train=train, transform=prepare)
    except RuntimeError as error:  # torchvision's message suggests download=True
        raise ValueError(f"{kind.base_folder} in --data-root is damaged or incomplete; unpack it again") from error
