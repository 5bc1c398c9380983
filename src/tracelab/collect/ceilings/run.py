"""`collect ceilings`: measure a machine part by part, writing each figure as soon as it is known."""

import contextlib
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tracelab import __version__
from tracelab.collect.ceilings import links
from tracelab.collect.ceilings.kernels import Bench, measurements
from tracelab.collect.ceilings.rows import Row
from tracelab.collect.ceilings.sizes import SIZES
from tracelab.collect.machine import Gpu, Sampler, list_gpus, read_host
from tracelab.collect.process.launch import Interrupted, raise_on_signals
from tracelab.collect.run_folder import RUN_FORMAT, RUN_JSON, JsonLines, claim_run_folder, release_reserve, write_json
from tracelab.errors import TracelabError, UsageError
from tracelab.run_names import check_run_name

PARTS = ("stream", "gemm", "copies", "collectives")
_SAMPLE_S = 0.2
_CPU_RANKS = 2


@dataclass(frozen=True)
class CeilingOptions:
    """Options of a measurement."""

    device: str = "auto"
    parts: tuple[str, ...] = PARTS
    quick: bool = False
    ranks: int | None = None
    out: Path = Path("runs")
    run: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Result:
    """The result of a measurement; `skipped` has the reason for each part that could not be measured."""

    folder: Path
    status: str
    error: str | None
    figures: int
    skipped: dict[str, str]
    interrupted: int | None = None


def measure(options: CeilingOptions, report: Callable[[Row], None] = lambda _row: None) -> Result:
    """Measure and write a run folder; raises TracelabError if it cannot start."""
    bench = _bench(options)
    run = check_run_name(options.run or f"ceilings-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}")
    folder = options.out / run
    with claim_run_folder(folder, force=options.force):
        gpu = next(iter(list_gpus()), None) if bench.cuda else None
        run_json = _initial_run_json(options, bench, run, gpu)
        write_json(folder / RUN_JSON, run_json)
        sampler = Sampler(folder / "host_samples.0.jsonl", _SAMPLE_S)
        session = _Session(bench, gpu, sampler, report)
        signal = None
        try:
            with raise_on_signals(), sampler:
                session.measure(options)
        except Interrupted as interrupted:
            signal = interrupted.number
        finally:
            session.lines.close()
        release_reserve(folder)
        status, error = _verdict(session, signal)
        final = {"status": status, "error": error, "ended_at": datetime.now(UTC).isoformat()}
        tags = {"throttle_reasons": ", ".join(sorted(session.throttled)) or "none"} if gpu else {}
        write_json(folder / RUN_JSON, run_json | final | {"tags": tags, "not_measured": session.skipped})
        return Result(folder, status, error, session.figures, session.skipped, signal)


def _verdict(session: "_Session", signal: int | None) -> tuple[str, str | None]:
    if signal is not None:
        return "failed", "interrupted; earlier measurements are kept"
    if not session.figures:
        return "failed", "; ".join(f"{part}: {why}" for part, why in session.skipped.items()) or "nothing was measured"
    return "ok", None


class _Session:
    """A running measurement."""

    def __init__(self, bench: Bench, gpu: Gpu | None, sampler: Sampler, report: Callable[[Row], None]) -> None:
        folder = sampler.path.parent
        self.lines = JsonLines(folder / "ceilings.jsonl", "ceilings/1", folder.name, 0)
        self.skipped: dict[str, str] = {}
        self.throttled: set[str] = set()
        self.figures = 0
        self._bench, self._gpu, self._sampler, self._report = bench, gpu, sampler, report
        self._host = read_host()

    def measure(self, options: CeilingOptions) -> None:
        """Measure every part; one that fails does not end the others."""
        for part, work in measurements(self._bench, options.parts):
            with self._skip_on_error(part):
                self._write(work, 1 if self._bench.cuda else None)
            if self._bench.cuda:
                self._bench.torch.cuda.empty_cache()
        if "collectives" in options.parts:
            ranks = options.ranks or (self._bench.torch.cuda.device_count() if self._bench.cuda else _CPU_RANKS)
            if ranks == 1:
                self.skipped["collectives"] = "needs at least two GPUs"
                return
            with self._skip_on_error("collectives"):
                work = partial(links.measure_collectives, self._bench.device.type, ranks, self._bench.sizes)
                self._write(work, ranks if self._bench.cuda else None)

    @contextlib.contextmanager
    def _skip_on_error(self, part: str) -> Iterator[None]:
        """Record a part that fails, for want of memory or of the device, as skipped."""
        try:
            yield
        except (RuntimeError, TracelabError, MemoryError) as error:  # torch's errors are RuntimeErrors
            self.skipped[part] = " ".join(str(error).split())[:300] or type(error).__name__

    def _write(self, work: Callable[[], list[Row]], gpus: int | None) -> None:
        """Measure, and add GPU, clock under load and power limit to each row."""
        begun = time.monotonic()
        rows = work()
        samples = self._sampler.recent(begun) if self._gpu else []
        clock_hz, throttled = at_work(samples)
        self.throttled |= throttled
        for row in rows:
            common = {
                "host": self._host.name,
                "device_name": self._gpu.name if self._gpu else _processor(self._host.processor, self._bench),
                "uuid": self._gpu.uuid if self._gpu else None,
                **row,
                "gpus": gpus,
                "clock_hz": clock_hz,
                "power_limit_w": self._gpu.power_limit_w if self._gpu else None,
            }
            self.lines.append(common)
            self.figures += 1
            self._report(common)


def at_work(seen: Sequence[Gpu]) -> tuple[int | None, set[str]]:
    """Return the median clock of a GPU under load, and its throttle reasons; idle samples do not count."""
    busy = [(gpu, set((gpu.throttle_reasons or "none").split(", "))) for gpu in seen]
    busy = [(gpu, reasons) for gpu, reasons in busy if "gpu_idle" not in reasons]
    clocks = [gpu.sm_clock_hz for gpu, _ in busy if gpu.sm_clock_hz is not None]
    return statistics.median_low(clocks) if clocks else None, set().union(*(reasons for _, reasons in busy)) - {"none"}


def _processor(name: str | None, bench: Bench) -> str | None:
    """Return the name of the device; a CPU's name starts with CPU."""
    if bench.cuda:
        return str(bench.torch.cuda.get_device_name(bench.device))
    return f"CPU {name}" if name and not name.startswith("CPU") else name or "CPU"


def _bench(options: CeilingOptions) -> Bench:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise TracelabError("torch is not installed here; pip install torch, or tracelab[collect]") from error
    there = torch.cuda.is_available()
    if options.device == "cuda" and not there:
        raise UsageError("--device cuda: torch sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES")
    if options.ranks is not None and there and options.device != "cpu" and options.ranks > torch.cuda.device_count():
        raise UsageError(f"--gpus {options.ranks}: torch sees {torch.cuda.device_count()} GPUs; lower --gpus")
    kind = "cuda" if there and options.device != "cpu" else "cpu"
    return Bench(torch, torch.device(kind, 0) if kind == "cuda" else torch.device(kind), SIZES[kind, options.quick])


def _initial_run_json(options: CeilingOptions, bench: Bench, run: str, gpu: Gpu | None) -> dict[str, Any]:
    torch = bench.torch
    return {
        "tracelab": RUN_FORMAT,
        "run": run,
        "program": "ceilings",
        "workload": "ceilings",
        "gpus": 1 if bench.cuda else 0,
        "profiler": "none",
        "status": "not_run",
        "error": None,
        "host": read_host().name,
        "gpu": gpu.name if gpu else None,
        "driver": gpu.driver if gpu else None,
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "started_at": datetime.now(UTC).isoformat(),
        "tags": {},
        "axes": {"device": bench.device.type, "quick": options.quick, "parts": list(options.parts)},
        "versions": {"tracelab": __version__},
        "expects": {"ranks": [0], "files": ["ceilings.jsonl"]},
    }
