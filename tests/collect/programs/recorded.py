"""Train a linear layer and record some of its steps: `python recorded.py OUT CASE`."""

import ctypes
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import torch

import tracelab
from tracelab.collect.recording import termination

STEPS = 2000
out, case = Path(sys.argv[1]), sys.argv[2]
model = torch.nn.Linear(4, 4)
windows = {
    "window": {"wait": 2, "active": 3},
    "first": {"active": 2},
    "signal": {"on_demand": True, "active": 2},
    "unasked": {"on_demand": True},
    "error": {},
    "exit": {},
    "late": {"wait": 50, "active": 1},
    "terminated": {"wait": 1, "active": 2, "cycles": 2},
    "killed": {"wait": 1, "active": 2, "cycles": 2},
    "stuck": {"wait": 1, "active": 2, "cycles": 2},
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
        if case in {"terminated", "killed"} and step == 5:
            os.kill(os.getpid(), signal.SIGTERM if case == "terminated" else signal.SIGKILL)
        if case == "stuck" and step == 5:
            termination._LIMIT_S = 0.2
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            mutex = ctypes.create_string_buffer(64)
            for _ in range(2):
                ctypes.CDLL(None).pthread_mutex_lock(mutex)
        if case == "exit" and step == 5:
            os._exit(3)
        r.step()
    if case == "cost":
        calls: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, arg: calls.update([event] if event in {"call", "c_call"} else []))
        for _ in range(STEPS):
            r.step()
        sys.setprofile(None)
        Path(out / "cost.json").write_text(json.dumps(calls))
