"""Detach CUPTI, NVIDIA's tracer below Kineto, after the last planned window of a process."""

import os
import re
from typing import Any

_TEARDOWN = "TEARDOWN_CUPTI"
"""Variable that Kineto reads when a window stops; "1" has it call cuptiFinalize."""
_LEAST_CUDA = (12, 6)
"""The first CUDA whose CUPTI detaches without crashes under CUDA graphs (PyTorch pull request 146604)."""


class CuptiTeardown:
    """Has Kineto detach CUPTI at the last of `planned` windows, and only there.

    A window that begins while CUPTI is detaching can crash (Kineto pull request 1554). None plans no last window.
    """

    def __init__(self, torch: Any, planned: int | None, *, is_requested: bool) -> None:  # noqa: ANN401
        self._torch = torch
        self._left = planned if is_requested else None
        self._is_requested = is_requested
        self._is_set = False
        self.note: str | None = None
        """Why CUPTI stays attached though its teardown is requested; known from the first window on."""

    def prepare(self, *, records_gpu: bool) -> None:
        """Note before a window whether its teardown is possible."""
        if self._is_requested:
            reason = self._find_obstacle(records_gpu=records_gpu)
            self.note = f"detach has no effect: {reason}" if reason else None

    def begin_stop(self) -> None:
        """Request the teardown right before the last planned window stops."""
        if self._left is not None:
            self._left -= 1
        if self._left == 0 and self.note is None and _TEARDOWN not in os.environ:
            os.environ[_TEARDOWN] = "1"
            self._is_set = True

    def finish(self) -> None:
        """Withdraw the request once the window is saved: a profiler that the program starts later decides itself."""
        if self._is_set:
            os.environ.pop(_TEARDOWN, None)
            self._is_set = False

    def cancel(self) -> None:
        """Keep CUPTI attached: the program is about to start a profiler of its own."""
        self._left = None

    def _find_obstacle(self, *, records_gpu: bool) -> str | None:
        version = self._torch.version.cuda
        if not records_gpu or version is None:
            return "no NVIDIA GPU is recorded"
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _LEAST_CUDA:
            return f"torch is built for CUDA {version}, and CUPTI detaches safely from 12.6 on"
        if _TEARDOWN in os.environ:
            return f"{_TEARDOWN}={os.environ[_TEARDOWN]} of the environment decides"
        return None
