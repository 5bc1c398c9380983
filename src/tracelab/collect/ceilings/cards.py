"""Match torch's GPUs to the cards that NVML or nvidia-smi list, and place this process beside a card."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tracelab.collect.machine import Gpu

_DEVICES = Path("/sys/bus/pci/devices")


def match_card(properties: Any, ordinal: int, listed: Sequence[Gpu]) -> Gpu | None:  # noqa: ANN401  of torch
    """Return the listed card of a torch device: by UUID, else by PCI bus id, else by ordinal if torch reports neither.

    CUDA numbers the fastest card first and NVML by bus, so ordinals differ on nodes with different cards.
    """
    uuid = torch_uuid(properties)
    if uuid is not None:
        found = [gpu for gpu in listed if gpu.uuid and _bare(gpu.uuid) == _bare(uuid)]
        if found:
            return found[0]
    bus_id = torch_bus_id(properties)
    if bus_id is not None:
        found = [gpu for gpu in listed if gpu.bus_id and _short_bus_id(gpu.bus_id) == bus_id]
        return found[0] if found else None
    if uuid is not None:
        return None
    return next((gpu for gpu in listed if gpu.device == ordinal), None)


def torch_uuid(properties: Any) -> str | None:  # noqa: ANN401
    """Return the UUID of a torch device as nvidia-smi writes it; None where torch has none."""
    uuid = getattr(properties, "uuid", None)
    if uuid is None:
        return None
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def torch_bus_id(properties: Any) -> str | None:  # noqa: ANN401
    """Return the PCI bus id of a torch device, as 0000:1b:00; None where torch has none."""
    parts = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    numbers = [part for part in parts if isinstance(part, int)]
    return "{:04x}:{:02x}:{:02x}".format(*numbers) if len(numbers) == len(parts) else None


@contextlib.contextmanager
def run_beside(bus_id: str | None, devices: Path = _DEVICES) -> Iterator[str]:
    """Run this process on the processors that are nearest to a card; yields their NUMA node as text, or ""."""
    if bus_id is None or not hasattr(os, "sched_setaffinity"):
        yield ""
        return
    folder = devices / f"{bus_id}.0"
    near = _read_processors(folder / "local_cpulist")
    before = os.sched_getaffinity(0)
    node = _read_text(folder / "numa_node")
    if not near & before:
        yield ""
        return
    os.sched_setaffinity(0, near & before)
    try:
        yield f"processors of NUMA node {node}" if node.isdecimal() else ""
    finally:
        os.sched_setaffinity(0, before)


def _read_processors(path: Path) -> set[int]:
    """Parse a list of processors, as 0-3,8."""
    processors: set[int] = set()
    with contextlib.suppress(ValueError):
        for part in filter(None, _read_text(path).split(",")):
            first, _, last = part.partition("-")
            processors |= set(range(int(first), int(last or first) + 1))
    return processors


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").lower()


def _short_bus_id(text: str) -> str:
    """Return domain, bus and device of an id as NVML writes it: 00000000:1B:00.0."""
    domain, bus, device = text.lower().rpartition(".")[0].split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"
