"""Measure collectives over the ranks of this node, each a supervised process."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.sizes import Sizes
from tracelab.collect.process.launch import Worker, launch, python_command, shut_down, supervise
from tracelab.collect.run_folder import write_json
from tracelab.errors import TracelabError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
_TIMEOUT_S = 1200.0
_CHECKOUT = Path(__file__).parents[3]
_FLOAT_BYTES = 4


def measure_collectives(device: str, ranks: int, sizes: Sizes) -> Iterator[rows.Row]:
    """Yield rows of every collective and size; raises TracelabError if the ranks fail, after what they measured."""
    with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        spec = {
            "device": device,
            "ranks": ranks,
            "sizes": list(sizes.collectives),
            "repeats": sizes.repeats,
            "calls": sizes.calls,
            "most_s": sizes.most_s,
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
        written = folder / "times.json"
        measured = json.loads(written.read_bytes()) if written.exists() else []
    backend = "NCCL" if device == "cuda" else "gloo"
    for each in measured:
        metric, size_bytes = each["metric"], each["size_bytes"]
        if "skipped" in each:
            yield rows.skipped(f"{metric}_busbw", each["skipped"]) | {"size_bytes": size_bytes}
        else:
            yield from rows.collective(metric, size_bytes, ranks, backend, sizes.calls, each["times_ns"])
    if any(each.code for each in ends):
        words = next(each.output for each in ends if each.code).strip().splitlines() or ["no output"]
        raise TracelabError(f"ranks could not communicate: {words[-1][:300]}")


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
    own = {"device_id": device} if cuda else {}
    dist.init_process_group("nccl" if cuda else "gloo", init_method=meeting, rank=rank, world_size=spec["ranks"], **own)
    measured: list[dict[str, Any]] = []
    for metric in COLLECTIVES:
        for size_bytes in spec["sizes"]:
            row: dict[str, Any] = {"metric": metric, "size_bytes": size_bytes}
            try:
                work, reset = _build(torch, dist, device, metric, size_bytes)
                row["times_ns"] = _measure(torch, dist, device, work, reset, spec)
                del work, reset
            except RuntimeError as error:
                row["skipped"] = " ".join(str(error).split())[:300]
            if cuda:
                torch.cuda.empty_cache()
            measured.append(row)
            if rank == 0:
                write_json(folder / "times.json", measured)
    dist.destroy_process_group()


def _build(
    torch: Any,  # noqa: ANN401
    dist: Any,  # noqa: ANN401
    device: Any,  # noqa: ANN401
    metric: str,
    size_bytes: int,
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a collective over buffers of `size_bytes` as nccl-tests counts them, and a reset of its values.

    The size is that of the larger buffer of a rank: what all_gather receives, and reduce_scatter and all_to_all send.
    Raises RuntimeError on every rank where one of them has too little memory, so that none waits for the others.
    """
    ranks = dist.get_world_size()
    whole = max(size_bytes // _FLOAT_BYTES // ranks, 1) * ranks
    error = None
    try:
        large = torch.rand(whole, device=device)
        small = torch.rand(whole // ranks, device=device)
        other = torch.empty_like(large) if metric == "all_to_all" else None
    except RuntimeError as failure:
        error = failure
    fits = torch.tensor([0.0 if error else 1.0], device=device)
    dist.all_reduce(fits, op=dist.ReduceOp.MIN)
    if error:
        raise error
    if not fits.item():
        raise RuntimeError("another rank has too little memory")
    works: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(large),
        "all_gather": lambda: dist.all_gather_into_tensor(large, small),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(small, large),
        "all_to_all": lambda: dist.all_to_all_single(other, large),
        "broadcast": lambda: dist.broadcast(large, 0),
    }
    return works[metric], large.uniform_


def _measure(
    torch: Any,  # noqa: ANN401
    dist: Any,  # noqa: ANN401
    device: Any,  # noqa: ANN401
    work: Callable[[], object],
    reset: Callable[[], object],
    spec: dict[str, Any],
) -> list[float]:
    """Return nanoseconds per call, each the mean of some calls in a row on the slowest rank."""
    calls = spec["calls"]
    _slowest_ns(torch, dist, device, work, calls)  # the first calls connect the ranks
    first_ns = _slowest_ns(torch, dist, device, work, calls)
    # Every rank has the same figure, and so the same number of repetitions.
    repeats = max(1, min(spec["repeats"], int(spec["most_s"] * 1e9 / first_ns)))
    times = []
    for _ in range(repeats):
        reset()  # sums of 20 calls fit a float, those of 100 do not
        times.append(_slowest_ns(torch, dist, device, work, calls) / calls)
    return times


def _slowest_ns(
    torch: Any,  # noqa: ANN401
    dist: Any,  # noqa: ANN401
    device: Any,  # noqa: ANN401
    work: Callable[[], object],
    calls: int,
) -> float:
    """Return the time of some calls in a row, started together, on the slowest rank: on a GPU between two events."""
    dist.barrier()
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        own_ns = start.elapsed_time(end) * 1e6  # milliseconds
    else:
        begun = time.perf_counter_ns()
        for _ in range(calls):
            work()
        own_ns = float(time.perf_counter_ns() - begun)
    spent = torch.tensor([max(own_ns, 1.0)], dtype=torch.float64, device=device)
    dist.all_reduce(spent, op=dist.ReduceOp.MAX)
    return float(spent.item())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
