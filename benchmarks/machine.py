"""Describe the machine and the package versions of a measurement."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("duckdb", "pyarrow", "isal")


def machine() -> dict[str, str | int | float]:
    """Return what a reader of a figure must know of where it comes from."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "cpu": _cpu(),
        "cores": cores,
        "memory_gb": round(_memory_bytes() / 1e9, 1),
        "load": round(load(), 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def in_words(facts: dict[str, str | int | float]) -> str:
    """Return the machine as one sentence part."""
    packages = ", ".join(f"{name} {facts[name]}" for name in PACKAGES)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB of memory, {facts['system']}; "
        f"Python {facts['python']}, {packages}"
    )


def load() -> float:
    """Return how many programs want a core at this moment, on average over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def available_bytes() -> int:
    """Return how much memory a new program can have before the system swaps or kills."""
    return _meminfo("MemAvailable")


def _memory_bytes() -> int:
    return _meminfo("MemTotal")


def _meminfo(key: str) -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(f"{key}:"))


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
