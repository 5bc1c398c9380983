"""Record a training of Lightning: `Trainer(callbacks=[RecordCallback("run", wait=50, active=10)])`."""

from typing import TYPE_CHECKING, Any

from tracelab.collect.callbacks.open_recording import OpenRecording

if TYPE_CHECKING:
    Callback = object
else:
    try:
        from lightning.pytorch.callbacks import Callback
    except ModuleNotFoundError:
        try:
            from pytorch_lightning.callbacks import Callback
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "the callback for Lightning needs lightning or pytorch_lightning, and neither is installed; "
                "pip install lightning",
                name="lightning",
            ) from error


class RecordCallback(Callback):
    """Records the batches of `Trainer.fit` as steps; takes the arguments of `tracelab.record`."""

    def __init__(self, run: str | None = None, **options: Any) -> None:  # noqa: ANN401  those of tracelab.record
        super().__init__()
        self._recording = OpenRecording(run, options)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002
        """Begin to record."""
        self._recording.begin()

    def on_train_batch_end(self, *_arguments: Any, **_keywords: Any) -> None:  # noqa: ANN401
        """End a step."""
        self._recording.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002
        """Write the run folder."""
        self._recording.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ANN401, ARG002
        """Write the run folder with the error as its status."""
        self._recording.end(exception)
