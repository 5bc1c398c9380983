"""Cards by `nvidia-smi --query-gpu`, where there is no nvidia-ml-py."""

import contextlib
import csv
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from tracelab.collect.machine.gpu import MHZ, MIB, Gpu, throttle_reasons, visible_gpus

_PLACES = ("/usr/local/nvidia/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi")
"""Where containers and WSL have it, also where their path does not say so."""
_TIMEOUT_S = 20  # the first call after boot may have to wake every card
_NOT_A_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


def _whole(times: int) -> Callable[[str], int | None]:
    def whole(text: str) -> int | None:
        number = _number(text)
        return None if number is None else int(number * times)

    return whole


def _real(text: str) -> float | None:
    number = _number(text)
    return None if number is None else float(number)


def _ratio(text: str) -> float | None:
    number = _number(text)
    return None if number is None else float(number / 100)


def _words(text: str) -> str | None:
    return None if not text or text.startswith("[") or text == "N/A" else text


def _reasons(text: str) -> str | None:
    with contextlib.suppress(ValueError):
        return throttle_reasons(int(text, 16))
    return None


def _number(text: str) -> Decimal | None:
    """A number; nvidia-smi writes [N/A], [Not Supported], [Unknown Error] or ERR! where it has none."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


FIELDS: Mapping[str, tuple[str, Callable[[str], str | int | float | None]]] = {
    "uuid": ("uuid", _words),
    "pci.bus_id": ("bus_id", _words),
    "name": ("name", _words),
    "driver_version": ("driver", _words),
    "compute_cap": ("compute_capability", _words),
    "memory.total": ("total_bytes", _whole(MIB)),
    "memory.used": ("used_bytes", _whole(MIB)),
    "utilization.gpu": ("util_ratio", _ratio),
    "power.draw": ("power_w", _real),
    "enforced.power.limit": ("power_limit_w", _real),
    "clocks.sm": ("sm_clock_hz", _whole(MHZ)),
    "clocks.max.sm": ("sm_clock_max_hz", _whole(MHZ)),
    "clocks.applications.graphics": ("sm_clock_set_hz", _whole(MHZ)),
    "clocks.mem": ("memory_clock_hz", _whole(MHZ)),
    "clocks.max.mem": ("memory_clock_max_hz", _whole(MHZ)),
    "temperature.gpu": ("temperature_c", _real),
    "clocks_event_reasons.active": ("throttle_reasons", _reasons),
    "clocks_throttle_reasons.active": ("throttle_reasons", _reasons),
}
"""By nvidia-smi's field: what it is in a Card, and how it is read. The last two are one, renamed with driver 535."""


class NvidiaSmi:
    """nvidia-smi, started for each look at the cards."""

    said_by = "nvidia-smi"
    least_interval_s = 1.0  # a look costs a process and tens of milliseconds of a core

    def __init__(self, executable: str, environment: Mapping[str, str]) -> None:
        self._executable = executable
        self._environment = environment
        self._fields = list(FIELDS)

    def cards(self) -> list[Gpu]:
        """Every visible card as it is now; none where nvidia-smi fails."""
        return visible_gpus(self._found(), self._environment)

    def close(self) -> None:
        """Nothing stays open."""

    def _found(self) -> list[Gpu]:
        """All cards in the order of the bus. A field that this nvidia-smi does not know is never asked for again."""
        while self._fields:
            answer = self._answer()
            if answer is None:
                return []
            if unknown := _NOT_A_FIELD.search(answer.stdout + answer.stderr):
                if unknown[1] not in self._fields:
                    return []
                self._fields.remove(unknown[1])
                continue
            if answer.returncode:  # "couldn't communicate with the NVIDIA driver"
                return []
            rows = csv.reader(answer.stdout.splitlines(), skipinitialspace=True)
            return [self._card(number, row) for number, row in enumerate(rows) if len(row) == len(self._fields)]
        return []

    def _answer(self) -> subprocess.CompletedProcess[str] | None:
        question = f"--query-gpu={','.join(self._fields)}"
        try:
            return subprocess.run(
                [self._executable, question, "--format=csv,noheader,nounits"],
                check=False,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                env={**self._environment, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None

    def _card(self, number: int, row: list[str]) -> Gpu:
        said: dict[str, str | int | float] = {}
        for field, cell in zip(self._fields, row, strict=True):
            name, read = FIELDS[field]
            value = read(cell.strip())
            if value is not None:
                said[name] = value
        return Gpu(number, self.said_by, **said)  # type: ignore[arg-type]  # FIELDS pairs each name with its type


def open_nvidia_smi(environment: Mapping[str, str]) -> NvidiaSmi | None:
    """nvidia-smi, where it is found and sees a card."""
    there = (place for place in _PLACES if os.access(place, os.X_OK))
    executable = shutil.which("nvidia-smi", path=environment.get("PATH")) or next(there, None)
    if executable is None:
        return None
    smi = NvidiaSmi(executable, environment)
    return smi if smi.cards() else None
