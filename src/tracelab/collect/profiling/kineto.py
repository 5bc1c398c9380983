"""PyTorch's own profiler: traces written, checked, and written again where its native exporter made invalid JSON."""

import contextlib
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tracelab.collect import disk_errors
from tracelab.collect.process.launch import SAVING
from tracelab.collect.profiling.capture import DATA_LOADING
from tracelab.collect.profiling.trace_check import TraceCheck, check_trace
from tracelab.collect.run_folder import write_gzip, write_json
from tracelab.collect.settings import Settings

_ALPHA = 2
"""The place of alpha among the inputs of aten::add."""


class Kineto:
    """The profiler of one process; `files` tells what it wrote and how."""

    def __init__(self, torch: Any, settings: Settings, rank: int, folder: Path, scratch: Path) -> None:  # noqa: ANN401
        self._torch = torch
        self._settings = settings
        self._rank = rank
        self._folder = folder
        self._scratch = scratch
        self._profile: Any = None
        self._ops: dict[tuple[str, str], dict[str, Any]] = {}
        self.files: list[dict[str, Any]] = []
        self.kernels = 0
        self.copies = 0

    def prepare(self) -> None:
        """Start CUPTI and set up its buffers."""
        self._profile = self._made()
        self._profile.prepare_trace()

    def start(self) -> None:
        """Record, once earlier work of the device is done."""
        if self._profile is None:
            self.prepare()
        self._synchronize()
        self._profile.start_trace()

    def stop(self) -> None:
        """Let the device finish, so that kernels of the window are in it."""
        self._synchronize()
        with self._busy():
            self._profile.stop_trace()

    def save(self, first_step: int | None) -> None:
        """Write the trace to its place, whole or not at all, and the FLOPs beside it."""
        part = "" if first_step is None else f".step{first_step}"
        with self._busy():
            self._write(self._folder / f"rank{self._rank}{part}.pt.trace.json.gz")
        self._profile = None

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Name a range; the loader's PyTorch names itself."""
        if name == DATA_LOADING:
            return contextlib.nullcontext()
        marked: contextlib.AbstractContextManager[Any] = self._torch.profiler.record_function(name)
        return marked

    def _write(self, target: Path) -> None:
        plain = self._scratch / "trace.json"
        seen, exporter = self._exported(plain)
        write_gzip(plain, target)
        plain.unlink()
        self.kernels += seen.kernels
        self.copies += seen.copies
        self.files.append({"file": target.name, "exporter": exporter, "events": seen.categories.total()})
        if self._settings.flops:
            self._write_ops()

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        """The parent sees that this process is writing, and gives it time."""
        mark = self._scratch / SAVING
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    def _made(self) -> Any:  # noqa: ANN401
        profiler, settings = self._torch.profiler, self._settings
        activities = [profiler.ProfilerActivity.CPU]
        if self._torch.cuda.is_available() and settings.device != "cpu":
            activities.append(profiler.ProfilerActivity.CUDA)
        return profiler.profile(
            activities=activities,
            record_shapes=settings.shapes or settings.flops,  # FLOPs are counted from shapes
            profile_memory=settings.memory,
            with_stack=settings.stacks,
            with_flops=settings.flops,
        )

    def _exported(self, plain: Path) -> tuple[TraceCheck, str]:
        """Export as torch does by itself, for that says the most; where the result is no JSON, in Python.

        Names with a quote break the native exporter (torch 2.13), and older torch has no other.
        """
        self._profile.export_chrome_trace(str(plain))
        if not plain.exists():
            raise disk_errors.missing_export_error(plain)
        native = check_trace(plain)
        if native.problem is None:
            return native, "native"
        if "use_python_export" not in inspect.signature(self._profile.export_chrome_trace).parameters:
            return native, f"native, invalid JSON: {native.problem}"
        with disk_errors.name_file_in_errors(plain):
            self._profile.export_chrome_trace(str(plain), use_python_export=True)
        again = check_trace(plain)
        found = f"native was invalid JSON: {native.problem}"
        return (
            again,
            f"python ({found})" if again.problem is None else f"python, invalid JSON: {again.problem} ({found})",
        )

    def _write_ops(self) -> None:
        """What `with_flops` counted: the trace does not hold it. Several windows add up."""
        scaled = _scaled_flop(self._profile.events())
        for average in self._profile.key_averages(group_by_input_shape=True):
            if not average.flops:
                continue
            op = (average.key, str(average.input_shapes))
            row = self._ops.setdefault(
                op,
                {"name": average.key, "input_shapes": average.input_shapes, "calls": 0, "flop": 0, "dur_ns": 0},
            )
            row["calls"] += average.count
            row["flop"] += average.flops + scaled[op]
            row["dur_ns"] += round(average.cpu_time_total * 1000)
        content = {"tracelab": "ops/1", "run": self._folder.name, "rank": self._rank, "kind": "key_averages"}
        write_json(self._folder / f"ops.rank{self._rank}.json", content | {"ops": list(self._ops.values())})

    def _synchronize(self) -> None:
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()


def _scaled_flop(events: Iterable[Any]) -> Counter[tuple[str, str]]:
    """What torch leaves out of `a + alpha * b`: it counts the sum of each element, and not the product."""
    found: Counter[tuple[str, str]] = Counter()
    for event in events:
        if event.name == "aten::add" and event.flops and event.concrete_inputs[_ALPHA:][:1] not in ([], [None], [1]):
            found[event.name, str(event.input_shapes)] += event.flops
    return found
