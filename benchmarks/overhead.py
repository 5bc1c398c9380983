"""Measure profiler overhead: step times of the same training under each profiler and without one.

    python benchmarks/overhead.py                       a small ResNet-18 and a small transformer
    python benchmarks/overhead.py gemm --device cuda    another workload, and options of tracelab collect train

Needs torch. nsys is measured where it is installed, ncu where there is a GPU too. Prints the median and the fastest of
the steps that a capture records; the runs take turns, so that a machine that slows down slows all of them. On a machine
that others use, too, only the fastest steps tell anything.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tracelab.collect.machine import list_gpus
from tracelab.collect.nvidia import CaptureError
from tracelab.collect.nvidia.tool import find_tool

ROUNDS, STEPS = 3, 10
WORKLOADS = (["image_classification", "--batch-size", "8"], ["transformer", "--batch-size", "8"])
KINETO = {
    "none": [],
    "kineto": ["--profiler", "kineto"],
    "kineto, shapes": ["--profiler", "kineto", "--shapes"],
    "kineto, shapes, memory": ["--profiler", "kineto", "--shapes", "--memory"],
    "kineto, shapes, memory, stacks": ["--profiler", "kineto", "--shapes", "--memory", "--stacks"],
}


def main() -> None:
    captures = KINETO | {tool: ["--profiler", tool] for tool in ("nsys", "ncu") if is_here(tool)}
    workloads = [sys.argv[1:]] if sys.argv[1:] else WORKLOADS
    for workload in workloads:
        times: dict[str, list[int]] = {name: [] for name in captures}
        with TemporaryDirectory() as out:
            for turn in range(ROUNDS):
                for name, options in captures.items():
                    times[name] += steps(workload, options, Path(out), f"{len(times[name])}-{turn}")
        print(f"\n{' '.join(workload)}: {ROUNDS * STEPS} steps each")
        print("| capture | median | beside none | fastest | beside none |\n|---|---:|---:|---:|---:|")
        for name, taken in times.items():
            if taken:
                cells = [figure for of in (statistics.median, min) for figure in beside(of(taken), of(times["none"]))]
                print(f"| {name} | {' | '.join(cells)} |")


def is_here(tool: str) -> bool:
    """Whether a profiler of NVIDIA's can be measured; says why not."""
    try:
        find_tool(tool, os.environ)
    except CaptureError as error:
        print(f"without {tool}: {error}", file=sys.stderr)
        return False
    if tool == "ncu" and not list_gpus():
        print("without ncu: there is no GPU", file=sys.stderr)
        return False
    return True


def beside(taken_ns: float, without_ns: float) -> tuple[str, str]:
    return f"{taken_ns / 1e6:.2f} ms", f"× {taken_ns / without_ns:.2f}"


def steps(workload: list[str], options: list[str], out: Path, run: str) -> list[int]:
    """The times of a run's steps behind the warm-up, all of them recorded, in ns; none where the capture fails."""
    command = [sys.executable, "-m", "tracelab", "collect", "train", *workload, *options, "--sample-s", "0"]
    active = ["--active", str(STEPS)] if options else []
    where = ["--steps", str(STEPS), "--out", str(out), "--run", run, "--force", *active]
    done = subprocess.run([*command, *where], check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{' '.join(options) or 'no capture'}: {done.stderr.splitlines()[-1:]}", file=sys.stderr)
        return []
    rows = map(json.loads, (out / run / "steps.rank0.jsonl").read_text().splitlines())
    return [row["dur_ns"] for row in rows if row.get("phase") == "train"]


if __name__ == "__main__":
    main()
