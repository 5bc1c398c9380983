"""A recording that a library's callbacks begin, step and end."""

import atexit
import sys
from typing import Any

import tracelab
from tracelab.collect.recording.script import ScriptRecording


class OpenRecording:
    """A recording between two callbacks; it ends with the process if the library calls the second one never."""

    def __init__(self, run: str | None, options: dict[str, Any]) -> None:
        self._recording: ScriptRecording = tracelab.record(run, **options)
        self._is_open = False

    def begin(self) -> None:
        """Begin to record; a second call changes nothing."""
        if not self._is_open:
            self._is_open = True
            self._recording.__enter__()
            atexit.register(self.end)

    def step(self) -> None:
        """End a step."""
        if self._is_open:
            self._recording.step()

    def end(self, error: BaseException | None = None) -> None:
        """End the recording, with the error that ended the training; a second call changes nothing."""
        if not self._is_open:
            return
        self._is_open = False
        atexit.unregister(self.end)
        error = error or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        self._recording.__exit__(type(error) if error else None, error, None)
