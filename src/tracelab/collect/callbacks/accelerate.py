"""Record a loop of Accelerate: `with record(accelerator, "run", wait=50, active=10) as r:` and `r.step()` per batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tracelab
from tracelab.collect.recording.script import ScriptRecording


class AcceleratedSteps:
    """Counts a step where Accelerate has accumulated all of its gradients."""

    def __init__(self, accelerator: Any, recording: ScriptRecording) -> None:  # noqa: ANN401
        self._accelerator = accelerator
        self._recording = recording

    def step(self) -> None:
        """End a batch, and with the last batch of a step the step."""
        if self._accelerator.sync_gradients:
            self._recording.step()


@contextmanager
def record(accelerator: Any, run: str | None = None, **options: Any) -> Iterator[AcceleratedSteps]:  # noqa: ANN401
    """Record a loop over batches; takes the arguments of `tracelab.record`."""
    with tracelab.record(run, **options) as recording:
        yield AcceleratedSteps(accelerator, recording)
