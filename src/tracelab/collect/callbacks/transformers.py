"""Record a training of Hugging Face's Trainer: `Trainer(…, callbacks=[RecordCallback("run", wait=50, active=10)])`."""

from typing import TYPE_CHECKING, Any

from tracelab.collect.callbacks.open_recording import OpenRecording

if TYPE_CHECKING:
    TrainerCallback = object
else:
    from transformers import TrainerCallback


class RecordCallback(TrainerCallback):
    """Records optimizer steps of `Trainer.train`; takes the arguments of `tracelab.record`."""

    def __init__(self, run: str | None = None, **options: Any) -> None:  # noqa: ANN401  those of tracelab.record
        self._recording = OpenRecording(run, options)

    def on_train_begin(self, *_arguments: Any, **_keywords: Any) -> None:  # noqa: ANN401
        """Begin to record."""
        self._recording.begin()

    def on_step_end(self, *_arguments: Any, **_keywords: Any) -> None:  # noqa: ANN401
        """End a step."""
        self._recording.step()

    def on_train_end(self, *_arguments: Any, **_keywords: Any) -> None:  # noqa: ANN401
        """Write the run folder."""
        self._recording.end()
