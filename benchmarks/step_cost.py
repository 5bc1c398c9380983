"""Measure what recording costs of a step outside of the window: `r.step()` and the start-up hook of `collect run`.

    python benchmarks/step_cost.py

Needs torch. Prints the fastest of many batches of each, and the mean CPU time with the threads that write rows and wait
for requests.
"""

import functools
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

import torch

import tracelab

BATCHES, BATCH = 200, 1000
_HOOK = "hook"
"""Argument with which this file is the program that is recorded."""


def fastest_s(step: Callable[[], object]) -> float:
    """Return the time of a call in the fastest batch."""
    times = []
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(BATCH):
            step()
        times.append((time.perf_counter() - start) / BATCH)
    return min(times)


def print_costs(name: str, step: Callable[[], object]) -> None:
    """Print the fastest time of a call, its mean CPU time with the rows, and CPU time per second without calls."""
    spent_s = time.process_time()
    fastest = fastest_s(step)
    time.sleep(3)  # the rows of many steps wait
    mean = (time.process_time() - spent_s) / BATCHES / BATCH
    spent_s = time.process_time()
    time.sleep(2)
    idle = (time.process_time() - spent_s) / 2
    print(f"{name}: {fastest * 1e9:.0f} ns; {mean * 1e9:.0f} ns of CPU with the row; {idle * 1e6:.0f} us a second")


def print_hook_costs() -> None:
    """Print the costs of the hook in optimizers, where `collect run` started this process."""
    from torch.optim.optimizer import _global_optimizer_post_hooks

    (hook,) = _global_optimizer_post_hooks.values()
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    print_costs("start-up hook", functools.partial(hook, optimizer, (), {}))


def main() -> None:
    layer = torch.nn.Linear(4, 4)
    with TemporaryDirectory() as out:
        with tracelab.record("cost", out=out, active=1) as r:
            for _ in range(8):
                layer(torch.ones(2, 4)).sum().backward()
                r.step()
            print_costs("r.step()", r.step)
        window = ("--wait", str(1 << 40), "--active", "1", "--sample-s", "0")
        collect = (sys.executable, "-m", "tracelab", "collect", "run", "--out", out, *window, "--")
        program = (sys.executable, __file__, _HOOK)  # its run fails, because the window never opens
        subprocess.run([*collect, *program], stderr=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    print_hook_costs() if sys.argv[1:] == [_HOOK] else main()
