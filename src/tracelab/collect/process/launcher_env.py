"""Which rank of which job a process is: told by torchrun or srun, else it starts the ranks of this node itself."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import UsageError

_INTERACTIVE_STEP = 0xFFFFFFFA
"""SLURM's number for the step of an interactive shell, and numbers above it for its other special steps."""
_PORTS = 20_000, 10_000


@dataclass(frozen=True)
class Job:
    """The processes that train together, and this one's place among them."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    launcher: str | None = None
    """torchrun or srun; None where tracelab starts the ranks."""
    token: str = ""
    """The same text in every rank of one launch; of several nodes under torchrun, maybe in the next launch, too."""
    meeting: tuple[tuple[str, str], ...] = ()
    """What torch's env:// wants to know and the environment does not say."""

    @property
    def host_index(self) -> int:
        """Number of this node, where all nodes have as many ranks."""
        return self.rank // self.local_world_size


def read_launcher_env(environment: Mapping[str, str]) -> Job | None:
    """The job that torchrun or srun put this process into; None where neither did."""
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
        # Two launches by the same port look alike, but for the folder that torchrun makes on each node for its errors.
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
        raise UsageError(f"srun gave {world_size} tasks to {nodes} nodes; ask for as many on each (--ntasks-per-node)")
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
        meeting=tuple((name, value) for name, value in known.items() if name not in environment),
    )


def first_host(nodes: str) -> str:
    """The first name of SLURM's list of nodes: gpu[003-007,9],cpu1 begins with gpu003."""
    name = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\]([^,]*))?", nodes)
    if name is None:
        raise UsageError("srun did not say on which nodes the job runs (SLURM_STEP_NODELIST); set MASTER_ADDR")
    return "".join(part or "" for part in name.groups())


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError) as error:
        raise UsageError(f"the launcher did not set {name} to a number; start with torchrun or srun") from error


def _token(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
