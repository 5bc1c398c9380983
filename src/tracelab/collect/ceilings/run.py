"""`collect ceilings`: measure a machine card by card and part by part, writing each figure as soon as it is known."""

import importlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tracelab import __version__
from tracelab.collect.ceilings import cards, links, rows
from tracelab.collect.ceilings.copies import copy_measurements, measure_peer_copies
from tracelab.collect.ceilings.kernels import Measured, gemm_measurements, measure_l2, measure_streams
from tracelab.collect.ceilings.rows import Row
from tracelab.collect.ceilings.sizes import SIZES
from tracelab.collect.ceilings.timing import Bench
from tracelab.collect.machine import Gpu, Sampler, list_gpus, read_host, recorded_environment
from tracelab.collect.process.launch import Interrupted, raise_on_signals
from tracelab.collect.process.launcher_env import read_launcher_env
from tracelab.collect.run_folder import RUN_FORMAT, RUN_JSON, JsonLines, claim_run_folder, release_reserve, write_json
from tracelab.errors import TracelabError, UsageError
from tracelab.run_names import check_run_name

PARTS = ("stream", "l2", "gemm", "copies", "p2p", "collectives")
STEADY_RATIO = 0.8
"""Least ratio of the median to the best of a figure that nothing disturbs."""
_SAMPLE_S = 0.2
_CPU_RANKS = 2


@dataclass(frozen=True)
class CeilingOptions:
    """Options of a measurement."""

    device: str = "auto"
    parts: tuple[str, ...] = PARTS
    quick: bool = False
    ranks: int | None = None
    gpu: tuple[str, ...] = ()
    """Ordinals or UUIDs of the GPUs to measure; all if empty."""
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
    varying: int = 0
    """Figures whose median is far below the best: other work disturbed them."""
    is_cpu: bool = False

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know, in sentences."""
        notes = []
        if self.varying:
            notes.append(
                f"{self.varying} of {self.figures} figures vary: their median is below {100 * STEADY_RATIO:g} % of the "
                "best; measure again on an idle machine"
            )
        if self.is_cpu and self.figures:
            notes.append("roofline, mfu and op_flop compare GPUs alone; figures of a CPU are in the table ceilings")
        return notes


@dataclass(frozen=True)
class Target:
    """One device to measure, and its card as NVML or nvidia-smi lists it."""

    bench: Bench
    name: str | None
    uuid: str | None = None
    bus_id: str | None = None
    card: Gpu | None = None


def measure(options: CeilingOptions, report: Callable[[Row], None] = lambda _row: None) -> Result:
    """Measure and write a run folder; raises TracelabError if it cannot start."""
    refuse_shared_node(os.environ)
    targets = _targets(options)
    run = check_run_name(options.run or f"ceilings-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}{_host_suffix()}")
    folder = options.out / run
    with claim_run_folder(folder, force=options.force):
        run_json = _initial_run_json(options, targets, run)
        write_json(folder / RUN_JSON, run_json)
        sampler = Sampler(folder / "host_samples.0.jsonl", _SAMPLE_S)
        session = _Session(sampler, report)
        signal = None
        try:
            with raise_on_signals(), sampler:
                session.measure(options, targets)
        except Interrupted as interrupted:
            signal = interrupted.number
        finally:
            session.lines.close()
        release_reserve(folder)
        status, error = _verdict(session, signal)
        final = {"status": status, "error": error, "ended_at": datetime.now(UTC).isoformat()}
        tags = {"throttle_reasons": ", ".join(sorted(session.throttled)) or "none"} if targets[0].card else {}
        write_json(folder / RUN_JSON, run_json | final | {"tags": tags, "not_measured": session.skipped})
        is_cpu = not targets[0].bench.cuda
        return Result(folder, status, error, session.figures, session.skipped, signal, session.varying, is_cpu)


def refuse_shared_node(environment: Mapping[str, str]) -> None:
    """Raise UsageError where a launcher started several processes here, which would measure the same GPUs at once."""
    job = read_launcher_env(environment)
    if job is not None and job.local_world_size > 1:
        once = "srun --ntasks-per-node=1" if job.launcher == "srun" else "it without torchrun"
        raise UsageError(
            f"{job.launcher} started {job.local_world_size} processes on this node, and each would measure the same "
            f"GPUs at the same time; start {once}"
        )


def _host_suffix() -> str:
    """Return the node's name for the default run name where a job has several nodes; else ""."""
    job = read_launcher_env(os.environ)
    return f"-{read_host().name}" if job is not None and job.world_size > 1 else ""


def _verdict(session: "_Session", signal: int | None) -> tuple[str, str | None]:
    if signal is not None:
        return "failed", "interrupted; earlier measurements are kept"
    if not session.figures:
        return "failed", "; ".join(f"{part}: {why}" for part, why in session.skipped.items()) or "nothing was measured"
    return "ok", None


class _Session:
    """A running measurement."""

    def __init__(self, sampler: Sampler, report: Callable[[Row], None]) -> None:
        folder = sampler.path.parent
        self.lines = JsonLines(folder / "ceilings.jsonl", "ceilings/1", folder.name, 0)
        self.skipped: dict[str, str] = {}
        self.throttled: set[str] = set()
        self.figures = 0
        self.varying = 0
        self._sampler, self._report = sampler, report
        self._host = read_host()

    def measure(self, options: CeilingOptions, targets: Sequence[Target]) -> None:
        """Measure every part of every target; one that fails does not end the others."""
        for target in targets:
            with cards.run_beside(target.bus_id) as near:
                for part, work in _measurements(target.bench, options.parts):
                    self._measure_part(part, target, work, {"near": near} if near else {})
        first = targets[0]
        if "p2p" in options.parts:
            self._measure_peers(targets)
        if "collectives" in options.parts:
            ranks = options.ranks or (first.bench.torch.cuda.device_count() if first.bench.cuda else _CPU_RANKS)
            if ranks == 1:
                self._skip("collectives", "needs at least two GPUs", first)
                return
            work = partial(links.measure_collectives, first.bench.device.type, ranks, first.bench.sizes)
            self._measure_part("collectives", first, work, {"uuid": None, "gpus": ranks if first.bench.cuda else None})

    def _measure_peers(self, targets: Sequence[Target]) -> None:
        if len(targets) == 1:
            self._skip("p2p", "needs at least two GPUs", targets[0])
        for source in targets:
            for other in targets:
                if source is not other:
                    ordinals = source.bench.device.index, other.bench.device.index
                    with cards.run_beside(source.bus_id):
                        work = partial(measure_peer_copies, source.bench, *ordinals)
                        self._measure_part("p2p", source, work, {"gpus": 2, "peer_uuid": other.uuid})

    def _measure_part(
        self, part: str, target: Target, work: Callable[[], Iterator[Row]], more: Mapping[str, object]
    ) -> None:
        """Measure a part and write its rows; one that fails, for want of memory or of the device, is skipped."""
        try:
            begun = time.monotonic()
            for row in work():
                self._write(row, target, begun, more)
                begun = time.monotonic()
        except (RuntimeError, TracelabError, MemoryError) as error:  # torch's errors are RuntimeErrors
            self._skip(part, " ".join(str(error).split())[:300] or type(error).__name__, target)
        if target.bench.cuda:
            target.bench.torch.cuda.empty_cache()

    def _skip(self, part: str, reason: str, target: Target) -> None:
        self.skipped.setdefault(part, reason)
        self._write(rows.skipped(part, reason), target, time.monotonic(), {})

    def _write(self, row: Row, target: Target, begun: float, more: Mapping[str, object]) -> None:
        """Write a row, with the card, its clock under load, its power limit, and what limited the clock."""
        samples = self._sampler.recent(begun, target.card.device) if target.card else []
        clock_hz, throttled = at_work(samples)
        self.throttled |= throttled
        more = dict(more)
        near = more.pop("near", None)
        is_copy = target.bench.cuda and row["metric"].endswith(("pinned", "pageable"))
        common = {
            "host": self._host.name,
            "device_name": target.name,
            "uuid": target.uuid,
            **row,
            "gpus": 1 if target.bench.cuda else None,
            "clock_hz": clock_hz,
            "power_limit_w": target.card.power_limit_w if target.card else None,
            "throttle_reasons": (", ".join(sorted(throttled)) or "none") if samples else None,
            **more,
        }
        if near and is_copy and "counting" in row:
            common["counting"] = f"{row['counting']}; {near}"
        self.lines.append(common)
        if "skipped" in row:
            self.skipped.setdefault(row["metric"], row["skipped"])
            return
        self.figures += 1
        self.varying += common["median"] < STEADY_RATIO * common["best"]
        self._report(common)


def _measurements(bench: Bench, parts: tuple[str, ...]) -> Iterator[Measured]:
    """Yield every measurement of one device."""
    if "stream" in parts:
        yield "stream", partial(measure_streams, bench)
    if "l2" in parts:
        yield "l2", partial(measure_l2, bench)
    if "gemm" in parts:
        yield from gemm_measurements(bench)
    if "copies" in parts:
        yield from copy_measurements(bench)


def at_work(seen: Sequence[Gpu]) -> tuple[int | None, set[str]]:
    """Return the median clock of a GPU under load, and its throttle reasons; idle samples do not count."""
    busy = [(gpu, set((gpu.throttle_reasons or "none").split(", "))) for gpu in seen]
    busy = [(gpu, reasons) for gpu, reasons in busy if "gpu_idle" not in reasons]
    clocks = [gpu.sm_clock_hz for gpu, _ in busy if gpu.sm_clock_hz is not None]
    return statistics.median_low(clocks) if clocks else None, set().union(*(reasons for _, reasons in busy)) - {"none"}


def _targets(options: CeilingOptions) -> list[Target]:
    """Return the devices to measure; raises UsageError for options that this machine cannot meet."""
    torch = _import_torch()
    count = torch.cuda.device_count() if torch.cuda.is_available() and options.device != "cpu" else 0
    if options.device == "cuda" and not count:
        raise UsageError("--device cuda: torch sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES")
    if options.gpu and not count:
        raise UsageError(f"--gpu {options.gpu[0]}: no GPU is measured here; remove the option")
    if options.ranks is not None and count and options.ranks > count:
        raise UsageError(f"--gpus {options.ranks}: torch sees {count} GPUs; lower --gpus")
    if not count:
        return [
            Target(Bench(torch, torch.device("cpu"), SIZES["cpu", options.quick]), _processor(read_host().processor))
        ]
    listed = list_gpus()
    found = [_target_gpu(torch, ordinal, listed, quick=options.quick) for ordinal in range(count)]
    return _choose(found, options.gpu)


def _target_gpu(torch: Any, ordinal: int, listed: Sequence[Gpu], *, quick: bool) -> Target:  # noqa: ANN401
    properties = torch.cuda.get_device_properties(ordinal)
    card = cards.match_card(properties, ordinal, listed)
    bench = Bench(torch, torch.device("cuda", ordinal), SIZES["cuda", quick])
    return Target(
        bench,
        card.name if card and card.name else str(properties.name),
        cards.torch_uuid(properties) or (card.uuid if card else None),
        cards.torch_bus_id(properties),
        card,
    )


def _choose(targets: list[Target], wanted: tuple[str, ...]) -> list[Target]:
    """Return the targets that ordinals or beginnings of UUIDs name."""
    if not wanted:
        return targets
    chosen = []
    for text in wanted:
        matches = [
            each
            for each in targets
            if text == str(each.bench.device.index) or (each.uuid or "").startswith((text, f"GPU-{text}"))
        ]
        matches = [each for each in matches if text.isdecimal() is False or text == str(each.bench.device.index)]
        if len(matches) != 1:
            known = ", ".join(f"{each.bench.device.index} ({each.uuid})" for each in targets)
            raise UsageError(f"--gpu {text}: names {len(matches)} of the GPUs here; choose of {known}")
        chosen += [each for each in matches if each not in chosen]
    return chosen


def _import_torch() -> Any:  # noqa: ANN401
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise TracelabError("torch is not installed here; pip install torch, or tracelab[collect]") from error


def _processor(name: str | None) -> str:
    """Return the name of the processor; it starts with CPU."""
    return f"CPU {name}" if name and not name.startswith("CPU") else name or "CPU"


def _initial_run_json(options: CeilingOptions, targets: Sequence[Target], run: str) -> dict[str, Any]:
    first = targets[0]
    torch = first.bench.torch
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if first.bench.cuda else None
    return {
        "tracelab": RUN_FORMAT,
        "run": run,
        "program": "ceilings",
        "workload": "ceilings",
        "gpus": len(targets) if first.bench.cuda else 0,
        "profiler": "none",
        "status": "not_run",
        "error": None,
        "host": read_host().name,
        "gpu": first.name if first.bench.cuda else None,
        "driver": first.card.driver if first.card else None,
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "started_at": datetime.now(UTC).isoformat(),
        "tags": {},
        "axes": {"device": first.bench.device.type, "quick": options.quick, "parts": list(options.parts)},
        "environment": recorded_environment(os.environ),
        "versions": {"tracelab": __version__, "nccl_version": nccl, "hip_version": torch.version.hip},
        "expects": {"ranks": [0], "files": ["ceilings.jsonl"]},
    }
