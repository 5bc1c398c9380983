"""Detach CUPTI, NVIDIA's tracer below Kineto, after the last planned window of a process."""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import Any

_TEARDOWN = "TEARDOWN_CUPTI"
"""Variable that Kineto reads when a window stops; "1" has it call cuptiFinalize at the end of a later call of CUDA."""
_LEAST_CUDA = (12, 6)
"""The first CUDA whose CUPTI detaches without crashes under CUDA graphs (PyTorch pull request 146604)."""
_SETTLE_S = 0.2
"""Time that Kineto's thread has to end once CUPTI is detached."""


class CuptiTeardown:
    """Has Kineto detach CUPTI at the last of `planned` windows, and only there, unless `keeps_attached`.

    A window that begins while CUPTI is detaching can crash (Kineto pull request 1554). None plans no last window. The
    user's own TEARDOWN_CUPTI decides where it is set.
    """

    def __init__(self, torch: Any, planned: int | None, *, keeps_attached: bool) -> None:  # noqa: ANN401
        self._torch = torch
        self._left = None if keeps_attached else planned
        self._is_possible = False
        self._detaching_in: int | None = None
        """The process whose CUPTI may still be detaching."""
        self.is_attached = False
        """Whether CUPTI is attached, and slows what the program launches."""

    def prepare(self, *, records_gpu: bool) -> None:
        """Determine before a window whether CUPTI can detach after it."""
        version = self._torch.version.cuda
        is_safe = version is not None and tuple(map(int, re.findall(r"\d+", version)[:2])) >= _LEAST_CUDA
        self.is_attached = records_gpu
        self._is_possible = records_gpu and is_safe and _TEARDOWN not in os.environ

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        """Stop a window in the block; at the last planned one request the teardown, for that stop alone."""
        if self._left is not None:
            self._left -= 1
        if self._left != 0 or not self._is_possible:
            yield
            return
        os.environ[_TEARDOWN] = "1"
        try:
            yield
        finally:
            os.environ.pop(_TEARDOWN, None)
        self._detaching_in, self.is_attached = os.getpid(), False

    def cancel(self) -> None:
        """Keep CUPTI attached: the program is about to start a profiler of its own."""
        self._left = None

    def wait(self) -> None:
        """Wait until CUPTI is detached, for a profiler that the program starts; nothing to do in a forked child."""
        process, self._detaching_in = self._detaching_in, None
        if process != os.getpid():
            return
        cuda = self._torch.cuda
        with contextlib.suppress(RuntimeError):  # an error of CUDA is the program's, and it is raised there again
            if not cuda.is_current_stream_capturing():
                cuda.synchronize()  # CUPTI detaches at the end of a call of CUDA
        time.sleep(_SETTLE_S)
