"""A node with GPUs for tests of `collect`: the fake CUDA in each rank, and a fake nvidia-smi beside it."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.collect import fake_cuda
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.collect.workloads import find_workload

FAKES = Path(__file__).parent / "fakes"
TINY = {"device": "cuda", "steps": 2, "warmup": 1, "sample_s": 0.0}
SMALL = {"transformer": {"context": "8", "width": "16", "layers": "1", "heads": "2", "vocabulary": "16"}}
SMALL |= {
    "decoder": {"context": "16", "layers": "1", "vocabulary": "64"},
    "triad": {},
    "copies": {},
    "streams": {},
    "collectives": {},
}
SMALL |= {"image_classification": {}, "gemm": {"size": "8", "repeats": "2"}}


@dataclass
class GpuNode:
    """A node; `train` runs a tiny workload on it."""

    folder: Path
    patch: pytest.MonkeyPatch
    runs: int = field(default=0)

    def train(self, workload="transformer", **options):
        """Run a workload and return what it left."""
        self.runs += 1
        name = f"run{self.runs}"
        logs = self.folder / f"{name}.calls"
        logs.mkdir()
        self.patch.setenv(fake_cuda.LOG, str(logs))
        batch = {"batch_size": 2} if find_workload(workload).uses("batch_size") else {}
        values = TINY | batch | {"out": self.folder, "run": name, "set": SMALL.get(workload, {})} | options
        result = train(Settings(workload, **values))
        return GpuRun(result.folder, result.status, result.error, logs)


@dataclass
class GpuRun:
    """A run on a node with GPUs."""

    folder: Path
    status: str
    error: str | None
    logs: Path

    @property
    def json(self):
        """The content of run.json."""
        return json.loads((self.folder / "run.json").read_text())

    def rows(self, table, rank=0):
        """Return the rows of a table that one rank wrote."""
        return [json.loads(line) for line in (self.folder / f"{table}.rank{rank}.jsonl").read_text().splitlines()[1:]]

    def calls(self, rank=0):
        """Return the calls of one rank."""
        return fake_cuda.read_calls(self.logs / str(rank))


def shrink_ceilings(patch):
    """Measure ceilings in tiny sizes."""
    from tracelab.collect.ceilings.sizes import SIZES, Sizes

    tiny = Sizes(1 << 14, (16,), (4096, 65536), (4096, 8192), 3, 1, 20.0, 0.001, 0.002, 2)
    patch.setitem(SIZES, ("cuda", True), tiny)


def open_node(folder, patch, gpus=2):
    """Return a node with this number of GPUs; nvidia-smi lists two."""
    patch.setenv(fake_cuda.GPUS, str(gpus))
    patch.setenv("PATH", str(FAKES), prepend=os.pathsep)
    patch.setenv("PYTHONPATH", str(FAKES / "startup"), prepend=os.pathsep)
    patch.setenv("OMP_NUM_THREADS", "1")  # two ranks, and tensors of some hundred numbers
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return GpuNode(folder, patch)
