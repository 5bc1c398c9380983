"""What a node has and how it is doing: its GPUs by NVML or nvidia-smi, its memory and processor by psutil or /proc."""

from tracelab.collect.machine.card import Card
from tracelab.collect.machine.host import Host, host
from tracelab.collect.machine.probe import Probe, cards, probe
from tracelab.collect.machine.sampler import Sampler

__all__ = ["Card", "Host", "Probe", "Sampler", "cards", "host", "probe"]
