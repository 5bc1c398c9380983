"""The rank of a process: from its launcher's environment, or from its process group once that exists."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
"""Variables with rank, world size and local rank: of torchrun, Open MPI, MPICH and Intel MPI, srun."""
_INTERACTIVE_STEP = 0xFFFFFFFA


@dataclass(frozen=True)
class Rank:
    """Rank of a process; `known` is False where 0 is assumed, because no launcher or process group names one."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    known: bool = False

    def distributed_info(self) -> dict[str, int] | None:
        """Return rank and world size as Kineto's `distributedInfo`; None for a process that is alone."""
        return {"rank": self.rank, "world_size": self.world_size} if self.known else None


def find_rank(environment: Mapping[str, str] | None = None) -> Rank:
    """Return the rank of this process as far as it is known now."""
    environment = os.environ if environment is None else environment
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and environment is os.environ:
        group_rank = _rank_in_group(distributed)
        if group_rank is not None:
            return group_rank
    for rank, world_size, local_rank in _VARIABLES:
        numbers = [environment.get(name, "") for name in (rank, world_size)]
        if not all(map(str.isdecimal, numbers)) or (rank == "SLURM_PROCID" and not _is_srun_task(environment)):
            continue
        local = environment.get(local_rank, "")
        return Rank(int(numbers[0]), int(numbers[1]), int(local) if local.isdecimal() else 0, known=True)
    return Rank()


def _rank_in_group(distributed: Any) -> Rank | None:  # noqa: ANN401  torch carries no types here
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    local = os.environ.get("LOCAL_RANK", "")
    return Rank(
        distributed.get_rank(), distributed.get_world_size(), int(local) if local.isdecimal() else 0, known=True
    )


def _is_srun_task(environment: Mapping[str, str]) -> bool:
    """Whether srun started it: a batch script and an interactive shell have the variables, too."""
    step = environment.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < _INTERACTIVE_STEP
