"""The best source of facts about the GPUs of this node: NVML, else nvidia-smi, else a torch that is already there."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from tracelab.collect.machine.gpu import Gpu
from tracelab.collect.machine.nvidia_smi import open_nvidia_smi
from tracelab.collect.machine.nvml import open_nvml


class GpuSource(Protocol):
    """Looks at the cards again and again."""

    said_by: str
    least_interval_s: float

    def cards(self) -> list[Gpu]:
        """Every visible card as it is now."""
        ...

    def close(self) -> None:
        """Let the source go."""
        ...


def open_gpu_source(environment: Mapping[str, str] | None = None) -> GpuSource | None:
    """NVML, else nvidia-smi, else None: neither makes a CUDA context, so any process may look."""
    environment = os.environ if environment is None else environment
    return open_nvml(environment) or open_nvidia_smi(environment)


def list_gpus(environment: Mapping[str, str] | None = None) -> list[Gpu]:
    """The GPUs that a process with this environment sees, in its order; none where there are none.

    Where neither NVML nor nvidia-smi answers, torch is asked, if this process has imported it.
    """
    source = open_gpu_source(environment)
    if source is None:
        return _of_torch(sys.modules.get("torch"))
    try:
        return source.cards()
    finally:
        source.close()


def _of_torch(torch: Any) -> list[Gpu]:  # noqa: ANN401  probed, never imported
    """What torch knows of the cards: no clocks, no power, no temperature."""
    if torch is None or not torch.cuda.is_available():
        return []
    found = []
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        uuid = getattr(properties, "uuid", None)
        found.append(
            Gpu(
                device,
                "torch",
                uuid=None if uuid is None else f"GPU-{str(uuid).removeprefix('GPU-')}",
                name=properties.name,
                compute_capability=f"{properties.major}.{properties.minor}",
                total_bytes=int(properties.total_memory),
            )
        )
    return found
