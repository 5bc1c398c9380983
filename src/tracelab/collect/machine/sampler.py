"""Samples of the cards and of the host, taken by a thread, appended to a file line by line."""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tracelab.collect.machine.gpu import Gpu
from tracelab.collect.machine.gpu_source import GpuSource, open_gpu_source
from tracelab.collect.machine.host import Host, read_host, util_ratio

HEADER = "host_samples/1"
_SEEN = 10_000


class Sampler:
    """Looks at the machine every `interval_s` while its `with` block runs, and writes rows of `host_samples`.

    The folder's name is the run's. A fault of the file (a full disk) ends the sampling, never the run, and stands in
    `error`.
    """

    def __init__(
        self,
        path: Path,
        interval_s: float = 1.0,
        *,
        pid: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.interval_s = interval_s
        self.error: str | None = None
        self.samples = 0
        self.used_peaks: dict[int, int] = {}
        """By device: the most memory that a sample saw in use."""
        self._seen: deque[tuple[float, Gpu]] = deque(maxlen=_SEEN)
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

    def seen(self, since: float, device: int = 0) -> list[Gpu]:
        """How a card was since that moment of `time.monotonic`; not farther back than some minutes."""
        return [card for when, card in list(self._seen) if when >= since and card.device == device]

    def start(self) -> None:
        """Begin: the first sample is taken at once."""
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and close the file; again does nothing."""
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
            due = max(due + interval_s, time.monotonic())  # a look that took long does not make the next ones pile up

    def _write(self, file: IO[str], cards: list[Gpu], before: Host, now: Host) -> None:
        time_ns = time.time_ns()
        for card in cards:
            self._seen.append((time.monotonic(), card))
            if card.used_bytes is not None:
                self.used_peaks[card.device] = max(card.used_bytes, self.used_peaks.get(card.device, 0))
            _append(file, _card_row(card, now.name, time_ns))
        _append(file, _host_row(before, now, time_ns))
        self.samples += 1


def _header(path: Path, name: str, interval_s: float, source: GpuSource | None) -> dict[str, Any]:
    return {
        "tracelab": HEADER,
        "run": path.absolute().parent.name,
        "host": name,
        "interval_s": interval_s,
        "cards_by": source.said_by if source else None,
    }


def _card_row(card: Gpu, name: str, time_ns: int) -> dict[str, Any]:
    return {
        "host": name,
        "device": card.device,
        "time_ns": time_ns,
        "used_bytes": card.used_bytes,
        "total_bytes": card.total_bytes,
        "util_ratio": card.util_ratio,
        "power_w": card.power_w,
        "sm_clock_hz": card.sm_clock_hz,
        "memory_clock_hz": card.memory_clock_hz,
        "temperature_c": card.temperature_c,
        "throttle_reasons": card.throttle_reasons,
        "rss_bytes": None,
    }


def _host_row(before: Host, now: Host, time_ns: int) -> dict[str, Any]:
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
    }


def _append(file: IO[str], row: dict[str, Any]) -> None:
    """A line, on its way to the disk at once: what was seen before a crash is what a crash needs."""
    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    file.flush()
