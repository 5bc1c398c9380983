"""Record two ranks, of which one may fail: `python recorded_ranks.py OUT CASE`."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

import tracelab
import tracelab.errors


def train_and_print_errors(*arguments):
    try:
        train(*arguments)
    except (tracelab.errors.UsageError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)


def train(rank, out, case):
    dist.init_process_group("gloo", init_method=f"file://{out}/rendezvous", rank=rank, world_size=2)
    model = torch.nn.Linear(4, 4)
    with tracelab.record("r", out=out, wait=1, active=2) as r:
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
            r.step()
        if case == "second" and rank == 1:
            raise ValueError("bad")
        if case == "killed" and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if case == "killed":  # as torchrun ends the others
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
            raise RuntimeError("Connection reset by peer")


if __name__ == "__main__":
    out, case = sys.argv[1:]
    if case == "neither":
        Path(out, "r").mkdir()
        Path(out, "r", "run.json").write_text(json.dumps({"tracelab": "run/1", "status": "ok"}))
    context = multiprocessing.start_processes(
        train_and_print_errors, (out, case), nprocs=2, join=False, start_method="fork"
    )
    for process in context.processes:
        process.join()
