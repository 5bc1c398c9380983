"""PyTorch's profiler: writes traces, checks them, and exports again in Python where the native JSON is invalid."""

import contextlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tracelab.collect import disk_errors
from tracelab.collect.process.launch import SAVING
from tracelab.collect.profiling.capture import DATA_LOADING
from tracelab.collect.profiling.cupti import CuptiTeardown
from tracelab.collect.profiling.trace_check import TraceCheck, check_trace, count_categories
from tracelab.collect.run_folder import write_gzip, write_json

_ALPHA = 2
"""Index of alpha among the inputs of aten::add."""


class KinetoSettings(Protocol):
    """Settings of a run that Kineto needs."""

    @property
    def device(self) -> str:
        """`cpu`, or another name where GPUs are recorded, too."""
        ...

    @property
    def shapes(self) -> bool:
        """Whether to record input shapes."""
        ...

    @property
    def memory(self) -> bool:
        """Whether to record allocations."""
        ...

    @property
    def stacks(self) -> bool:
        """Whether to record Python stacks."""
        ...

    @property
    def flops(self) -> bool:
        """Whether to count FLOPs per operator."""
        ...

    @property
    def syncs(self) -> bool:
        """Whether to record which streams and events GPU work waits for."""
        ...

    @property
    def keep_attached(self) -> bool:
        """Whether CUPTI stays attached after a window."""
        ...


class Kineto:
    """The profiler of one process; `files` lists what it wrote and with which exporter."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        settings: KinetoSettings,
        rank: int,
        folder: Path,
        scratch: Path,
    ) -> None:
        self._torch = torch
        self._settings = settings
        self._rank = rank
        self._folder = folder
        self._scratch = scratch
        self._profile: Any = None
        self._is_recording = False
        self._ops: dict[tuple[str, str], dict[str, Any]] = {}
        self.files: list[dict[str, Any]] = []
        self.ops = 0
        self.kernels = 0
        self.copies = 0
        self._note: str | None = None
        self._teardown = CuptiTeardown(torch, keeps_attached=settings.keep_attached)

    def describe(self, note: str | None = None) -> dict[str, Any]:
        """Return what was recorded as entries of an outcome; `note` goes before that of the export."""
        entries: dict[str, Any] = {
            "files": self.files,
            "ops": self.ops,
            "kernels": self.kernels,
            "copies": self.copies,
        }
        notes = "; ".join(filter(None, (note, self._note)))
        return entries | ({"note": notes} if notes else {})

    @property
    def is_attached(self) -> bool:
        """Whether CUPTI slows the steps that are not recorded, too."""
        return self._teardown.is_attached

    def prepare(self) -> None:
        """Start CUPTI and set up its buffers."""
        self._profile = self._build_profile()
        with _without_inductor(self._torch):
            self._profile.prepare_trace()
        self._profile.profiler.acc_events = False

    def start(self) -> None:
        """Start recording after synchronizing, so that no earlier work is recorded."""
        if self._profile is None:
            self.prepare()
        self._synchronize()
        self._profile.start_trace()
        self._is_recording = True

    def stop(self, *, resumes: bool = False) -> None:
        """Stop recording after synchronizing, so that every kernel of the window is recorded.

        CUPTI stays attached where recording `resumes` at once.
        A kernel that failed has every later synchronization fail: torch's profiler then stops without one.
        """
        self._is_recording = False
        try:
            self._synchronize()
        except RuntimeError:
            self._profile.profiler.use_device = None
        with self._saving(), self._teardown.stopping(resumes=resumes):
            self._profile.stop_trace()

    def save(self, first_step: int | None) -> None:
        """Write the trace atomically, and the FLOPs next to it."""
        part = "" if first_step is None else f".step{first_step}"
        target = self._target(part)
        if target.exists():  # in a program without steps, windows open at the same one
            target = self._target(f"{part}.window{len(self.files) + 1}")
        with self._saving():
            self._write(target)
        self._profile = None

    def _target(self, part: str) -> Path:
        return self._folder / f"rank{self._rank}{part}.pt.trace.json.gz"

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Annotate the block while recording; PyTorch annotates the wait for data itself.

        A range costs 6 us of the CPU also where no profiler records it, and a step has four.
        """
        if name == DATA_LOADING or not self._is_recording:
            return contextlib.nullcontext()
        annotation: contextlib.AbstractContextManager[Any] = self._torch.profiler.record_function(name)
        return annotation

    def _write(self, target: Path) -> None:
        plain = self._scratch / "trace.json"
        checked, exporter = self._export(plain)
        with disk_errors.keep_where_full(plain, f"trace-of-{self._folder.name}-{target.stem}"):
            write_gzip(plain, target)
        plain.unlink()
        self.ops += checked.ops
        self.kernels += checked.kernels
        self.copies += checked.copies
        self.files.append({"file": target.name, "exporter": exporter, "events": checked.categories.total()})
        if self._settings.flops:
            self._write_ops()

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """Signal the parent through a file that this process is saving, so that it waits longer at the time limit."""
        flag = self._scratch / SAVING
        with contextlib.suppress(OSError):  # a full disk must not keep the profiler from its end
            flag.touch()
        try:
            yield
        finally:
            flag.unlink(missing_ok=True)

    def _build_profile(self) -> Any:  # noqa: ANN401
        profiler, settings = self._torch.profiler, self._settings
        activities = [profiler.ProfilerActivity.CPU]
        if self._torch.cuda.is_available() and settings.device != "cpu":
            activities.append(profiler.ProfilerActivity.CUDA)
        self._teardown.prepare(records_gpu=len(activities) > 1)
        profile = profiler.profile
        # Without it, torch 2.11 warns that events of earlier cycles are lost: a profile has one cycle here. It is
        # switched off again after that, or the profiler would convert all events to Python objects when it stops.
        one_cycle = {"acc_events": True} if "acc_events" in inspect.signature(profile).parameters else {}
        return profile(
            activities=activities,
            **one_cycle,
            **self._record_syncs() if len(activities) > 1 else {},
            record_shapes=settings.shapes or settings.flops,  # FLOPs are counted from shapes
            profile_memory=settings.memory,
            with_stack=settings.stacks,
            with_flops=settings.flops,
        )

    def _record_syncs(self) -> dict[str, Any]:
        """Return the option that has CUPTI record what GPU work waits for."""
        if not self._settings.syncs:
            return {}
        try:
            config = self._torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True)
        except (AttributeError, TypeError):  # torch before 2.1
            self._note = "this PyTorch cannot record what GPU work waits for (--syncs)"
            return {}
        return {"experimental_config": config}

    def _export(self, plain: Path) -> tuple[TraceCheck, str]:
        """Export with the native exporter, which writes the most; if its JSON is invalid, with the Python exporter.

        Names with a quote break the native exporter (torch 2.13), and older torch has no other.
        """
        self._profile.export_chrome_trace(str(plain))
        if not plain.exists():
            raise disk_errors.missing_export_error(plain)
        native = check_trace(plain)
        if native.problem is None:
            return native, "native"
        if "use_python_export" not in inspect.signature(self._profile.export_chrome_trace).parameters:
            return _count_in_damaged(plain, native), f"native, invalid JSON: {native.problem}"
        second = plain.with_suffix(".python.json")
        try:
            with disk_errors.name_file_in_errors(second):
                self._profile.export_chrome_trace(str(second), use_python_export=True)
        except (OSError, ValueError, RuntimeError) as error:  # as where a name is not valid UTF-8
            second.unlink(missing_ok=True)
            failure = f"invalid JSON: {native.problem}; its exporter in Python failed: {type(error).__name__}: {error}"
            self._note = f"PyTorch wrote {failure}; ingest skips the damaged events"
            return _count_in_damaged(plain, native), f"native, {failure}"
        second.replace(plain)
        again = check_trace(plain)
        reason = f"native was invalid JSON: {native.problem}"
        return (
            again,
            f"python ({reason})" if again.problem is None else f"python, invalid JSON: {again.problem} ({reason})",
        )

    def _write_ops(self) -> None:
        """Write the FLOPs that `with_flops` counted, which the trace lacks; several windows add up."""
        add_ops(self._ops, self._profile.profiler.kineto_results.events())
        content = {"tracelab": "ops/1", "run": self._folder.name, "rank": self._rank, "kind": "key_averages"}
        write_json(self._folder / f"ops.rank{self._rank}.json", content | {"ops": list(self._ops.values())})

    def _synchronize(self) -> None:
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()


def _count_in_damaged(plain: Path, check: TraceCheck) -> TraceCheck:
    """Count the events of a damaged trace behind the damage, too."""
    return replace(check, categories=count_categories(plain))


@contextlib.contextmanager
def _without_inductor(torch: Any) -> Iterator[None]:  # noqa: ANN401
    """Keep `prepare_trace` from importing torch._inductor, 2 s, for a setting that only its importers change."""
    lazy_modules = getattr(torch, "_lazy_modules", None)
    if not isinstance(lazy_modules, set) or "torch._inductor" in sys.modules or "_inductor" not in lazy_modules:
        yield
        return
    lazy_modules.discard("_inductor")
    try:
        yield
    finally:
        lazy_modules.add("_inductor")


def add_ops(ops: dict[tuple[str, str], dict[str, Any]], events: Iterable[Any]) -> None:
    """Add calls, FLOPs and duration of events to `ops`, by name and shapes.

    torch's own averages read the name of each event, which with stacks and memory is not always valid UTF-8 (torch
    2.13), and compare each event with all others. In `a + alpha * b` torch counts the addition alone.
    """
    for event in events:
        flop = event.flops()
        if not flop:
            continue
        name, shapes = event.name(), event.shapes()
        if name == "aten::add" and event.concrete_inputs()[_ALPHA:][:1] not in ([], [None], [1]):
            flop *= 2
        new = {"name": name, "input_shapes": shapes, "calls": 0, "flop": 0, "dur_ns": 0}
        row = ops.setdefault((name, str(shapes)), new)
        row["calls"] += 1
        row["flop"] += flop
        row["dur_ns"] += event.duration_ns()
