"""Measure what recording costs of a step before, between and after two windows, within one process each.

    python benchmarks/window_cost.py                     on the GPU that torch finds, else on the CPU
    python benchmarks/window_cost.py --rounds 5 --json window_cost.json

Needs torch. A process trains blocks of steps in turn with and without `r.step()`, records a window, and goes on in the
same way until a second one, because processes differ. Those without a recording, with one that detaches CUPTI, and with
one that leaves it attached take turns. Two models: one bound by the CPU, which launches small kernels, and one bound by
the GPU. A process takes 20 s on a GPU node.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import tracelab

MODELS = {"cpu_bound": (24, 128, 64), "gpu_bound": (8, 4096, 2048)}
"""Layers, width and batch of each model."""
SMALL = {"cpu_bound": (8, 32, 8), "gpu_bound": (2, 512, 64)}
"""The same where there is no GPU."""
RECORDINGS = ("none", "attached", "detached")
BLOCKS, BLOCK, ACTIVE, SETTLE = 16, 20, 5, 10
PHASES = ("before", "between", "after")


def build_step(model: str, device: str) -> Callable[[], None]:
    """Return a training step of a model."""
    layers, width, batch = (MODELS if device == "cuda" else SMALL)[model]
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]
    network = torch.nn.Sequential(*parts).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    inputs = torch.randn(batch, width, device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = network(inputs).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


class Blocks:
    """The mean step of each block in ns, by when it ran and whether it called `r.step()`, in `times`."""

    def __init__(self, train: Callable[[], None], wait_for_gpu: Callable[[], object]) -> None:
        self._train, self._wait_for_gpu = train, wait_for_gpu
        self.times: dict[str, list[float]] = {f"{when}_{how}": [] for when in PHASES for how in ("plain", "step")}

    def run(self, step: Callable[[], object], when: str) -> None:
        """Run blocks that call `step` and others, in turn."""
        self.train(SETTLE, step)
        time.sleep(2)  # CUPTI detaches within a second
        self.train(BLOCK)
        for _ in range(BLOCKS):
            self._run_block(_do_nothing, f"{when}_plain")
            self._run_block(step, f"{when}_step")

    def train(self, steps: int, step: Callable[[], object] | None = None) -> None:
        """Train steps outside of blocks."""
        for _ in range(steps):
            self._train()
            (step or _do_nothing)()

    def _run_block(self, step: Callable[[], object], name: str) -> None:
        self._wait_for_gpu()
        start = time.perf_counter_ns()
        for _ in range(BLOCK):
            self._train()
            step()
        self._wait_for_gpu()
        self.times[name].append((time.perf_counter_ns() - start) / BLOCK)


def measure(model: str, recording: str) -> dict[str, list[float]]:
    """Return the times of the blocks of a process."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    blocks = Blocks(build_step(model, device), torch.cuda.synchronize if device == "cuda" else _do_nothing)
    blocks.train(3 * BLOCK)
    if recording == "none":
        for when in PHASES:
            blocks.run(_do_nothing, when)
        return blocks.times
    margin = 2  # the window is prepared a step ahead
    wait = SETTLE + BLOCKS * BLOCK + margin
    window = {"wait": wait, "active": ACTIVE, "cycles": 2, "keep_attached": recording == "attached"}
    with TemporaryDirectory() as out, tracelab.record("cost", out=out, **window) as r:
        for when in PHASES:
            blocks.run(r.step, when)
            blocks.train(margin + ACTIVE, r.step)
    return blocks.times


def _do_nothing() -> None:
    pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind (default: 3)")
    parser.add_argument("--json", type=Path, help="file for the times of all blocks")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return
    measured = [
        {"model": model, "recording": recording, "times": _measure_apart(model, recording)}
        for model in MODELS
        for _ in range(options.rounds)
        for recording in RECORDINGS
    ]
    if options.json:
        options.json.write_text(json.dumps(measured) + "\n", "utf-8")
    print_table(measured)


def _measure_apart(model: str, recording: str) -> dict[str, list[float]]:
    """Measure in a process of its own."""
    command = (sys.executable, __file__, "--child", model, recording)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=dict(os.environ), text=True).stdout
    times: dict[str, list[float]] = json.loads(output.splitlines()[-1])
    return times


def print_table(measured: list[dict[str, Any]]) -> None:
    """Print for each model and recording what `r.step()` costs, and how steps after a window differ from before."""
    print("| model | recording | step, us | r.step() over none | between the windows over before | after over before |")
    print("|---|---|---:|---:|---:|---:|")
    for model in MODELS:
        for recording in RECORDINGS:
            runs = [each["times"] for each in measured if (each["model"], each["recording"]) == (model, recording)]
            base = statistics.median(statistics.median(run["before_plain"]) for run in runs)
            later = [", ".join(f"{_compare_to_before(run, when):.4f}" for run in runs) for when in PHASES[1:]]
            print(f"| {model} | {recording} | {base / 1e3:.1f} | {_describe_pairs(runs)} | {' | '.join(later)} |")
        recorded = [each["times"] for each in measured if each["model"] == model and each["recording"] != "none"]
        print(f"| {model} | both | | {_describe_pairs(recorded)} | | |")


def _compare_to_before(run: dict[str, list[float]], when: str) -> float:
    """Return how long steps of a phase took, without `r.step()`, over those before the windows."""
    return statistics.median(run[f"{when}_plain"]) / statistics.median(run["before_plain"])


def _describe_pairs(runs: list[dict[str, list[float]]]) -> str:
    """Return the median ratio of blocks that ran in turn, outside of the window, and its 95 % interval by bootstrap."""
    ratios = [
        step / plain
        for run in runs
        for when in PHASES
        for plain, step in zip(run[f"{when}_plain"], run[f"{when}_step"], strict=True)
    ]
    draw = random.Random(0).choices
    medians = sorted(statistics.median(draw(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.4f} ({medians[49]:.4f} to {medians[1949]:.4f}, {len(ratios)} pairs)"


if __name__ == "__main__":
    main()
