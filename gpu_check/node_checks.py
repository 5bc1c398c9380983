"""Checks that run on the node: captures, ceilings against the data sheet, and the cost of profiling."""

import json
import platform
import shutil
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import truths
from data_sheet import specified_rates
from outcome import FAIL, PASS, Check, between, equal, skip, without_verdict
from tracelab.collect.ceilings.run import CeilingOptions, measure
from tracelab.collect.machine import has_amd_gpus, list_gpus
from tracelab.collect.nvidia.tool import CaptureError
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.errors import TracelabError

_BANDS = {
    "dram": (("dram_copy", "dram_scale", "dram_add", "dram_triad"), 0.70, 1.02),
    "fp64": (("gemm_fp64",), 0.45, 2.1),  # cards whose tensor cores compute fp64 reach twice the rate of their others
    "fp32": (("gemm_fp32",), 0.50, 1.05),
    "tensor_tf32": (("gemm_tf32",), 0.40, 1.05),
    "tensor_bf16": (("gemm_bf16",), 0.40, 1.05),
    "tensor_fp16": (("gemm_fp16",), 0.40, 1.05),
    "tensor_fp8": (("gemm_fp8",), 0.35, 1.05),
    "tensor_int8": (("gemm_int8",), 0.30, 1.05),
}
"""Measurements of a rate, and the share of the data sheet that the sustained median reaches at the sheet's clock.

A power limit holds the clock down, of cards of 70 W to a half: the lower bound falls with it.
"""
_ANY_GPU = "the band is for a GPU"


def _guarded(part: str, work: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Make the checks of a part; an error is one that failed, and the other parts are still made."""
    try:
        yield from work()
    except Exception as error:  # noqa: BLE001  the first real GPU may bring any
        traceback.print_exc()
        yield Check(part, FAIL, type(error).__name__, "no error", " ".join(str(error).split())[:500])


class Node:
    """The checks of one node; `until` is the time of `time.monotonic` from which on the rest is skipped."""

    PARTS: ClassVar[tuple[str, ...]] = ("captures", "overhead", "ceilings")

    def __init__(self, out: Path, device: str, *, quick: bool, until: float) -> None:
        self.out, self.device, self.quick, self.until = out, device, quick, until
        self.checks: list[Check] = []
        self.gpus = list_gpus() if device == "cuda" else []

    def run(self, parts: tuple[str, ...]) -> Iterator[Check]:
        """Make the checks of the parts, and yield each as soon as it is made."""
        works: dict[str, Callable[[], Iterator[Check]]] = {
            "captures": self._captures,
            "overhead": self._overhead,
            "ceilings": self._ceilings,
        }
        for part in self.PARTS:
            if part not in parts:
                continue
            in_time = time.monotonic() <= self.until
            for check in _guarded(part, works[part]) if in_time else [skip(part, "no time left")]:
                self.checks.append(check)
                yield check

    def write_facts(self) -> None:
        """Write the facts of the node that figures depend on."""
        import torch

        facts = {
            "device": self.device,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "python": platform.python_version(),
            "gpus": [{"name": each.name, "driver": each.driver, "source": each.source} for each in self.gpus],
            "tools": {name: shutil.which(name) is not None for name in ("nsys", "ncu")},
            "captures": [
                asdict(each) | {"truth": each.truth(self.device)}
                for each in truths.captures(self.device, len(self.gpus))
            ],
            "recorded_steps": truths.RECORDED,
        }
        (self.out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")

    def _captures(self) -> Iterator[Check]:
        for capture in truths.captures(self.device, len(self.gpus)):
            name = f"capture {capture.run}"
            if time.monotonic() > self.until:
                yield skip(name, "no time left")
            elif capture.gpu_only and self.device != "cuda":
                yield skip(name, "needs a GPU")
            elif capture.workload == "collectives" and capture.ranks == 1:
                yield skip(name, "needs at least two GPUs")
            elif capture.profiler in ("nsys", "ncu") and has_amd_gpus():
                yield skip(name, f"{capture.profiler} records GPUs of NVIDIA alone")
            elif capture.profiler in ("nsys", "ncu") and shutil.which(capture.profiler) is None:
                yield skip(name, f"{capture.profiler} is not in PATH")
            else:
                yield self._capture(name, capture)

    def _capture(self, name: str, capture: truths.Capture) -> Check:
        own = {"parallel": "ddp", "gpus": capture.ranks} if capture.ranks > 1 else {}
        window = {} if capture.profiler == "ncu" else {"wait": 1}
        active = 1 if capture.profiler == "ncu" else truths.RECORDED
        options = {"steps": truths.STEPS, "active": active, "profiler": capture.profiler, "set": capture.settings}
        status, error = self._train(capture.workload, capture.run, **options, **own, **window)
        if status == "permission_denied":
            return skip(name, error)
        check = equal(name, status, "ok")
        return check if check.status == PASS else Check(name, check.status, status, "ok", error)

    def _train(self, workload: str, run: str, **options: Any) -> tuple[str, str]:  # noqa: ANN401
        common = {"device": self.device, "out": self.out, "run": run, "sample_s": 0.5, "timeout_s": 120.0}
        try:
            result = train(Settings(workload, **common, **options))
        except (TracelabError, CaptureError) as error:
            return "refused", str(error)
        return result.status, result.error or result.note or ""

    def _overhead(self) -> Iterator[Check]:
        """Compare the steps of runs without a profiler with those before, in and after a recorded window.

        The first and the last run have no profiler, which shows what runs differ by. On CUDA, Kineto records twice: it
        detaches CUPTI after the window, or leaves it attached (--keep-attached).
        """
        recorded, steps = (5, 20) if self.quick else (10, 120)
        size = {} if self.device == "cpu" else {"set": {"width": "512", "layers": "4", "context": "256"}}
        kineto = {"profiler": "kineto", "active": recorded, "wait": steps // 2}
        attached = kineto | {"keep_attached": True}
        runs: dict[str, dict[str, Any]] = {"none": {}, "kineto": kineto, "attached": attached, "again": {}}
        if self.device == "cpu" or has_amd_gpus():
            del runs["attached"]
        rows = {}
        for name, options in runs.items():
            status, note = self._train("transformer", f"overhead-{name}", steps=steps, warmup=5, **options, **size)
            if status != "ok":
                yield Check(f"overhead-{name}", FAIL, status, "ok", note)
                return
            rows[name] = read_steps(self.out / f"overhead-{name}")
        yield equal("steps recorded", len(_durations(rows["kineto"], "recording")), recorded)
        for check in compare_steps(rows):
            yield check if self.device == "cuda" else without_verdict(check, _ANY_GPU)

    def _ceilings(self) -> Iterator[Check]:
        parts = ("stream", "l2", "gemm", "copies", "p2p") + (("collectives",) if len(self.gpus) != 1 else ())
        some = ("0", "1") if len(self.gpus) > 1 else ()  # a minute a card
        options = CeilingOptions(self.device, parts, quick=True, gpu=some, out=self.out, run="ceilings")
        begun = time.monotonic()
        result = measure(options)
        yield equal("ceilings measured", result.status, "ok")
        yield Check("seconds of ceilings", PASS, f"{time.monotonic() - begun:.0f} s", "")
        rows = read_rows(self.out / "ceilings" / "ceilings.jsonl")
        yield from judge_ceilings(rows)


def judge_ceilings(rows: list[dict[str, Any]]) -> Iterator[Check]:
    """Check the ceilings of each card against its data sheet, and against each other."""
    rows = [row for row in rows if (row["gpus"] or 1) == 1]
    for uuid in dict.fromkeys(row["uuid"] for row in rows):
        own = [row for row in rows if row["uuid"] == uuid and "skipped" not in row]
        card = own[0]["device_name"] if own else "unknown"
        label = f"{card} {(uuid or '')[:12]}".strip()
        sheet = specified_rates(card)
        for rate, (metrics, least, most) in _BANDS.items():
            row = _fastest(own, *metrics)
            name = f"{label}: {metrics[0] if len(metrics) == 1 else rate} sustained of the data sheet"
            if rate not in sheet:
                yield skip(name, "the data sheet has no such rate" if sheet else f"no data sheet of {card}")
            elif row is None:
                yield skip(name, "not measured")
            else:
                specified = sheet[rate]
                lowered = least * _share_of_clock(row.get("clock_hz"), specified.clock_hz)
                yield between(name, _rate(row) / specified.rate, lowered, most)
        yield from _judge_relations(label, own)


def _judge_relations(label: str, own: list[dict[str, Any]]) -> Iterator[Check]:
    """Check relations that hold on any GPU."""
    h2d, both, pageable = (_sustained(own, name) for name in ("h2d_pinned", "bidir_pinned", "h2d_pageable"))
    if h2d is None:
        return
    yield between(f"{label}: h2d_pinned", h2d, 2, 500, " GB/s")
    if both is not None:
        yield between(f"{label}: both directions at once over one", both / h2d, 0.9, 2.2)
    if pageable is not None:
        yield between(f"{label}: pageable over pinned", pageable / h2d, 0.02, 1.1)
    latency = next((row["best"] for row in own if row["metric"] == "h2d_pinned_latency"), None)
    yield between(f"{label}: latency of a copy", latency, 500, 50_000, " ns")
    l2, dram = _sustained(own, "l2_copy", "l2_triad"), _sustained(own, "dram_copy", "dram_triad")
    if l2 is not None and dram is not None:
        yield between(f"{label}: L2 over DRAM", l2 / dram, 1, 12)


def _share_of_clock(clock_hz: int | None, specified_hz: float | None) -> float:
    """Return the share of the data sheet's clock that a card ran at; 1 where either is unknown, or does not matter."""
    return min(1.0, clock_hz / specified_hz) if clock_hz and specified_hz else 1.0


def _fastest(rows: list[dict[str, Any]], *metrics: str) -> dict[str, Any] | None:
    """Return the row of the measurements that sustains the highest rate over all shapes."""
    return max((row for row in rows if row["metric"] in metrics), key=_rate, default=None)


def _rate(row: dict[str, Any]) -> float:
    rate: float = row.get("sustained") or row["median"]
    return rate


def _sustained(rows: list[dict[str, Any]], *metrics: str) -> float | None:
    row = _fastest(rows, *metrics)
    return None if row is None else _rate(row)


def compare_steps(rows: dict[str, list[dict[str, Any]]]) -> Iterator[Check]:
    """Check the steps of runs that were recorded against those of the runs `none` and `again`, which were not.

    The CPU bounds these steps, so a profiler costs most here, and runs of one program differ by a tenth.
    """
    base = statistics.median([*_durations(rows["none"]), *_durations(rows["again"])])

    def compare(name: str, steps: list[int], least: float, most: float) -> Iterator[Check]:
        if steps:
            title = f"{name} over those without a profiler"
            yield between(title, statistics.median(steps) / base, least, most)

    kineto, attached = (_split_at_window(rows.get(run, [])) for run in ("kineto", "attached"))
    yield from compare("steps of the last run, without a profiler,", _durations(rows["again"]), 0.85, 1.15)
    yield from compare("steps before the window", kineto.before, 0.85, 1.15)
    yield from compare("recorded steps", kineto.recorded, 0.9, 2.5)
    yield from compare("steps after the window", kineto.after, 0.85, 1.2)
    yield from compare("steps after the window, CUPTI left attached,", attached.after, 0.9, 1.6)
    if recorded := kineto.recorded:
        yield between(
            "first recorded step over the recorded median", recorded[0] / statistics.median(recorded), 0.5, 1.5
        )


class _Parts(NamedTuple):
    """Durations of the steps of a run, in ns, without the one in which the profiler is prepared."""

    before: list[int]
    recorded: list[int]
    after: list[int]


def _split_at_window(steps: list[dict[str, Any]]) -> _Parts:
    states = [row["profiler_state"] for row in steps]
    if "recording" not in states:
        return _Parts([], [], [])
    first, last = states.index("recording"), len(states) - 1 - states[::-1].index("recording")
    before = [row for row in steps[:first] if row["profiler_state"] == "off"]
    return _Parts(_durations(before), _durations(steps[first : last + 1]), _durations(steps[last + 1 :]))


def read_steps(run: Path) -> list[dict[str, Any]]:
    """Return the training steps of rank 0, the first three left out."""
    return [row for row in read_rows(run / "steps.rank0.jsonl") if row["phase"] == "train"][3:]


def _durations(steps: list[dict[str, Any]], state: str | None = None) -> list[int]:
    return [row["dur_ns"] for row in steps if state is None or row.get("profiler_state") == state]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines, its header left out."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]
