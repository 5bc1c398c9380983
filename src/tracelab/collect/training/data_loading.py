"""Data loaders of one rank: its share of a workload's training and validation data."""

import math
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError


@dataclass(frozen=True)
class ValidationData:
    """The validation data of one rank."""

    loader: Any
    batches: int
    """Leading batches that count; the rest only keep this rank in step with those that have more."""


def take_fraction(torch: Any, data: Any, share: float, seed: int) -> Any:  # noqa: ANN401  torch carries no types here
    """Return a random share of a data set, the same in every rank and run."""
    if share >= 1:
        return data
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(data), generator=generator)[: max(1, round(len(data) * share))]
    return torch.utils.data.Subset(data, chosen.tolist())


def count_classes(own: Any, data: Any) -> int | None:  # noqa: ANN401  a workload's settings, and its data set
    """Count the labels in the data: the size of a vocabulary, or the classes of torchvision's data sets.

    A model may have more outputs, but it soon stops predicting labels that the data lacks.
    """
    listed = getattr(data, "classes", ())
    count = getattr(own, "vocabulary", None) or (len(listed) if isinstance(listed, Sized) else listed)
    return count if isinstance(count, int) and count > 0 else None


def training_loader(torch: Any, data: Any, settings: Settings, job: Job) -> Any:  # noqa: ANN401
    """Return a loader over this rank's share; every rank has the same number of batches."""
    sampler = None
    share, shares = _data_share(settings, job)
    if shares > 1:
        sampler = torch.utils.data.DistributedSampler(data, shares, share, seed=settings.seed)
    order = {"batch_size": settings.batch_size, "sampler": sampler, "shuffle": sampler is None}
    return _loader(torch, data, settings, order | {"drop_last": settings.cuda_graphs})  # a graph has one fixed shape


def count_steps(loader: Any, settings: Settings) -> int:  # noqa: ANN401
    """Return the steps of an epoch; the last one may have fewer batches to accumulate."""
    return math.ceil(len(loader) / settings.accumulate)


def count_batches(loader: Any, settings: Settings, steps: int) -> int:  # noqa: ANN401
    """Return the batches of a number of steps from the start of an epoch."""
    epochs, rest = divmod(steps, count_steps(loader, settings))
    return int(epochs * len(loader) + rest * settings.accumulate)


def batch_sizes(loader: Any, settings: Settings, number: int) -> list[int]:  # noqa: ANN401
    """Return the sizes of the batches of one step; after the last step of an epoch the first one follows again."""
    first = number % count_steps(loader, settings) * settings.accumulate
    samples, size = len(loader.sampler), settings.batch_size
    return [min(size, samples - at * size) for at in range(first, min(first + settings.accumulate, len(loader)))]


def check_length(loader: Any, settings: Settings) -> str | None:  # noqa: ANN401
    """Return a note if the data holds fewer steps than requested; raises UsageError if it holds no whole batch."""
    share, steps = len(loader.sampler), count_steps(loader, settings)
    if steps == 0:
        raise UsageError(
            f"--cuda-graphs needs whole batches, and a rank's share of the data is {share} samples, fewer than "
            f"--batch-size {settings.batch_size}; lower --batch-size, or raise --data-fraction"
        )
    if settings.steps is not None and steps < settings.steps:
        return f"an epoch has {steps} steps, fewer than --steps {settings.steps}: a rank has {share} samples"
    return None


def sample_batch(torch: Any, data: Any, settings: Settings) -> Any:  # noqa: ANN401
    """Return one batch without a loader: allocating pinned memory would break the capture of a CUDA graph."""
    return torch.utils.data.default_collate([data[index % len(data)] for index in range(settings.batch_size)])


def validation_data(torch: Any, data: Any, settings: Settings, job: Job) -> ValidationData:  # noqa: ANN401
    """Return this rank's share of the validation data in order; the shares together hold every sample once.

    Every rank loads the same number of batches, because FSDP gathers weights in each forward pass, and DDP buffers.
    """
    size = settings.batch_size
    share, shares = _data_share(settings, job)
    own = range(share, len(data), shares)
    batches = [list(own[start : start + size]) for start in range(0, len(own), size)]
    most = math.ceil(math.ceil(len(data) / shares) / size)
    padded = batches + [[0]] * (most - len(batches))
    return ValidationData(_loader(torch, data, settings, {"batch_sampler": padded}), len(batches))


def _data_share(settings: Settings, job: Job) -> tuple[int, int]:
    """Return which share of the data a rank reads, and of how many; tensor-parallel ranks all read the same."""
    return (0, 1) if settings.parallel == "tp" else (job.rank, job.world_size)


def pins_memory(torch: Any, settings: Settings) -> bool:  # noqa: ANN401
    """Return whether batches go into pinned memory, which needs a GPU."""
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
