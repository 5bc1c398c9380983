"""GPU states from `nvidia-smi --query-gpu`, for nodes without nvidia-ml-py."""

import contextlib
import csv
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from tracelab.collect.machine.gpu import MHZ, MIB, Gpu, throttle_reasons, visible_gpus

_PATHS = ("/usr/local/nvidia/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi")
"""Locations in containers and WSL that may be missing from PATH."""
_TIMEOUT_S = 20  # the first call after boot may have to wake every card
_NOT_A_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


def _integer(times: int) -> Callable[[str], int | None]:
    def integer(text: str) -> int | None:
        number = _number(text)
        return None if number is None else int(number * times)

    return integer


def _float(text: str) -> float | None:
    number = _number(text)
    return None if number is None else float(number)


def _ratio(text: str) -> float | None:
    number = _number(text)
    return None if number is None else float(number / 100)


def _word(text: str) -> str | None:
    return None if not text or text.startswith("[") or text == "N/A" else text


def _reasons(text: str) -> str | None:
    with contextlib.suppress(ValueError):
        return throttle_reasons(int(text, 16))
    return None


def _number(text: str) -> Decimal | None:
    """Parse a number; nvidia-smi writes [N/A], [Not Supported], [Unknown Error] or ERR! for none."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


FIELDS: Mapping[str, tuple[str, Callable[[str], str | int | float | None]]] = {
    "uuid": ("uuid", _word),
    "pci.bus_id": ("bus_id", _word),
    "name": ("name", _word),
    "driver_version": ("driver", _word),
    "compute_cap": ("compute_capability", _word),
    "memory.total": ("total_bytes", _integer(MIB)),
    "memory.used": ("used_bytes", _integer(MIB)),
    "utilization.gpu": ("util_ratio", _ratio),
    "power.draw": ("power_w", _float),
    "enforced.power.limit": ("power_limit_w", _float),
    "clocks.sm": ("sm_clock_hz", _integer(MHZ)),
    "clocks.max.sm": ("sm_clock_max_hz", _integer(MHZ)),
    "clocks.applications.graphics": ("sm_clock_set_hz", _integer(MHZ)),
    "clocks.mem": ("memory_clock_hz", _integer(MHZ)),
    "clocks.max.mem": ("memory_clock_max_hz", _integer(MHZ)),
    "temperature.gpu": ("temperature_c", _float),
    "clocks_event_reasons.active": ("throttle_reasons", _reasons),
    "clocks_throttle_reasons.active": ("throttle_reasons", _reasons),
}
"""The Gpu field and the parser of each nvidia-smi field. The last two are one, renamed with driver 535."""


class NvidiaSmi:
    """nvidia-smi, started for each reading."""

    source = "nvidia-smi"
    least_interval_s = 1.0  # a reading costs a process and tens of milliseconds of a core

    def __init__(self, executable: str, environment: Mapping[str, str]) -> None:
        self._executable = executable
        self._environment = environment
        self._fields = list(FIELDS)

    def cards(self) -> list[Gpu]:
        """Return the current state of every visible GPU; none if nvidia-smi fails."""
        return visible_gpus(self._read_all(), self._environment)

    def close(self) -> None:
        """Do nothing: no process stays open."""

    def _read_all(self) -> list[Gpu]:
        """Return all GPUs in bus order; drops a field that this nvidia-smi does not know from later queries."""
        while self._fields:
            result = self._run()
            if result is None:
                return []
            if unknown := _NOT_A_FIELD.search(result.stdout + result.stderr):
                if unknown[1] not in self._fields:
                    return []
                self._fields.remove(unknown[1])
                continue
            if result.returncode:  # "couldn't communicate with the NVIDIA driver"
                return []
            rows = csv.reader(result.stdout.splitlines(), skipinitialspace=True)
            return [self._parse_row(number, row) for number, row in enumerate(rows) if len(row) == len(self._fields)]
        return []

    def _run(self) -> subprocess.CompletedProcess[str] | None:
        fields = f"--query-gpu={','.join(self._fields)}"
        try:
            return subprocess.run(
                [self._executable, fields, "--format=csv,noheader,nounits"],
                check=False,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                env={**self._environment, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None

    def _parse_row(self, number: int, row: list[str]) -> Gpu:
        values: dict[str, str | int | float] = {}
        for field, cell in zip(self._fields, row, strict=True):
            name, read = FIELDS[field]
            value = read(cell.strip())
            if value is not None:
                values[name] = value
        return Gpu(number, self.source, **values)  # type: ignore[arg-type]  # FIELDS pairs each name with its type


def open_nvidia_smi(environment: Mapping[str, str]) -> NvidiaSmi | None:
    """Find nvidia-smi; returns None if it is missing or sees no GPU."""
    installed = (path for path in _PATHS if os.access(path, os.X_OK))
    executable = shutil.which("nvidia-smi", path=environment.get("PATH")) or next(installed, None)
    if executable is None:
        return None
    smi = NvidiaSmi(executable, environment)
    return smi if smi.cards() else None
