"""The workloads of known result that both parts check: how they are recorded, and what one step does."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STEPS, RECORDED = 6, 3
"""Steps of a run, and those that are recorded."""


@dataclass(frozen=True)
class Capture:
    """One run of a workload under one profiler."""

    workload: str
    profiler: str
    settings: dict[str, str] = field(default_factory=dict)
    ranks: int = 1
    gpu_only: bool = False

    @property
    def run(self) -> str:
        """Name of the run."""
        return f"{self.workload}-{self.profiler}"

    def truth(self, device: str) -> dict[str, Any]:
        """Return what one step does, as the workload itself computes it."""
        from tracelab.collect.workloads import build_settings, find_workload, load_module

        module = load_module(find_workload(self.workload))
        result: dict[str, Any] = module.truth(build_settings(module, {"device": device}, self.settings))
        return result


def captures(device: str, gpus: int) -> list[Capture]:
    """Return the captures of a node, from the quickest on."""
    on_gpu = device == "cuda"
    triad = {"elements": str(1 << (26 if on_gpu else 18))}
    gemm = {"size": str(4096 if on_gpu else 64)}
    copies = {} if on_gpu else {"sizes": "4096,65536"}
    counted = {"elements": str(1 << 22), "repeats": "2"}, {"size": "1024", "repeats": "2"}
    return [
        Capture("triad", "kineto", triad),
        Capture("gemm", "kineto", gemm),
        Capture("copies", "kineto", copies),
        Capture("streams", "kineto", gpu_only=True),
        Capture("collectives", "kineto", ranks=gpus if on_gpu else 2),
        Capture("triad", "nsys", triad, gpu_only=True),
        Capture("triad", "ncu", counted[0], gpu_only=True),
        Capture("gemm", "ncu", counted[1], gpu_only=True),
    ]


def use_checkout() -> None:
    """Import tracelab from this checkout."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
