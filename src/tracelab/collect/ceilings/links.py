"""Measure broadcasts and all-reduces over the ranks of this node, each a supervised process."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.sizes import Sizes
from tracelab.collect.process.launch import Worker, launch, python_command, shut_down, supervise
from tracelab.collect.run_folder import write_json
from tracelab.errors import TracelabError

_TIMEOUT_S = 300.0
_CHECKOUT = Path(__file__).parents[3]


def measure_collectives(device: str, ranks: int, sizes: Sizes) -> list[rows.Row]:
    """Return rows of every collective and size; raises TracelabError if the ranks fail."""
    with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        spec = {
            "device": device,
            "ranks": ranks,
            "sizes": list(sizes.collectives),
            "repeats": sizes.repeats,
            "warmups": sizes.warmups,
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        workers: list[Worker] = []
        try:
            workers += (
                launch(
                    python_command("tracelab.collect.ceilings.links", scratch, str(rank)),
                    _environment(),
                    rank,
                    folder / str(rank),
                )
                for rank in range(ranks)
            )
            ends = supervise(workers, _TIMEOUT_S)
        finally:
            shut_down(workers)
        if any(each.code for each in ends):
            words = next(each.output for each in ends if each.code).strip().splitlines() or ["no output"]
            raise TracelabError(f"ranks could not communicate: {words[-1][:300]}")
        times = json.loads((folder / "times.json").read_bytes())
    backend = "NCCL" if device == "cuda" else "gloo"
    return [
        row
        for metric, size_bytes, times_ns in times
        for row in rows.collective(metric, size_bytes, ranks, backend, times_ns)
    ]


def _environment() -> dict[str, str]:
    known = os.environ.get("PYTHONPATH")
    paths = f"{_CHECKOUT}{os.pathsep}{known}" if known else str(_CHECKOUT)
    environment = {**os.environ, "PYTHONPATH": paths}
    if Path("/sys/class/net/lo").exists():
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host name of a laptop may not resolve
    return environment


def main(folder: Path, rank: int) -> None:
    """Run one rank."""
    import torch
    import torch.distributed as dist

    spec = json.loads((folder / "spec.json").read_bytes())
    cuda = spec["device"] == "cuda"
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("nccl" if cuda else "gloo", init_method=meeting, rank=rank, world_size=spec["ranks"])
    works: dict[str, Callable[[Any], object]] = {
        "broadcast": lambda tensor: dist.broadcast(tensor, 0),
        "all_reduce": dist.all_reduce,
    }
    rows = []
    for metric, work in works.items():
        for size_bytes in spec["sizes"]:
            tensor = torch.randn(size_bytes // 4, device=device)
            times = [_slowest_ns(torch, dist, work, tensor) for _ in range(spec["warmups"] + spec["repeats"])]
            rows.append((metric, size_bytes, times[spec["warmups"] :]))
    if rank == 0:
        write_json(folder / "times.json", rows)
    dist.destroy_process_group()


def _slowest_ns(torch: Any, dist: Any, work: Callable[[Any], object], tensor: Any) -> float:  # noqa: ANN401
    """Return the time of one repetition, started together, on the slowest rank."""

    def wait() -> None:
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)

    dist.barrier()
    wait()
    begun = time.perf_counter_ns()
    work(tensor)
    wait()
    spent = torch.tensor([float(time.perf_counter_ns() - begun)], dtype=torch.float64, device=tensor.device)
    dist.all_reduce(spent, op=dist.ReduceOp.MAX)
    tensor.div_(max(1.0, float(tensor.abs().max())))  # repeated sums would overflow
    return float(spent.item())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
