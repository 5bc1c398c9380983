"""GPU states of AMD cards from the files of the kernel's driver amdgpu, on nodes where ROCm can use them."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tracelab.collect.machine.gpu import Gpu, visible_gpus

CARDS = Path("/sys/class/drm")
KFD = Path("/dev/kfd")
"""File of the driver's part for computing; a card without it only draws."""
_DRIVER_VERSION = Path("/sys/module/amdgpu/version")
_VENDOR = "0x1002"
_CARD = re.compile(r"card\d+")
_VISIBLE = ("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""Variables that ROCm's runtime applies, and then HIP to what is left: the first that is set."""


class Amdgpu:
    """The cards of AMD on this node."""

    source = "amdgpu"
    least_interval_s = 0.02

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = environment
        self._folders = _card_folders(folder)

    def cards(self) -> list[Gpu]:
        """Return the current state of every visible GPU."""
        gpus = [_read_card(number, folder) for number, folder in enumerate(self._folders)]
        for names in _VISIBLE:
            entries = next((self._environment[name] for name in names if name in self._environment), None)
            if entries is not None:
                gpus = visible_gpus(gpus, {"CUDA_VISIBLE_DEVICES": entries})
        return [replace(gpu, device=ordinal) for ordinal, gpu in enumerate(gpus)]

    def close(self) -> None:
        """Do nothing: no file stays open."""


def open_amdgpu(environment: Mapping[str, str], folder: Path = CARDS, kfd: Path = KFD) -> Amdgpu | None:
    """Open the driver's files; None on a node without a card of AMD that computes."""
    return Amdgpu(environment, folder) if kfd.exists() and _card_folders(folder) else None


def _card_folders(folder: Path) -> list[Path]:
    """Return the folders of AMD's cards in order of their PCI addresses, as ROCm numbers them."""
    found = [path / "device" for path in folder.glob("card*") if _CARD.fullmatch(path.name)]
    cards = [path for path in found if _text(path / "vendor") == _VENDOR and (path / "mem_info_vram_total").exists()]
    return sorted(cards, key=_bus_id)


def _read_card(number: int, folder: Path) -> Gpu:
    sensors = next(iter(sorted(folder.glob("hwmon/hwmon*"))), folder)
    unique, busy = _text(folder / "unique_id"), _number(folder / "gpu_busy_percent")
    power = _number(sensors / "power1_average")  # microwatts; newer cards have power1_input in its place
    power = _number(sensors / "power1_input") if power is None else power
    limit, temperature = _number(sensors / "power1_cap"), _number(sensors / "temp1_input")
    return Gpu(
        number,
        Amdgpu.source,
        uuid=f"GPU-{unique}" if unique else None,
        bus_id=_bus_id(folder),
        name=_text(folder / "product_name"),
        driver=_text(_DRIVER_VERSION),
        total_bytes=_number(folder / "mem_info_vram_total"),
        used_bytes=_number(folder / "mem_info_vram_used"),
        util_ratio=None if busy is None else busy / 100,
        power_w=None if power is None else power / 1e6,
        power_limit_w=None if limit is None else limit / 1e6,
        sm_clock_hz=_number(sensors / "freq1_input"),
        memory_clock_hz=_number(sensors / "freq2_input"),
        temperature_c=None if temperature is None else temperature / 1000,
    )


def _bus_id(folder: Path) -> str:
    return folder.resolve().name


def _number(path: Path) -> int | None:
    with contextlib.suppress(ValueError):
        return int(_text(path) or "")
    return None


def _text(path: Path) -> str | None:
    """Return the text of a driver's file; None where a card has no such file, or refuses to read it."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None
