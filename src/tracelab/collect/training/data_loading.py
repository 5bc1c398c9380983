"""Batches of a workload's data for one rank: its share of it, shuffled, in the loader that was asked for."""

import math
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings


@dataclass(frozen=True)
class ValidationData:
    """What one rank validates on."""

    loader: Any
    batches: int
    """So many first ones count; others only keep this rank in step with those that have more."""


def take_fraction(torch: Any, data: Any, share: float, seed: int) -> Any:  # noqa: ANN401  torch carries no types here
    """A share of a data set, chosen at random and the same in every rank and run."""
    if share >= 1:
        return data
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(data), generator=generator)[: max(1, round(len(data) * share))]
    return torch.utils.data.Subset(data, chosen.tolist())


def count_classes(own: Any, data: Any) -> int | None:  # noqa: ANN401  a workload's settings, and its data set
    """Among how many answers one guesses: the words of a vocabulary, or the classes that torchvision's data sets list.

    However many a model could name: labels that the data lacks are soon guessed no more.
    """
    listed = getattr(data, "classes", ())
    known = getattr(own, "vocabulary", None) or (len(listed) if isinstance(listed, Sized) else listed)
    return known if isinstance(known, int) and known > 0 else None


def training_loader(torch: Any, data: Any, settings: Settings, job: Job) -> Any:  # noqa: ANN401
    """A loader over this rank's share; every rank gets as many batches as the others."""
    sampler = None
    if job.world_size > 1:
        sampler = torch.utils.data.DistributedSampler(data, job.world_size, job.rank, seed=settings.seed)
    order = {"batch_size": settings.batch_size, "sampler": sampler, "shuffle": sampler is None}
    return _loader(torch, data, settings, order | {"drop_last": settings.cuda_graphs})  # a graph is of one shape


def sample_batch(torch: Any, data: Any, settings: Settings) -> Any:  # noqa: ANN401
    """A batch made here and now: nothing that loads data may ask for pinned memory while a CUDA graph is captured."""
    return torch.utils.data.default_collate([data[place % len(data)] for place in range(settings.batch_size)])


def validation_data(torch: Any, data: Any, settings: Settings, job: Job) -> ValidationData:  # noqa: ANN401
    """A loader over this rank's share, in order; the shares together are every sample once.

    Ranks must ask for as many batches as each other, for FSDP gathers weights in every forward pass, and DDP buffers.
    """
    size, world = settings.batch_size, job.world_size
    own = range(job.rank, len(data), world)
    batches = [list(own[start : start + size]) for start in range(0, len(own), size)]
    most = math.ceil(math.ceil(len(data) / world) / size)
    padded = batches + [[0]] * (most - len(batches))
    return ValidationData(_loader(torch, data, settings, {"batch_sampler": padded}), len(batches))


def pins_memory(torch: Any, settings: Settings) -> bool:  # noqa: ANN401
    """Whether batches are loaded into pinned memory: without a GPU there is none to pin it for."""
    return settings.pin_memory and settings.device == "cuda" and bool(torch.cuda.is_available())


def _loader(torch: Any, data: Any, settings: Settings, order: dict[str, Any]) -> Any:  # noqa: ANN401
    return torch.utils.data.DataLoader(
        data,
        num_workers=settings.workers,
        pin_memory=pins_memory(torch, settings),
        persistent_workers=settings.workers > 0,
        generator=torch.Generator().manual_seed(settings.seed),
        **order,
    )
