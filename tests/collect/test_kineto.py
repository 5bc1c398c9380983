"""PyTorch's profiler in a process whose GPU fails."""

import contextlib
import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.process.cancellation import Cancellation
from tracelab.collect.profiling.capture import StepCapture
from tracelab.collect.profiling.kineto import Kineto, add_ops
from tracelab.collect.profiling.schedule import Schedule
from tracelab.collect.recording.profilers import KinetoOptions

pytestmark = needs_torch

DAMAGED = """{"traceEvents": [
{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1},
{"ph": "X", "cat": "python_function", "name": "struct.py(0): "", "ts": 1, "dur": 1},
{"ph": "X", "cat": "kernel", "name": "k", "ts": 3, "dur": 1}
]}
"""
"""A trace with a name that the native exporter did not escape."""


def test_a_failed_kernel_leaves_what_the_cpu_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def synchronize() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    kineto = Kineto(torch, KinetoOptions(), 0, tmp_path, tmp_path)
    kineto.start()
    torch.ones(4).add(1)
    kineto._profile.profiler.use_device = "cuda"  # as on a GPU: torch synchronizes it when the profiler stops
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(kineto, "_synchronize", synchronize)
    kineto.stop()
    kineto.save(None)
    events = json.loads(gzip.decompress((tmp_path / "rank0.pt.trace.json.gz").read_bytes()))["traceEvents"]
    assert sum(event.get("name") == "aten::add" for event in events) == 1


def test_torch_neither_warns_of_cycles_nor_converts_all_events(tmp_path: Path) -> None:
    kineto = Kineto(torch, KinetoOptions(), 0, tmp_path, tmp_path)
    kineto.prepare()
    assert kineto._profile.acc_events
    assert not kineto._profile.profiler.acc_events


def test_windows_that_open_at_the_same_step_have_a_file_each(tmp_path: Path) -> None:
    kineto = Kineto(torch, KinetoOptions(), 0, tmp_path, tmp_path)
    for size in (2, 3, 4):
        kineto.start()
        torch.ones(size, size).add(1)
        kineto.stop()
        kineto.save(0)
    files = [f"rank0.step0{part}.pt.trace.json.gz" for part in ("", ".window2", ".window3")]
    assert [file["file"] for file in kineto.files] == files
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_a_trace_that_python_cannot_export_is_kept_as_it_was_first_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(path: str, *, use_python_export: bool = False) -> None:
        if use_python_export:
            Path(path).write_text("half a file")
            raise UnicodeDecodeError("utf-8", b"\xbd", 0, 1, "invalid start byte")
        Path(path).write_text(DAMAGED)

    run, scratch = tmp_path / "run", tmp_path / "scratch"
    run.mkdir()
    scratch.mkdir()
    kineto = Kineto(torch, KinetoOptions(), 0, run, scratch)
    kineto.start()
    kineto.stop()
    monkeypatch.setattr(kineto._profile, "export_chrome_trace", export)
    kineto.save(None)
    (path,) = run.iterdir()
    assert gzip.decompress(path.read_bytes()).decode() == DAMAGED
    assert not list(scratch.iterdir())
    (file,) = kineto.files
    assert (file["events"], kineto.kernels, file["exporter"][:14]) == (3, 2, "native, invali")
    assert "; its exporter in Python failed: UnicodeDecodeError: " in kineto.describe("cut")["note"]
    assert kineto.describe("cut")["note"].startswith("cut; PyTorch wrote invalid JSON: ")


def test_ranges_cost_nothing_outside_of_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = []
    monkeypatch.setattr(torch.profiler, "record_function", lambda name: ranges.append(name) or contextlib.nullcontext())
    kineto = Kineto(torch, KinetoOptions(), 0, tmp_path, tmp_path)
    schedule = Schedule("step", first=2, active=1, wait=0, cycles=1)
    capture = StepCapture(schedule, kineto, Cancellation())
    with capture.run():
        for step in range(5):
            with capture.step(step), capture.phase("forward"):
                pass
            capture.between_steps()
    assert ranges == ["ProfilerStep#2", "forward"]


def test_flops_are_counted_where_other_names_cannot_be_read() -> None:
    def event(name: str, flop: int, alpha: float | None = None, shape: int = 2) -> Any:
        return SimpleNamespace(
            flops=lambda: flop,
            name=name.encode("latin-1").decode,  # fails where torch's does
            shapes=lambda: [[shape]],
            concrete_inputs=lambda: [None, None, alpha],
            duration_ns=lambda: 7,
        )

    ops: dict[tuple[str, str], dict[str, Any]] = {}
    events = [event("aten::add", 5), event("aten::add", 5, 1), event("aten::add", 5, 0.5), event("aten::mm", 3)]
    add_ops(ops, [*events, event("aten::mm", 4, shape=3), event("\xa0", 0)])
    assert [(row["name"], row["input_shapes"], row["calls"], row["flop"], row["dur_ns"]) for row in ops.values()] == [
        ("aten::add", [[2]], 3, 20, 21),
        ("aten::mm", [[2]], 1, 3, 7),
        ("aten::mm", [[3]], 1, 4, 7),
    ]
