"""Train a linear layer and record some of its steps: `python recorded.py OUT CASE`."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

import tracelab

BATCH, BATCHES = 1000, 100
out, case = Path(sys.argv[1]), sys.argv[2]
model = torch.nn.Linear(4, 4)
windows = {
    "window": {"wait": 2, "active": 3},
    "first": {"active": 2},
    "signal": {"on_demand": True, "active": 2},
    "error": {},
    "late": {"wait": 50, "active": 1},
    "cost": {"active": 1},
}


def train_step() -> None:
    model(torch.ones(2, 4)).sum().backward()


with tracelab.record(case, out=out, **windows[case]) as r:
    for step in range(8):
        train_step()
        if case == "signal" and step == 3:
            os.kill(os.getpid(), signal.SIGUSR1)
        if case == "error" and step == 5:
            raise MemoryError
        r.step()
    if case == "cost":
        batches, spent = [], time.process_time()
        for _ in range(BATCHES):
            batch = time.perf_counter()
            for _ in range(BATCH):
                r.step()
            batches.append((time.perf_counter() - batch) / BATCH)
        time.sleep(0.6)  # rows are written twice a second
        mean = (time.process_time() - spent) / len(batches) / BATCH
        Path(out / "cost.json").write_text(json.dumps({"step_s": min(batches), "mean_cpu_s": mean}))
