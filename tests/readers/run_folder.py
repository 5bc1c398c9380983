"""A run folder written by hand, as `tracelab collect` writes it."""

import json
from pathlib import Path

Json = dict[str, object]

RUN: Json = {
    "tracelab": "run/1",
    "run": "S9-b8-r0",
    "program": "image_classification --model resnet18",
    "workload": "image_classification",
    "model": "resnet18",
    "batch_size": 8,
    "global_batch_size": 16,
    "gpus": 2,
    "world_size": 2,
    "parallelism": "ddp",
    "precision": "bf16",
    "learning_rate": 0.01,
    "pin_memory": True,
    "sweep": "S9",
    "repeat": 0,
    "profiler": "kineto",
    "parameters": 11_689_512,
    "flop_per_sample": 3.6e9,
    "status": "ok",
    "error": None,
    "host": "node7",
    "gpu": "Card X",
    "started_at": "2026-01-02T03:04:05+01:00",
    "tags": {"rack": "12", "compile": "as I say"},
    "axes": {"workload": "image_classification", "compile": True, "cuda_graphs": False, "parallel": "ddp",
             "set": {"width": "256"}, "out": "runs", "momentum": 0.9},
    "versions": {"tracelab": "0.1.0", "cudnn": 91002},
    "command": ["collect", "train", "image_classification"],
    "capture": {"profiler": "kineto", "window": "step", "files": [{"file": "rank0.pt.trace.json.gz"}]},
    "expects": {"ranks": [0, 1], "files": ["steps.rank0.jsonl", "steps.rank1.jsonl"]},
    "ranks": {"0": {"status": "ok", "steps": 2, "note": "short"}, "1": {"status": "failed", "error": "gone"}},
    "dataset_size": 50_000,
}  # fmt: skip
"""A run of two ranks."""

FIRST = 1_767_319_445_000_000_001
"""A time that a double cannot hold."""


def step(number: int, **fields: object) -> Json:
    """A training step of 1 ms."""
    row = {"start_ns": FIRST + number * 2_000_000, "dur_ns": 1_000_000, "phase": "train", "epoch": 0, "step": number}
    return row | {"samples": 8, "loss": 2.5 - number, "accuracy": 0.25, "data_wait_ns": 300} | fields


def lines(kind: str, *rows: object, **header: object) -> bytes:
    """A file of JSON lines; a row that is bytes stands in it as it is."""
    listed = [{"tracelab": f"{kind}/1", "run": RUN["run"]} | header, *rows]
    return b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in listed)


def write(folder: Path, **files: bytes | Json) -> Path:
    """Files by their names, in which __ stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder
