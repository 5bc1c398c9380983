"""Run a program and measure wall time, CPU time and memory of all its processes."""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.02
SAMPLES_A_LOOK = 5
"""New processes are looked for at every fifth sample: it costs more than reading the sizes of the known ones."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  looked at, not written to
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """What one run cost.

    `peak_bytes` adds up resident memory over all processes, and what was put into the file system in memory;
    `private_bytes` is the part of the processes that belongs to no file.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    private_bytes: int
    processes: int
    stdout: str

    @property
    def last_line(self) -> str:
        lines = self.stdout.strip().splitlines()
        return lines[-1] if lines else ""


class FailedError(Exception):
    """A program ended with an error, or took too long; the text says which and how."""


def python(*arguments: str) -> list[str]:
    """Return the command that runs this interpreter."""
    return [sys.executable, *arguments]


def cost(command: Sequence[str], *, timeout_s: float = 3_600) -> Cost:
    """Run a command to its end. Raises FailedError."""
    started = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch = _Watch(child.pid)
    texts: dict[str, bytes] = {}
    drains = [
        threading.Thread(target=lambda name=name, pipe=pipe: texts.update({name: pipe.read()}))
        for name, pipe in (("out", child.stdout), ("err", child.stderr))
    ]
    timer = threading.Timer(timeout_s, child.kill)
    for thread in (watch, *drains, timer):
        thread.start()
    # Only wait4 gives the processor time of this one child; it counts the children that the child waited for.
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    timer.cancel()
    watch.stop()
    for drain in drains:
        drain.join()
    for pipe in (child.stdout, child.stderr):
        pipe.close()
    if child.returncode:
        why = texts["err"].decode(errors="replace").strip()[-2_000:] or f"no message (after {wall_s:.0f} s)"
        raise FailedError(f"{Path(command[0]).name} ended with {child.returncode}: {why}")
    return Cost(
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=watch.peak_bytes,
        private_bytes=watch.private_bytes,
        processes=watch.processes,
        stdout=texts["out"].decode(errors="replace"),
    )


def median(values: Sequence[float]) -> float:
    """Return the median as a plain number."""
    return float(statistics.median(values))


class _Watch(threading.Thread):
    """Samples the memory of a process and its descendants until told to stop.

    Linux only; elsewhere there is no /proc and the figures stay 0. The resident sizes are added up, so a page that two
    processes share counts twice: the sum is an upper bound. Between samples the kernel's high-water mark of the first
    process fills the gap. (ru_maxrss would not do: a child inherits the mark of the process that started it.)
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.peak_bytes = self.private_bytes = 0
        self.processes = 1
        self._shared_before = _shared_memory()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        pids, sample = [self._pid], 0
        while not self._over.is_set():
            if sample % SAMPLES_A_LOOK == 0:
                pids = _family(self._pid)
            sizes = [_resident(pid) for pid in pids]
            self.processes = max(self.processes, len(pids))
            # Other programs' files there would count too: an upper bound again.
            shared = max(0, _shared_memory() - self._shared_before)
            together = max(sum(size for size, _ in sizes), _high_water(self._pid) if len(pids) == 1 else 0)
            self.peak_bytes = max(self.peak_bytes, together + shared)
            self.private_bytes = max(self.private_bytes, sum(private for _, private in sizes))
            sample += 1
            self._over.wait(SAMPLE_S)


def _family(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        try:
            tasks = [path.read_text() for path in Path(f"/proc/{parent}/task").glob("*/children")]
        except OSError:  # it has ended meanwhile
            continue
        found += [int(child) for text in tasks for child in text.split()]
    return found


def _resident(pid: int) -> tuple[int, int]:
    """Return the resident bytes of a process, and those of them that belong to no file."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0, 0
    return int(resident) * PAGE_BYTES, (int(resident) - int(shared)) * PAGE_BYTES


def _shared_memory() -> int:
    try:
        status = os.statvfs(SHARED_MEMORY)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _high_water(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    _, found, rest = text.partition("VmHWM:")
    return int(rest.split()[0]) * 1_024 if found else 0
