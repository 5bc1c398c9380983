"""A CUDA without a GPU: maps cuda to the CPU and nccl to gloo, logs each call, and enforces CUDA's rules.

`tensors`: those that would be on a GPU stay on the CPU and carry a mark. `device`: a GPU is a queue; its work ends
`WORK_MS` after the work before it, an event has the time at which the queue reaches it, and is complete once the
clock has passed that time. `libraries`: torch's own users of CUDA are mapped to these. An error of CUDA is a
RuntimeError; what CUDA would compute wrongly, or do at the wrong time, without an error raises `BrokenRuleError`.

Not modeled: several streams of one GPU, peer access, and the sizes of an allocator's blocks.

This module itself imports no torch, so that tests can name it on a machine without.
"""

import contextlib
import os
from pathlib import Path

GPUS = "FAKE_CUDA_GPUS"
"""Environment variable with the number of GPUs of the node; children with it have the harness."""
LOG = "FAKE_CUDA_LOG"
"""Environment variable with the folder of the logs, a file per process."""
PROFILED = "FAKE_CUDA"
"""Environment variable with the file of the fake nsys and ncu, which reads there what the program does."""
WORK_MS = "FAKE_CUDA_WORK_MS"
"""Environment variable with the duration of one operation on the device, in milliseconds."""
ALLOCATED_BYTES, RESERVED_BYTES, TOTAL_BYTES = 1 << 20, 2 << 20, 80 << 30
"""Memory of the fake allocator before the first operation, and of the card."""
POOL_BYTES, POOL_USED_BYTES = 512 << 10, 64 << 10
"""The private pool of captured graphs, and the part of it that tensors hold after the capture."""
PURE = (
    "is_available",
    "is_initialized",
    "current_device",
    "device_count",
    "is_bf16_supported",
    "is_current_stream_capturing",
)
"""Calls that only read the state of this process, which `read_calls` leaves out."""


class BrokenRuleError(AssertionError):
    """The program broke a rule that CUDA does not check."""


def read_calls(path_or_calls):
    """Return the logged calls without those that only read the state of the process."""
    lines = path_or_calls.read_text().splitlines() if isinstance(path_or_calls, Path) else path_or_calls
    return [line for line in lines if line.partition(" ")[0].removeprefix("cuda.") not in PURE]


def install_from_environment(name, patch=None):
    """Install the harness in a child process whose environment requests it."""
    if GPUS not in os.environ:
        return
    from tests.collect.fake_cuda.libraries import install
    from tests.collect.fake_cuda.tensors import CudaOnCpu

    log = Path(os.environ[LOG]) / name if LOG in os.environ else None
    install(_visible(int(os.environ[GPUS])), patch or setattr, log=log, work_ms=float(os.environ.get(WORK_MS, "0")))
    mode = CudaOnCpu()
    mode.__enter__()


@contextlib.contextmanager
def installed(monkeypatch, gpus=2, **options):
    """Install the harness in this process for the block; yields its state."""
    from tests.collect.fake_cuda.libraries import install
    from tests.collect.fake_cuda.tensors import CudaOnCpu

    with monkeypatch.context() as patch:
        state = install(gpus, patch.setattr, **options)
        with CudaOnCpu():
            yield state


def _visible(gpus):
    from tracelab.collect.machine.gpu import visible_device_entries

    entries = visible_device_entries(os.environ)
    return gpus if entries is None else len(entries)
