"""Detach CUPTI, NVIDIA's tracer below Kineto, after the last planned window of a process."""

import os
import re
import time
from typing import Any

_TEARDOWN = "TEARDOWN_CUPTI"
"""Variable that Kineto reads when a window stops; "1" has it call cuptiFinalize."""
_LEAST_CUDA = (12, 6)
"""The first CUDA whose CUPTI detaches without crashes under CUDA graphs (PyTorch pull request 146604)."""
_SETTLE_S = 0.2
"""Time that Kineto's thread has to end once CUPTI is detached, which the next call of CUDA does."""


class CuptiTeardown:
    """Has Kineto detach CUPTI at the last of `planned` windows, and only there, unless `keeps_attached`.

    A window that begins while CUPTI is detaching can crash (Kineto pull request 1554). None plans no last window. The
    user's own TEARDOWN_CUPTI decides where it is set.
    """

    def __init__(self, torch: Any, planned: int | None, *, keeps_attached: bool) -> None:  # noqa: ANN401
        self._torch = torch
        self._left = None if keeps_attached else planned
        self._is_possible = False
        self._is_set = False
        self._is_detaching = False

    def prepare(self, *, records_gpu: bool) -> None:
        """Determine before a window whether CUPTI can detach after it."""
        version = self._torch.version.cuda
        is_safe = version is not None and tuple(map(int, re.findall(r"\d+", version)[:2])) >= _LEAST_CUDA
        self._is_possible = records_gpu and is_safe and _TEARDOWN not in os.environ

    def begin_stop(self) -> None:
        """Request the teardown right before the last planned window stops."""
        if self._left is not None:
            self._left -= 1
        if self._left == 0 and self._is_possible:
            os.environ[_TEARDOWN] = "1"
            self._is_set = self._is_detaching = True

    def finish(self) -> None:
        """Withdraw the request once the window is saved: a profiler that the program starts later decides itself."""
        if self._is_set:
            os.environ.pop(_TEARDOWN, None)
            self._is_set = False

    def make_way(self) -> None:
        """Prepare for a profiler that the program starts: keep CUPTI attached, or wait until it is detached."""
        self._left = None
        if self._is_detaching:
            self._is_detaching = False
            if not self._torch.cuda.is_current_stream_capturing():
                self._torch.cuda.synchronize()  # CUPTI detaches at the end of a call of CUDA
            time.sleep(_SETTLE_S)
