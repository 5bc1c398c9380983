"""Generates the run folders of five sweeps on GPUs that do not exist, as `tracelab collect sweep` would leave them.

    python data/sweeps.py

Everything follows from the sizes of the models, the settings below and fixed seeds: running it again gives the same
bytes. Every run says that it is generated. Times and memory are invented by the rules of `sweep_timing.py`; those of
`generated-machines` are figures that a study published (G. Nicka, Bristol, 2021, tables I to IV). None of them are
performance of anything.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

from sweep_timing import GENERATED, Cell, peaks, step_ns
from sweep_trace import trace

FOLDER = Path(__file__).parent / "generated" / "sweeps"
START_NS = 1_790_000_000_000_000_000
WARMUP = 2
PUBLISHED_MACHINES = (("BC4 as published", "Tesla P100", 16e9), ("BP as published", "RTX 3080 Ti", 12e9))
PUBLISHED = {
    "cifar10": {
        "vgg16_bn": ((5.3, 72, 11.3), (5.6, 69, 10.1)),
        "squeezenet": ((5.3, 75, 2.2), (3.7, 10, 2.1)),
        "alexnet": ((5.5, 73, 1.1), (3.6, 66, 1.0)),
        "vgg19": ((5.3, 74, 2.1), (5.5, 77, 2.1)),
        "resnet18": ((5.6, 75, 2.5), (4.0, 58, 2.3)),
    },
    "cifar100": {
        "vgg16_bn": ((5.3, 53, 12.2), (5.5, 43, 10.7)),
        "squeezenet": ((5.2, 53, 2.4), (3.6, 11, 2.6)),
        "alexnet": ((5.7, 54, 1.3), (3.6, 42, 1.9)),
        "vgg19": ((6.1, 53, 2.3), (5.5, 50, 2.3)),
        "resnet18": ((5.3, 53, 2.7), (4.0, 46, 8.8)),
    },
}
"""Minutes of an epoch, accuracy in percent and GB of GPU memory, by data set, model and machine."""
Files = dict[str, bytes]


def main() -> None:
    """Write all sweeps below `data/generated/sweeps`."""
    for name, content in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    print(f"{len(files())} files in {FOLDER}")


def files() -> Files:
    """Return every file's name and bytes."""
    found: Files = {}
    for name, cells in (("scaling", _scaling()), ("shares", _shares()), ("settings", _settings())):
        for cell in cells:
            found |= _folder(replace(cell, sweep=f"generated-{name}"))
    for folder in (*_trainings(), *_machines()):
        found |= folder
    return found | _records(found)


def _scaling() -> Iterator[Cell]:
    """Two models by batch size and GPUs; one cell runs out of time, one never ran, large ones run out of memory."""
    for model, batches in (("alexnet", (16, 64, 128, 256)), ("vgg16", (16, 64, 256))):
        for batch in batches:
            for gpus, parallel in ((1, "none"), (2, "dp"), (4, "dp"), (2, "ddp")):
                cell = Cell(model, batch, gpus, parallel)
                short = {("alexnet", 16, 4): "timeout", ("vgg16", 64, 4): "not_run"}.get((model, batch, gpus))
                yield replace(cell, status=short or ("oom" if cell.overflows else "ok"))
    for batch in (16, 64):
        yield Cell("alexnet", batch, 0, "none")


def _shares() -> Iterator[Cell]:
    """Three models by batch size, on four GPUs under DataParallel."""
    for model in ("alexnet", "resnet18", "vgg16"):
        for batch in (4, 16, 32, 64):
            yield Cell(model, batch, 4, "dp")


def _settings() -> Iterator[Cell]:
    """One setting at a time: pinned memory, loader workers, number format."""
    for model in ("vgg16", "resnet18", "alexnet", "densenet121"):
        for pinned in (False, True):
            yield Cell(model, 64, pin_memory=pinned)
    for workers in (0, 1, 2):
        yield Cell("resnet18", 64, workers=workers)
    for precision in ("tf32", "fp16", "bf16"):
        yield Cell("vgg16", 64, precision=precision)


def _folder(cell: Cell) -> Files:
    """The files of one run, by their names."""
    place = f"{cell.sweep}/{cell.run}"
    found = {f"{place}/run.json": _json(cell.description())}
    if cell.status == "not_run":
        return found
    for rank in range(cell.processes if cell.status != "oom" else 0):
        text = trace(cell, rank, f"{cell.run}/rank{rank}.pt.trace.json")
        found[f"{place}/rank{rank}.pt.trace.json.gz"] = gzip.compress(text.encode(), 9, mtime=0)
        if cell.sweep != "generated-shares":
            found[f"{place}/steps.rank{rank}.jsonl"] = _lines("steps", cell.run, rank, _steps(cell))
    if cell.sweep == "generated-shares":
        found[f"{place}/ops.rank0.json"] = _json(cell.flops())
    elif cell.sweep == "generated-scaling" and cell.gpus:
        for rank in range(cell.processes):
            found[f"{place}/memory_peaks.rank{rank}.jsonl"] = _lines("memory_peaks", cell.run, rank, _peaks(cell, rank))
    return found


def _steps(cell: Cell) -> Iterator[dict[str, object]]:
    """Warm-up, the steps of one epoch, and the epoch where it came to its end."""
    dur_ns, at_ns = step_ns(cell), START_NS
    trained = cell.steps[:6] if cell.status == "timeout" else cell.steps
    for number, samples in enumerate([cell.batch] * WARMUP + trained):
        phase = "warmup" if number < WARMUP else "train"
        took_ns = dur_ns * (3 if number == 0 else 1) + (number * 7919) % 1009
        yield _step(at_ns, took_ns, phase, number if phase == "warmup" else number - WARMUP) | {
            "epoch": None if phase == "warmup" else 0,
            "samples": samples,
            "data_wait_ns": cell.wait_ns(dur_ns),
            "loss": round(6.91 - 0.01 * number, 4),
            "accuracy": 0.001,
        }
        at_ns += took_ns
    if cell.status == "ok":
        yield _step(START_NS, at_ns - START_NS, "epoch", None) | {"epoch": 0, "samples": sum(trained)}


def _step(start_ns: int, dur_ns: int, phase: str, step: int | None) -> dict[str, object]:
    return {"start_ns": start_ns, "dur_ns": dur_ns, "phase": phase, "step": step}


def _peaks(cell: Cell, rank: int) -> Iterator[dict[str, object]]:
    for device, allocated in enumerate(peaks(cell)) if cell.parallel != "ddp" else [(rank, peaks(cell)[0])]:
        yield {
            "device": device,
            "epoch": 0,
            "step": None if cell.status == "oom" else 0,
            "allocated_bytes": allocated,
            "reserved_bytes": -(-allocated // 2**21) * 2**21 + 2**25,
            "used_bytes": -(-allocated // 2**21) * 2**21 + 2**25 + 520_093_696,
        }


def _trainings() -> Iterator[Files]:
    """Curves of learning: with trained weights and from scratch, at three rates; one never leaves chance."""
    sweep, epochs = "generated-training", 16
    cases = [("resnet18", True, 0.01, 0.62, 0.93, 2.0), ("resnet18", False, 0.01, 0.3, 0.88, 5.0)]
    cases += [("resnet18", False, 0.001, 0.2, 0.8, 9.0), ("squeezenet", True, 0.01, 0.1, 0.1, 1.0)]
    for model, pretrained, rate, first, last, slowness in cases:
        cell = Cell(model, 64, sweep=sweep, dataset="cifar10", epochs=epochs, pretrained=pretrained, learning_rate=rate)
        rows: list[dict[str, object]] = []
        for epoch in range(epochs):
            share = 1 - exp(-epoch / slowness)
            accuracy = first + (last - first) * share + (((epoch * 7919) % 13) - 6) / 10_000
            loss = log(10) if first == last else log(10) * (1 - 0.97 * accuracy)
            rows += _epoch(epoch, 90_000_000_000, accuracy, loss)
        place = f"{sweep}/{cell.run}"
        yield {f"{place}/run.json": _json(cell.description()),
               f"{place}/steps.rank0.jsonl": _lines("steps", cell.run, 0, rows)}  # fmt: skip


def _epoch(epoch: int, dur_ns: int, accuracy: float, loss: float) -> list[dict[str, object]]:
    """Two steps, the epoch and its validation."""
    start_ns = START_NS + epoch * (dur_ns + 9_000_000_000)
    common = {"epoch": epoch, "samples": 64, "loss": round(loss * 1.04, 4), "accuracy": round(accuracy * 0.97, 4)}
    found = [_step(start_ns + at * dur_ns // 2, dur_ns // 2, "train", at) | common for at in range(2)]
    found.append(_step(start_ns, dur_ns, "epoch", None) | common | {"samples": 50_000})
    validated = {"epoch": epoch, "samples": 10_000, "loss": round(loss, 4), "accuracy": round(accuracy, 4)}
    return [*found, _step(start_ns + dur_ns, 9_000_000_000, "validate", None) | validated]


def _machines() -> Iterator[Files]:
    """One epoch of five models on two machines: times, accuracies and memory as published."""
    sweep = "generated-machines"
    for dataset, models in PUBLISHED.items():
        for model, published in models.items():
            for (machine, gpu, total), (minutes, percent, gigabytes) in zip(PUBLISHED_MACHINES, published, strict=True):
                tag = machine[:2].strip().lower()
                cell = Cell(
                    model, 64, sweep=sweep, dataset=dataset, pretrained=True, gpu=gpu, tags={"machine": machine}
                )
                cell = replace(cell, name=f"{sweep}-{dataset}-{model}-{tag}")
                classes = 10 if dataset == "cifar10" else 100
                loss = log(classes) * (1 - 0.9 * percent / 100 if percent * classes > 1_000 else 1)
                sample = {"host": "generated", "device": 0, "time_ns": START_NS, "total_bytes": int(total)}
                samples = [sample | {"used_bytes": round(gigabytes * 1e9)}]
                rows = _epoch(0, round(minutes * 60e9), percent / 100, loss)
                yield {
                    f"{sweep}/{cell.run}/run.json": _json(cell.description()),
                    f"{sweep}/{cell.run}/steps.rank0.jsonl": _lines("steps", cell.run, 0, rows),
                    f"{sweep}/{cell.run}/host_samples.0.jsonl": _lines("host_samples", cell.run, 0, samples),
                }


def _records(found: Sequence[str] | Files) -> Files:
    """The record that each sweep leaves of its runs."""
    runs: dict[str, list[str]] = {}
    for path in found:
        sweep, run, file = path.split("/")
        if file == "run.json":
            runs.setdefault(sweep, []).append(run)
    return {
        f"{sweep}/sweep.json": _json(
            {"tracelab": "sweep/1", "generated": GENERATED, "sweep": sweep, "cells": [{"run": run} for run in listed]}
        )
        for sweep, listed in runs.items()
    }


def _lines(kind: str, run: str, rank: int, rows: Iterator[dict[str, object]] | list[dict[str, object]]) -> bytes:
    header = {"tracelab": f"{kind}/1", "run": run, "rank": rank, "generated": GENERATED}
    return "".join(f"{json.dumps(row)}\n" for row in (header, *rows)).encode()


def _json(value: object) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


if __name__ == "__main__":
    main()
