"""Train, and fork processes that profile, do nothing, or train: `python forked.py`; fails where one of them hangs."""

import os
import signal
import sys
import time

import torch
from torch.profiler import profile


def train(steps):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def fork(work):
    """Return how a child ends that does the work, and then leaves Python by the exit code 7."""
    child = os.fork()
    if not child:
        work()
        print("done", end=" ")  # without a flush of its own
        sys.exit(7)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return "hangs"


def train_in_profiler():
    with profile() as own:
        train(2)
    counts = {each.key: each.count for each in own.key_averages()}
    assert counts["aten::addmm"] == 2


train(4)
ends = [fork(work) for work in (train_in_profiler, lambda: None, lambda: train(3))]
train(4)
assert ends == [7, 7, 7], ends
