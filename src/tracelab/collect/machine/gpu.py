"""The state of one GPU, and which GPUs a process sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

MHZ = 1_000_000
MIB = 1 << 20

THROTTLE_REASONS = (
    (0x001, "gpu_idle"),
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)
"""NVML's throttle bits with nvidia-smi's names."""


@dataclass(frozen=True)
class Gpu:
    """One GPU at one moment; unknown values are None."""

    device: int
    """Ordinal in a process with this environment."""
    source: str
    """nvml, nvidia-smi, amdgpu or torch."""
    uuid: str | None = None
    bus_id: str | None = None
    name: str | None = None
    driver: str | None = None
    compute_capability: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    util_ratio: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    """Energy since the driver was loaded, which Volta and newer GPUs count."""
    power_limit_w: float | None = None
    sm_clock_hz: int | None = None
    sm_clock_max_hz: int | None = None
    sm_clock_set_hz: int | None = None
    """The application clock; the GPU keeps it within its power and temperature limits."""
    memory_clock_hz: int | None = None
    memory_clock_max_hz: int | None = None
    temperature_c: float | None = None
    throttle_reasons: str | None = None
    """What limits the clock, in nvidia-smi's names; 'none' for nothing, None for unknown."""


def throttle_reasons(bits: int | None) -> str | None:
    """Return the names of NVML's throttle bits; a bit without a name stays a number."""
    if bits is None:
        return None
    words = [word for bit, word in THROTTLE_REASONS if bits & bit]
    if rest := bits & ~sum(bit for bit, _ in THROTTLE_REASONS):
        words.append(hex(rest))
    return ", ".join(words) or "none"


def visible_device_entries(environment: Mapping[str, str]) -> list[str] | None:
    """Return the entries of CUDA_VISIBLE_DEVICES, or None if unset. CUDA stops at the first invalid entry."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    entries = []
    for entry in text.split(","):
        name = entry.strip()
        if not (name.isdecimal() or name.startswith(("GPU-", "MIG-"))):
            break
        entries.append(name)
    return entries


def visible_gpus(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs a process sees, numbered as it sees them; `gpus` is in PCI bus order.

    CUDA puts the fastest GPU first unless CUDA_DEVICE_ORDER=PCI_BUS_ID; with identical GPUs the orders are the same.
    """
    entries = visible_device_entries(environment)
    if entries is None:
        return [replace(gpu, device=ordinal) for ordinal, gpu in enumerate(gpus)]
    visible: list[Gpu] = []
    for entry in entries:
        gpu = _find_gpu(entry, gpus)
        if gpu is None and not entry.startswith("MIG-"):
            break
        visible.append(replace(gpu or Gpu(0, gpus[0].source if gpus else "", uuid=entry), device=len(visible)))
    return visible


def _find_gpu(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU of one entry: by number, or by a unique prefix of its UUID."""
    if entry.isdecimal():
        return gpus[int(entry)] if int(entry) < len(gpus) else None
    matches = [gpu for gpu in gpus if (gpu.uuid or "").startswith(entry)]
    return matches[0] if len(matches) == 1 else None
