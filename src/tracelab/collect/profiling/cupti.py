"""Detach CUPTI, NVIDIA's tracer below Kineto, after each window of a process."""

import contextlib
import os
import re
import time
import weakref
from collections.abc import Iterator
from typing import Any

_TEARDOWN = "TEARDOWN_CUPTI"
"""Variable that Kineto reads when a window stops; "1" has it call cuptiFinalize at the end of a later call of CUDA."""
_LEAST_CUDA = (12, 6)
"""The first CUDA whose CUPTI detaches without crashes under CUDA graphs (PyTorch pull request 146604)."""
_SETTLE_S = 0.1
"""Time that Kineto's thread has to begin to detach CUPTI, and as much to end once it is detached."""
_teardowns: "weakref.WeakSet[CuptiTeardown]" = weakref.WeakSet()


class CuptiTeardown:
    """Has Kineto detach CUPTI after each window, unless `keeps_attached`.

    A window that begins while CUPTI is detaching can crash (Kineto pull request 1554), and a profiler that starts in a
    child forked meanwhile hangs (seen with torch 2.11), so both wait. The user's own TEARDOWN_CUPTI decides where it is
    set.
    """

    def __init__(self, torch: Any, *, keeps_attached: bool) -> None:  # noqa: ANN401
        self._torch = torch
        self._keeps_attached = keeps_attached
        self._is_possible = False
        self._detaching_in: int | None = None
        """The process whose CUPTI may still be detaching."""
        _teardowns.add(self)
        self.is_attached = False
        """Whether CUPTI is attached, and slows what the program launches."""

    def prepare(self, *, records_gpu: bool) -> None:
        """Determine before a window whether CUPTI can detach after it; waits while it detaches after the last one."""
        self.wait()
        version = self._torch.version.cuda
        is_safe = version is not None and tuple(map(int, re.findall(r"\d+", version)[:2])) >= _LEAST_CUDA
        self.is_attached = records_gpu
        self._is_possible = records_gpu and is_safe and _TEARDOWN not in os.environ

    @contextlib.contextmanager
    def stopping(self, *, resumes: bool = False) -> Iterator[None]:
        """Stop a window in the block; request the teardown, for that stop alone, unless another one follows at once."""
        if resumes or self._keeps_attached or not self._is_possible:
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
        self._keeps_attached = True

    def wait(self) -> None:
        """Wait until CUPTI is detached, for what comes next; nothing to do in a forked child."""
        process, self._detaching_in = self._detaching_in, None
        if process != os.getpid():
            return
        cuda = self._torch.cuda
        time.sleep(_SETTLE_S)
        with contextlib.suppress(RuntimeError):  # an error of CUDA is the program's, and it is raised there again
            if not cuda.is_current_stream_capturing():
                cuda.synchronize()  # CUPTI detaches at the end of a call of CUDA
        time.sleep(_SETTLE_S)


def _wait_before_fork() -> None:
    for teardown in list(_teardowns):
        teardown.wait()


os.register_at_fork(before=_wait_before_fork)
