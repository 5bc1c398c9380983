"""Open the best available source of GPU states: NVML, nvidia-smi, AMD's driver, else an imported torch."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tracelab.collect.machine.amdgpu import Amdgpu, open_amdgpu
from tracelab.collect.machine.gpu import Gpu
from tracelab.collect.machine.nvidia_smi import open_nvidia_smi
from tracelab.collect.machine.nvml import open_nvml

NVIDIA_DRIVER = Path("/dev/nvidiactl")
"""File of NVIDIA's driver on a node with a GPU."""
OTHER_DRIVERS = tuple(map(Path, ("/dev/dxg", "/dev/kfd", "/dev/nvgpu", "/dev/nvhost-gpu")))
"""Files of WSL's driver, AMD's, and two generations of Jetson's; nodes without a usable GPU may have them, too."""
_COUNT = "import torch\nprint(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
_TIMEOUT_S = 120.0


class GpuSource(Protocol):
    """A source that reads the GPU states repeatedly."""

    source: str
    least_interval_s: float

    def cards(self) -> list[Gpu]:
        """Return the current state of every visible GPU."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


def open_gpu_source(environment: Mapping[str, str] | None = None) -> GpuSource | None:
    """Open NVML, nvidia-smi or AMD's driver, else return None; any process may call this: none creates a context."""
    environment = os.environ if environment is None else environment
    return open_nvml(environment) or open_nvidia_smi(environment) or open_amdgpu(environment)


def list_gpus(environment: Mapping[str, str] | None = None) -> list[Gpu]:
    """Return the GPUs that a process with this environment sees, in its order.

    Without a source of its own, uses torch if this process has imported it.
    """
    source = open_gpu_source(environment)
    if source is None:
        return _of_torch(sys.modules.get("torch"))
    try:
        return source.cards()
    finally:
        source.close()


def has_amd_gpus(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether the GPUs of this node are AMD's, which a torch for ROCm uses by the name of cuda."""
    source = open_gpu_source(environment)
    try:
        return isinstance(source, Amdgpu)
    finally:
        if source is not None:
            source.close()


def count_torch_gpus(environment: Mapping[str, str]) -> int | None:
    """Return the number of GPUs that torch sees, counted by a process of its own; None on a node without a GPU driver.

    For nodes where neither NVML nor nvidia-smi answers: containers without the utility capability, AMD, Jetson, WSL.
    """
    if not any(path.exists() for path in (NVIDIA_DRIVER, *OTHER_DRIVERS)):
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-c", _COUNT], env=dict(environment), capture_output=True, check=False, timeout=_TIMEOUT_S
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):  # ValueError: no torch, or one that fails
        return 0


def _of_torch(torch: Any) -> list[Gpu]:  # noqa: ANN401  probed, never imported
    """Return the GPUs as torch knows them: without clocks, power and temperature."""
    if torch is None or not torch.cuda.is_available():
        return []
    gpus = []
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        uuid = getattr(properties, "uuid", None)
        gpus.append(
            Gpu(
                device,
                "torch",
                uuid=None if uuid is None else f"GPU-{str(uuid).removeprefix('GPU-')}",
                name=properties.name,
                compute_capability=f"{properties.major}.{properties.minor}",
                total_bytes=int(properties.total_memory),
            )
        )
    return gpus
