"""The profilers of a program: they learn their rank late, and the last step of a recording may have no end."""

import contextlib
import functools
import json
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.collect.profiling.capture import NoProfiler, NvtxRanges
from tracelab.collect.profiling.kineto import Kineto
from tracelab.collect.profiling.trace_check import TraceCheck
from tracelab.collect.recording.forked import end_inherited_profiler, leave_profiler
from tracelab.collect.recording.ranks import Rank
from tracelab.collect.recording.recorder import RecordingError

_STEP, _NO_STEP = b'"ProfilerStep#', b'"Partial_Step#'
"""Beginnings of range names, of the same length: a step, and one whose end was not recorded."""
_STARTS = ("_prepare_profiler", "_enable_profiler")
"""Functions of torch.autograd.profiler that each of its profilers starts with."""
_NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/nvhost-gpu")


@dataclass(frozen=True)
class KinetoOptions:
    """Options of Kineto for a program."""

    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    syncs: bool = False
    keep_attached: bool = False
    device: str = "auto"


class ProgramKineto(Kineto):
    """Kineto in a program; `find_rank` returns the rank as far as it is known."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        options: KinetoOptions,
        find_rank: Callable[[], Rank],
        folder: Path,
        scratch: Path,
    ) -> None:
        if not any(Path(path).exists() for path in _DEVICE_FILES):  # asking torch would load the driver
            options = KinetoOptions(**vars(options) | {"device": "cpu"})
        super().__init__(torch, options, 0, folder, scratch)
        self._find_rank = find_rank
        self._unfinished: str | None = None
        self._calling: int | None = None
        """The thread that calls torch's profiler for this recording."""
        self._is_prepared = False
        """Whether Kineto has threads in this process."""

    def prepare(self) -> None:
        """Start CUPTI; finds GPUs through NVML, because a driver that is loaded too early ignores later settings."""
        end_inherited_profiler(self._torch)
        if self._torch._C._autograd._profiler_enabled():
            raise RecordingError("a profiler of the program was recording when the window opened; switch that one off")
        self._is_prepared = True
        before = os.environ.get(_NVML_CHECK)
        os.environ[_NVML_CHECK] = "1"
        try:
            with self._as_own():
                super().prepare()
        finally:
            if before is None:
                os.environ.pop(_NVML_CHECK, None)
            else:
                os.environ[_NVML_CHECK] = before

    def start(self) -> None:
        """Start recording."""
        with self._as_own():
            super().start()

    def discard(self) -> None:
        """Stop recording, and forget what was recorded."""
        self._is_recording = False
        self._profile.stop_trace()
        self._profile = None

    def call_before_others(self, function: Callable[[], None]) -> None:
        """Call a function before the program starts a profiler of its own: Kineto crashes where two record."""
        module = self._torch.autograd.profiler

        def call_first(start: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(start)
            def call_and_start(*arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
                end_inherited_profiler(self._torch)
                if self._calling != threading.get_ident():
                    self._teardown.cancel()
                    function()
                    self._teardown.wait()
                return start(*arguments, **keywords)

            return call_and_start

        for name in _STARTS:
            if hasattr(module, name):
                setattr(module, name, call_first(getattr(module, name)))

    def leave_to_parent(self) -> None:
        """Record nothing of a forked child."""
        if self._is_prepared:
            leave_profiler(self._torch)

    @contextlib.contextmanager
    def _as_own(self) -> Iterator[None]:
        self._calling = threading.get_ident()
        try:
            yield
        finally:
            self._calling = None

    def stop(self, *, resumes: bool = False) -> None:
        """Stop recording, with the rank in the trace, which may have been unknown at the start."""
        info = self._profile._get_distributed_info() or self._find_rank().distributed_info()
        if info is not None:
            self._profile.add_metadata_json("distributedInfo", json.dumps(info, default=str))
        super().stop(resumes=resumes)

    def save(self, first_step: int | None) -> None:
        """Write the trace under the name of its rank."""
        self._rank = self._find_rank().rank
        super().save(first_step)
        self._unfinished = None

    def note_unfinished(self, name: str) -> None:
        """Rename the range of this name in the next trace."""
        self._unfinished = name

    def _export(self, plain: Path) -> tuple[TraceCheck, str]:
        exported = super()._export(plain)
        if self._unfinished is not None:
            name = f'"{self._unfinished}"'.encode()
            _replace_bytes(plain, name, name.replace(_STEP, _NO_STEP))
        return exported


class ProgramNvtx(NvtxRanges):
    """NVTX ranges and the CUDA profiler API in a program under nsys or ncu."""

    def note_unfinished(self, name: str) -> None:
        """Do nothing: a range in nsys is closed when it is."""

    def discard(self) -> None:
        """Do nothing."""

    def leave_to_parent(self) -> None:
        """Do nothing."""


class ProgramWithoutProfiler(NoProfiler):
    """A program without a profiler."""

    def note_unfinished(self, name: str) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""

    def leave_to_parent(self) -> None:
        """Do nothing."""


def _replace_bytes(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes by as many others in a file, wherever they occur."""
    with path.open("r+b") as file, contextlib.closing(mmap.mmap(file.fileno(), 0)) as content:
        for at in _find_all(content, old):
            content[at : at + len(new)] = new


def _find_all(content: mmap.mmap, wanted: bytes) -> Iterator[int]:
    at = content.find(wanted)
    while at >= 0:
        yield at
        at = content.find(wanted, at + len(wanted))
