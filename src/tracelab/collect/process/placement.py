"""Decide the device, the number of processes, and the ranks that this process starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tracelab.collect.machine import count_torch_gpus, gpu_source, list_gpus
from tracelab.collect.machine.amdgpu import Amdgpu
from tracelab.collect.machine.gpu import visible_device_entries
from tracelab.collect.process.launcher_env import Job, read_launcher_env
from tracelab.collect.settings import Settings, validate_settings
from tracelab.enumerations import MULTI_PROCESS_PARALLELISMS
from tracelab.errors import UsageError


@dataclass(frozen=True)
class Placement:
    """Settings with every automatic choice resolved, and the ranks that this process starts."""

    settings: Settings
    job: Job
    """Job of the first rank that starts here."""
    ranks: tuple[int, ...]
    gpus_visible: int = 0
    """GPUs that this process sees; 0 on a CPU, or where nothing lists them."""

    @property
    def world_size(self) -> int:
        """Number of processes of the whole job."""
        return self.job.world_size

    @property
    def gpus(self) -> int:
        """Number of GPUs of the whole job."""
        if self.settings.device != "cuda":
            return int(self.settings.device == "mps")
        return self.settings.gpus or 1 if self.settings.parallel == "dp" else self.world_size

    def rank_job(self, rank: int) -> Job:
        """Return the job as one rank sees it."""
        return replace(self.job, rank=rank, local_rank=self.job.local_rank + rank - self.ranks[0])


def place_ranks(settings: Settings, environment: Mapping[str, str] | None = None) -> Placement:
    """Resolve automatic settings for this node or launcher; raises UsageError if they cannot be met."""
    environment = os.environ if environment is None else environment
    gpus_visible = _count_gpus(settings, environment)
    device = ("cuda" if gpus_visible else "cpu") if settings.device == "auto" else settings.device
    resolved = validate_settings(replace(settings, device=device))
    job = read_launcher_env(environment)
    if job is not None:
        return replace(_place_launched(resolved, job), gpus_visible=gpus_visible)
    if device == "cuda" and gpus_visible and (resolved.gpus or 1) > gpus_visible:
        raise UsageError(
            f"--gpus {resolved.gpus}: this process sees {gpus_visible} GPUs; check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    if resolved.parallel != "none":
        resolved = replace(resolved, gpus=resolved.gpus or gpus_visible or 1)
    if resolved.parallel == "dp" and resolved.batch_size < (resolved.gpus or 1):
        raise UsageError(
            f"--parallel dp splits a batch over {resolved.gpus} GPUs, and --batch-size {resolved.batch_size} leaves "
            "some without work; raise --batch-size, or lower --gpus"
        )
    world_size = resolved.gpus or 1 if resolved.parallel in MULTI_PROCESS_PARALLELISMS else 1
    job = Job(world_size=world_size, local_world_size=world_size)
    return Placement(resolved, job, tuple(range(world_size)), gpus_visible)


def _count_gpus(settings: Settings, environment: Mapping[str, str]) -> int:
    """Count the visible GPUs; raises UsageError for an automatic device where torch cannot use the node's GPU."""
    if settings.device in ("cpu", "mps"):
        return 0
    listed = list_gpus(environment)
    if listed and listed[0].source != Amdgpu.source:  # torch for the CPU is common beside graphics of AMD
        return len(listed)
    hidden = visible_device_entries(environment) == []
    counted = None if hidden else count_torch_gpus(environment)
    if settings.device == "auto" and counted == 0 and gpu_source.NVIDIA_DRIVER.exists():
        raise UsageError(
            "this node has NVIDIA's driver, but torch sees no GPU; check nvidia-smi and torch.version.cuda, "
            "or choose --device cpu"
        )
    return counted or 0


def _place_launched(settings: Settings, job: Job) -> Placement:
    if settings.parallel in ("none", "dp") and job.world_size > 1:
        raise UsageError(
            f"{job.launcher} started {job.world_size} processes, but --parallel {settings.parallel} runs in one; "
            "use --parallel ddp, fsdp or tp"
        )
    if settings.gpus is not None and settings.parallel != "dp" and settings.gpus != job.local_world_size:
        raise UsageError(
            f"--gpus {settings.gpus}: {job.launcher} started {job.local_world_size} processes per node; "
            "remove the option"
        )
    return Placement(settings, job, (job.rank,))
