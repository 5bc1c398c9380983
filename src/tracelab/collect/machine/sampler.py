"""Sample GPUs and host in a thread, and append the samples to a file."""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tracelab.collect.machine.gpu import Gpu
from tracelab.collect.machine.gpu_source import GpuSource, open_gpu_source
from tracelab.collect.machine.host import Host, read_host, tree_times, util_ratio

HEADER = "host_samples/1"
_RECENT_SAMPLES = 10_000
_LEAST_ENERGY_S = 0.09
"""Least time between two readings of the energy counter that count: it advances some ten times a second."""


@dataclass(frozen=True)
class _Energy:
    """A reading of the energy counter, and the mean power until it."""

    at_s: float
    energy_j: float
    power_w: float | None


class Sampler:
    """Samples the machine every `interval_s` during its `with` block and writes rows of `host_samples`.

    The folder's name is the run's. `first_device` is the node's number of this process's first GPU; of several samplers
    of a node one writes the host, too. A file error (a full disk) ends the sampling, never the run, and is kept in
    `error`.
    """

    def __init__(
        self,
        path: Path,
        interval_s: float = 1.0,
        *,
        pid: int | None = None,
        environment: Mapping[str, str] | None = None,
        first_device: int = 0,
        with_host: bool = True,
    ) -> None:
        self.path = path
        self._first_device = first_device
        self._with_host = with_host
        self._energies: dict[int, _Energy] = {}
        self.interval_s = interval_s
        self.error: str | None = None
        self.samples = 0
        self.used_peaks: dict[int, int] = {}
        """Peak used memory over the samples, by device."""
        self._recent: deque[tuple[float, Gpu]] = deque(maxlen=_RECENT_SAMPLES)
        self._pid = os.getpid() if pid is None else pid
        self._environment = environment
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracelab-sampler", daemon=True)

    def __enter__(self) -> "Sampler":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def recent(self, since: float, device: int = 0) -> list[Gpu]:
        """Return the recent samples of a GPU since a moment of `time.monotonic`."""
        return [gpu for when, gpu in list(self._recent) if when >= since and gpu.device == device]

    def start(self) -> None:
        """Start sampling, with a first sample immediately."""
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and close the file; idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        source = open_gpu_source(self._environment)
        try:
            with self.path.open("w", encoding="utf-8") as file:
                self._sample_until_stopped(source, file)
        except OSError as error:
            self.error = f"{self.path.name}: {error.strerror or error}"
        finally:
            if source is not None:
                source.close()

    def _sample_until_stopped(self, source: GpuSource | None, file: IO[str]) -> None:
        interval_s = max(self.interval_s, source.least_interval_s if source else 0.0)
        before = read_host(self._pid)
        _append(file, _header(self.path, before.name, interval_s, source))
        due = time.monotonic()
        last = False
        while not last:
            last = self._stop.wait(max(due - time.monotonic(), 0))
            now = read_host(self._pid)
            self._write(file, source.cards() if source else [], before, now)
            before = now
            due = max(due + interval_s, time.monotonic())  # after a slow sample, skip ahead instead of catching up

    def _write(self, file: IO[str], gpus: list[Gpu], before: Host, now: Host) -> None:
        time_ns = time.time_ns()
        for each in gpus:
            gpu = self._measure_power(replace(each, device=each.device + self._first_device))
            self._recent.append((time.monotonic(), gpu))
            if gpu.used_bytes is not None:
                self.used_peaks[gpu.device] = max(gpu.used_bytes, self.used_peaks.get(gpu.device, 0))
            _append(file, _gpu_row(gpu, now.name, time_ns))
        if self._with_host:
            _append(file, _host_row(before, now, time_ns))
        self.samples += 1

    def _measure_power(self, gpu: Gpu) -> Gpu:
        """Return the GPU with its mean power since the last sample: the driver's figure averages an unknown time."""
        if gpu.energy_j is None:
            return gpu
        now_s = time.monotonic()
        before = self._energies.get(gpu.device)
        if before is None or gpu.energy_j < before.energy_j:  # the first sample, or the driver was loaded again
            before = self._energies[gpu.device] = _Energy(now_s, gpu.energy_j, gpu.power_w)
        if now_s - before.at_s >= _LEAST_ENERGY_S and gpu.energy_j > before.energy_j:
            power_w = (gpu.energy_j - before.energy_j) / (now_s - before.at_s)
            before = self._energies[gpu.device] = _Energy(now_s, gpu.energy_j, power_w)
        return replace(gpu, power_w=before.power_w)


def _header(path: Path, name: str, interval_s: float, source: GpuSource | None) -> dict[str, Any]:
    return {
        "tracelab": HEADER,
        "run": path.absolute().parent.name,
        "host": name,
        "interval_s": interval_s,
        "cards_by": source.source if source else None,
    }


def _gpu_row(gpu: Gpu, name: str, time_ns: int) -> dict[str, Any]:
    return {
        "host": name,
        "device": gpu.device,
        "time_ns": time_ns,
        "used_bytes": gpu.used_bytes,
        "total_bytes": gpu.total_bytes,
        "util_ratio": gpu.util_ratio,
        "power_w": gpu.power_w,
        "sm_clock_hz": gpu.sm_clock_hz,
        "memory_clock_hz": gpu.memory_clock_hz,
        "temperature_c": gpu.temperature_c,
        "throttle_reasons": gpu.throttle_reasons,
        "rss_bytes": None,
        "uuid": gpu.uuid,
        "energy_j": gpu.energy_j,
        "cores": None,
        "own_cpu_ns": None,
        "own_wait_ns": None,
    }


def _host_row(before: Host, now: Host, time_ns: int) -> dict[str, Any]:
    own = tree_times(before, now)
    return {
        "host": now.name,
        "device": None,
        "time_ns": time_ns,
        "used_bytes": now.used_bytes,
        "total_bytes": now.total_bytes,
        "util_ratio": util_ratio(before, now),
        "power_w": None,
        "sm_clock_hz": None,
        "memory_clock_hz": None,
        "temperature_c": None,
        "throttle_reasons": None,
        "rss_bytes": now.rss_bytes,
        "uuid": None,
        "energy_j": None,
        "cores": now.cores,
        "own_cpu_ns": own.cpu_ns if own else None,
        "own_wait_ns": own.wait_ns if own else None,
    }


def _append(file: IO[str], row: dict[str, Any]) -> None:
    """Append a line and flush it: the last samples before a crash are the ones that explain it."""
    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    file.flush()
