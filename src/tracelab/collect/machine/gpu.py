"""One GPU as whatever knows it describes it, and which GPUs a process sees."""

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
"""NVML's bits, in nvidia-smi's words."""


@dataclass(frozen=True)
class Gpu:
    """One GPU at one moment; what could not be learned is None."""

    device: int
    """Ordinal as a process with this environment sees it."""
    said_by: str
    """nvml, nvidia-smi or torch."""
    uuid: str | None = None
    bus_id: str | None = None
    name: str | None = None
    driver: str | None = None
    compute_capability: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    util_ratio: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_hz: int | None = None
    sm_clock_max_hz: int | None = None
    sm_clock_set_hz: int | None = None
    """The clock that is set for applications; the card keeps to it where power and temperature let it."""
    memory_clock_hz: int | None = None
    memory_clock_max_hz: int | None = None
    temperature_c: float | None = None
    throttle_reasons: str | None = None
    """What holds the clock back, in nvidia-smi's words; 'none' where nothing does, None where unknown."""


def throttle_reasons(bits: int | None) -> str | None:
    """NVML's bits as words; a bit that has no word yet stays a number."""
    if bits is None:
        return None
    words = [word for bit, word in THROTTLE_REASONS if bits & bit]
    if rest := bits & ~sum(bit for bit, _ in THROTTLE_REASONS):
        words.append(hex(rest))
    return ", ".join(words) or "none"


def visible_device_entries(environment: Mapping[str, str]) -> list[str] | None:
    """The entries of CUDA_VISIBLE_DEVICES, or None where it is not set. CUDA stops at the first that is no device."""
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


def visible_gpus(found: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """The cards that a process sees, numbered as it sees them; `found` stands in the order of the PCI bus.

    CUDA orders the fastest card first unless CUDA_DEVICE_ORDER=PCI_BUS_ID; on a node of equal cards that is the same.
    """
    entries = visible_device_entries(environment)
    if entries is None:
        return [replace(card, device=ordinal) for ordinal, card in enumerate(found)]
    seen: list[Gpu] = []
    for entry in entries:
        card = _card(entry, found)
        if card is None and not entry.startswith("MIG-"):
            break
        seen.append(replace(card or Gpu(0, found[0].said_by if found else "", uuid=entry), device=len(seen)))
    return seen


def _card(entry: str, found: Sequence[Gpu]) -> Gpu | None:
    """The card of one entry: by number, or by a beginning of its UUID that no other card has."""
    if entry.isdecimal():
        return found[int(entry)] if int(entry) < len(found) else None
    named = [card for card in found if (card.uuid or "").startswith(entry)]
    return named[0] if len(named) == 1 else None
