"""Where a run happens: on GPUs or the processor, in how many processes, as which of them this one starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tracelab.collect.machine import list_gpus
from tracelab.collect.process.launcher_env import Job, read_launcher_env
from tracelab.collect.settings import Settings, validate_settings
from tracelab.errors import UsageError


@dataclass(frozen=True)
class Placement:
    """The settings with nothing left to choose, and the ranks that this process starts."""

    settings: Settings
    job: Job
    """Of the first rank that is started here."""
    ranks: tuple[int, ...]

    @property
    def world_size(self) -> int:
        """Processes of the whole job."""
        return self.job.world_size

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        if self.settings.device != "cuda":
            return 0
        return self.settings.gpus or 1 if self.settings.parallel == "dp" else self.world_size

    def job_of(self, rank: int) -> Job:
        """The place of one rank among all."""
        return replace(self.job, rank=rank, local_rank=self.job.local_rank + rank - self.ranks[0])


def place_ranks(settings: Settings, environment: Mapping[str, str] | None = None) -> Placement:
    """Decide; raises UsageError where what was asked for cannot be."""
    environment = os.environ if environment is None else environment
    there = len(list_gpus(environment)) if settings.device != "cpu" else 0
    device = ("cuda" if there else "cpu") if settings.device == "auto" else settings.device
    decided = validate_settings(replace(settings, device=device))
    job = read_launcher_env(environment)
    if job is not None:
        return _launched(decided, job)
    if device == "cuda" and there and (decided.gpus or 1) > there:
        raise UsageError(f"--gpus {decided.gpus}: this process sees {there}; see nvidia-smi and CUDA_VISIBLE_DEVICES")
    if decided.parallel != "none":
        decided = replace(decided, gpus=decided.gpus or there or 1)
    world_size = decided.gpus or 1 if decided.parallel in ("ddp", "fsdp") else 1
    return Placement(decided, Job(world_size=world_size, local_world_size=world_size), tuple(range(world_size)))


def _launched(settings: Settings, job: Job) -> Placement:
    if settings.parallel in ("none", "dp") and job.world_size > 1:
        raise UsageError(
            f"{job.launcher} started {job.world_size} processes, and --parallel {settings.parallel} is for one; "
            "use ddp or fsdp"
        )
    if settings.gpus is not None and settings.parallel != "dp" and settings.gpus != job.local_world_size:
        raise UsageError(
            f"--gpus {settings.gpus}: {job.launcher} started {job.local_world_size} processes on each node; "
            "leave the option out"
        )
    return Placement(settings, job, (job.rank,))
