"""Read this process's rank and job from the environment of torchrun or srun."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import UsageError

_INTERACTIVE_STEP = 0xFFFFFFFA
"""SLURM's step number of an interactive shell; larger numbers are its other special steps."""
_PORTS = 20_000, 10_000


@dataclass(frozen=True)
class Job:
    """The processes that train together, and this one's rank among them."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    launcher: str | None = None
    """torchrun or srun; None if tracelab starts the ranks."""
    token: str = ""
    """The same text in every rank of one launch; under torchrun on several nodes it may repeat in the next launch."""
    rendezvous_env: tuple[tuple[str, str], ...] = ()
    """Variables that torch's env:// rendezvous needs and the environment lacks."""

    @property
    def host_index(self) -> int:
        """Index of this node; every node has the same number of ranks."""
        return self.rank // self.local_world_size


def read_launcher_env(environment: Mapping[str, str]) -> Job | None:
    """Return the job that torchrun or srun started this process in, or None."""
    if "TORCHELASTIC_RUN_ID" in environment:
        return _of_torchrun(environment)
    step = environment.get("SLURM_STEP_ID", "")
    if step.isdecimal() and int(step) < _INTERACTIVE_STEP and int(environment.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        return _of_srun(environment)
    return None


def _of_torchrun(environment: Mapping[str, str]) -> Job:
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    known = [environment.get(name, "") for name in names]
    if environment.get("LOCAL_WORLD_SIZE") == environment.get("WORLD_SIZE"):
        # Two launches on the same port differ only in the folder that torchrun creates on each node for its errors.
        known.append(str(Path(environment.get("TORCHELASTIC_ERROR_FILE", "")).parent.parent))
    return Job(
        rank=_number(environment, "RANK"),
        local_rank=_number(environment, "LOCAL_RANK"),
        world_size=_number(environment, "WORLD_SIZE"),
        local_world_size=_number(environment, "LOCAL_WORLD_SIZE"),
        launcher="torchrun",
        token=_token(*known),
    )


def _of_srun(environment: Mapping[str, str]) -> Job:
    job, step = environment.get("SLURM_JOB_ID", "0"), environment["SLURM_STEP_ID"]
    world_size = _number(environment, "SLURM_STEP_NUM_TASKS")
    nodes = int(environment.get("SLURM_STEP_NUM_NODES", "1"))
    if world_size % nodes:
        raise UsageError(
            f"srun started {world_size} tasks on {nodes} nodes; use the same number per node (--ntasks-per-node)"
        )
    first, span = _PORTS
    port = first + (int(re.sub(r"\D", "", job) or 0) * 7 + int(step)) % span
    known = {"MASTER_ADDR": first_host(environment.get("SLURM_STEP_NODELIST", "")), "MASTER_PORT": str(port)}
    return Job(
        rank=_number(environment, "SLURM_PROCID"),
        local_rank=_number(environment, "SLURM_LOCALID"),
        world_size=world_size,
        local_world_size=world_size // nodes,
        launcher="srun",
        token=_token(job, step, environment.get("SLURM_RESTART_COUNT", "")),
        rendezvous_env=tuple((name, value) for name, value in known.items() if name not in environment),
    )


def first_host(nodes: str) -> str:
    """Return the first host of a SLURM node list: gpu003 for gpu[003-007,9],cpu1."""
    name = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\]([^,]*))?", nodes)
    if name is None:
        raise UsageError("srun set no node list (SLURM_STEP_NODELIST); set MASTER_ADDR to the first node")
    return "".join(part or "" for part in name.groups())


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError) as error:
        raise UsageError(f"{name} is not set to a number; start with torchrun or srun") from error


def _token(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
