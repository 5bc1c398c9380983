"""Record programs into run folders, and read what a folder has."""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tracelab.collect.program.run import run_program
from tracelab.collect.program.settings import ProgramSettings
from tracelab.collect.run_end import Result

EXAMPLE = Path(__file__).parent / "programs" / "mnist.py"
LOOP = """
import os, resource, signal, sys, time
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    {each}
{after}
"""


def record(folder: Path, *command: str, run: str = "r", profiler: str = "kineto", **options: Any) -> Result:
    options = {"sample_s": 0.0, "timeout_s": 60.0} | options
    (result,) = run_program(ProgramSettings(command, (profiler,), out=folder, run=run, **options))
    return result


def record_loop(folder: Path, steps: int = 6, each: str = "", after: str = "", **options: Any) -> Result:
    script = folder / "loop.py"
    script.write_text(LOOP.format(steps=steps, each=each or "pass", after=after))
    return record(folder, sys.executable, str(script), **options)


def described(result: Result) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((result.folder / "run.json").read_text())
    return content


def names(result: Result, name: str = "rank0.pt.trace.json.gz") -> Counter[str]:
    content = json.loads(gzip.decompress((result.folder / name).read_bytes()))
    return Counter(event["name"] for event in content["traceEvents"] if event.get("ph") == "X")


def recorded_steps(result: Result, name: str = "rank0.pt.trace.json.gz") -> list[int]:
    counts = names(result, name)
    return sorted(int(each.partition("#")[2]) for each in counts if each.startswith("ProfilerStep#"))


def step_rows(result: Result, rank: int = 0) -> list[dict[str, Any]]:
    lines = (result.folder / f"steps.rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]
