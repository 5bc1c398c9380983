"""Read the state of this node: name, CPU, memory, and the memory of a process tree."""

import contextlib
import importlib
import os
import platform
import socket
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_KIB = 1024
_PROC = Path("/proc")


@dataclass(frozen=True)
class ThreadTime:
    """How long a thread ran, and how long it could have run and waited for a core, since it began."""

    cpu_ns: int
    wait_ns: int


@dataclass(frozen=True)
class Host:
    """One node at one moment; unknown values are None."""

    name: str
    processor: str | None = None
    cores: int | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    rss_bytes: int | None = None
    """Resident memory of the process tree; shared pages count in each process."""
    busy_s: float | None = None
    """Busy seconds since boot, summed over the cores."""
    idle_s: float | None = None
    """Idle seconds since boot, summed over the cores."""
    threads: Mapping[int, ThreadTime] = field(default_factory=dict)
    """The times of the threads of the process tree, by thread; empty where the system does not count them."""


def read_host(pid: int | None = None) -> Host:
    """Return the current state of this node, with memory and times of a process tree (by default this process's)."""
    tree = _tree(os.getpid() if pid is None else pid)
    total, used, busy, idle = _memory_and_times()
    return Host(
        name=socket.gethostname(),
        processor=_processor(),
        cores=os.cpu_count(),
        total_bytes=total,
        used_bytes=used,
        rss_bytes=_resident_bytes(tree),
        busy_s=busy,
        idle_s=idle,
        threads=_thread_times(tree),
    )


def util_ratio(before: Host, after: Host) -> float | None:
    """Return the busy share of the cores between two readings."""
    if None in (before.busy_s, before.idle_s, after.busy_s, after.idle_s):
        return None
    busy = (after.busy_s or 0) - (before.busy_s or 0)
    spent = busy + (after.idle_s or 0) - (before.idle_s or 0)
    return min(max(busy / spent, 0.0), 1.0) if spent > 0 else None


def tree_times(before: Host, after: Host) -> ThreadTime | None:
    """Return how long the threads of the process tree ran and waited for a core between two readings.

    Threads that ended in between are missing. None where the system does not count these times.
    """
    if not after.threads:
        return None
    spent = [(each, before.threads.get(thread, ThreadTime(0, 0))) for thread, each in after.threads.items()]
    return ThreadTime(
        sum(max(now.cpu_ns - was.cpu_ns, 0) for now, was in spent),
        sum(max(now.wait_ns - was.wait_ns, 0) for now, was in spent),
    )


def _memory_and_times() -> tuple[int | None, int | None, float | None, float | None]:
    psutil = _psutil()
    if psutil is None:
        return *_memory_of_proc(), *_times_of_proc()
    memory, times = psutil.virtual_memory(), psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Guest time is already part of user and nice time.
    busy = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
    return int(memory.total), int(memory.total - memory.available), busy, idle


def _memory_of_proc() -> tuple[int | None, int | None]:
    lines = _text(_PROC / "meminfo").splitlines()
    read = {name: int(rest.split()[0]) * _KIB for name, _, rest in (line.partition(":") for line in lines) if rest}
    total, available = read.get("MemTotal"), read.get("MemAvailable")
    return total, total - available if total is not None and available is not None else None


def _times_of_proc() -> tuple[float | None, float | None]:
    first = _text(_PROC / "stat").partition("\n")[0].split()
    if first[:1] != ["cpu"]:
        return None, None
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(field) / os.sysconf("SC_CLK_TCK") for field in [*first[1:], *"00000000"][:8]
    )
    return user + nice + system + irq + softirq + steal, idle + iowait


def _tree(root: int) -> set[int]:
    """Return the processes of a tree; empty if its root has ended."""
    psutil = _psutil()
    if psutil is None:
        return _tree_of_proc(root)
    try:
        return {root, *(process.pid for process in psutil.Process(root).children(recursive=True))}
    except psutil.NoSuchProcess:
        return set()


def _tree_of_proc(root: int) -> set[int]:
    parents = dict(_parents())
    if root not in parents:
        return set()
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tree


def _resident_bytes(tree: Collection[int]) -> int | None:
    psutil = _psutil()
    if psutil is None:
        pages = (_text(_PROC / str(pid) / "statm").split() for pid in tree)
        return sum(int(fields[1]) for fields in pages if fields) * os.sysconf("SC_PAGE_SIZE") if tree else None
    total = 0
    for pid in tree:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):  # ended in between
            total += psutil.Process(pid).memory_info().rss
    return total or None


def _thread_times(tree: Collection[int]) -> dict[int, ThreadTime]:
    """Return the times of each thread of some processes, which Linux counts in nanoseconds."""
    times = {}
    for pid in tree:
        for path in _PROC.glob(f"{pid}/task/*/schedstat"):
            if fields := _text(path).split():
                times[int(path.parent.name)] = ThreadTime(int(fields[0]), int(fields[1]))
    return times


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process with its parent."""
    for folder in _PROC.glob("[0-9]*"):
        after_name = _text(folder / "stat").rpartition(")")[2].split()  # the name may hold blanks and brackets
        if after_name:
            yield int(folder.name), int(after_name[1])


def _processor() -> str | None:
    for line in _text(_PROC / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip() or None
    return platform.processor() or platform.machine() or None


def _text(path: Path) -> str:
    """Return the text of a file in /proc; "" if it is missing or its process has ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _psutil() -> Any:  # noqa: ANN401  optional, so untyped
    try:
        return importlib.import_module("psutil")
    except ImportError:
        return None
