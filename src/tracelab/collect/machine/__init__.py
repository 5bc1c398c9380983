"""The state of this node: GPUs from NVML, nvidia-smi or AMD's driver, memory and CPU from psutil or /proc."""

from tracelab.collect.machine.environment import recorded_environment
from tracelab.collect.machine.gpu import Gpu
from tracelab.collect.machine.gpu_source import GpuSource, count_torch_gpus, has_amd_gpus, list_gpus, open_gpu_source
from tracelab.collect.machine.host import Host, read_host
from tracelab.collect.machine.sampler import Sampler

__all__ = [
    "Gpu",
    "GpuSource",
    "Host",
    "Sampler",
    "count_torch_gpus",
    "has_amd_gpus",
    "list_gpus",
    "open_gpu_source",
    "read_host",
    "recorded_environment",
]
