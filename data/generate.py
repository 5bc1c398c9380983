"""Generate traces of training on four and on eight simulated GPUs, and the ground truth of the first and the last run.

    python data/generate.py

Everything follows from the settings below and from fixed seeds: running it again gives the same bytes.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ground_truth import truth
from job_simulator import Clock, Job, LoaderStall, Simulation, SlowCompute
from job_simulator.kineto_files import kineto_text
from kineto_metadata import describe_tracks, device_properties, recording, versions
from kineto_writer import text
from simulated_rank import Collective, Rank
from simulated_training import train

FOLDER = Path(__file__).parent / "generated"
GENERATED = "by data/generate.py; no GPU was involved"

BASE_NS = 226 * 7_889_238 * 10**9
"""Kineto counts from the start of a quarter of a year; this one began on 2 July 2026."""

START_NS = 4_450_000_123_456_789
"""Day 51.5 of that quarter: microseconds that, read as doubles, are often 1 ns off when they are rounded."""

DATA_WAITS_NS = (
    (611_000, 702_000, 655_000, 689_000),
    (640_000, 598_000, 733_000, 8_900_000),
    (655_000, 671_000, 690_000, 644_000),
    (702_000, 5_300_000, 610_000, 668_000),
)
"""By rank and step: rank 1 and rank 3 once wait for their loaders."""

SLOW_STEPS: tuple[dict[int, float], ...] = ({}, {}, {1: 5.5, 2: 4.5}, {})
"""By rank: rank 2 has two steps in which its processor is slow, so its GPU idles and the other ranks wait."""


@dataclass(frozen=True)
class Run:
    """One run: how many of the steps above it trains, and whether it broadcasts buffers before each forward pass."""

    name: str
    steps: int
    broadcasts: bool


RUN = Run("generated-4rank-ddp", 4, broadcasts=True)
CHANGED = Run("generated-4rank-nobroadcast", 2, broadcasts=False)
"""The same program with DistributedDataParallel(broadcast_buffers=False), and fewer steps of it."""

SLOW_GPU, STALL = SlowCompute(rank=2, percent=170), LoaderStall(rank=5, step=2, stall_ns=3_000_000)
JOB = Job(
    name="generated-8rank-pipeline",
    ranks=8,
    pipeline=2,
    tensor=2,
    steps=5,
    layers=1,
    microbatches=2,
    seed=20,
    gpus_per_host=4,
    delays=(SLOW_GPU, STALL),
    clocks=(Clock(),) * 4 + (Clock(offset_ns=2_350_417, drift_ppb=4_000),) * 4,
)
"""Two hosts of four GPUs: one GPU of the first is slow in all steps, a loader of the second stalls in one."""


def main() -> None:
    """Write the traces and truth.json below `data/generated`."""
    for name, content in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(f"{path.stat().st_size:>9,} bytes  {path.relative_to(FOLDER.parent)}")


def files() -> dict[str, bytes]:
    """Return every file's name and bytes."""
    found = {}
    for run in (RUN, CHANGED):
        for rank in (ranks := simulate(run)):
            name = f"{run.name}/rank{rank.number}.pt.trace.json"
            found[f"{name}.gz"] = gzip.compress(trace(rank, name).encode(), 9, mtime=0)
        if run is RUN:
            by_rank = {str(rank.number): truth(rank.gpu) for rank in ranks}
            figures = {"generated": GENERATED, "run": run.name, "ranks": by_rank}
    job = Simulation(JOB)
    for rank in range(JOB.ranks):
        name = f"{JOB.name}/rank{rank}.pt.trace.json"
        found[f"{name}.gz"] = gzip.compress(kineto_text(job, rank, name).encode(), 9, mtime=0)
    found["truth.json"] = f"{json.dumps(figures | {'job': job_truth(job)}, indent=1)}\n".encode()
    return found


def job_truth(job: Simulation) -> dict[str, object]:
    """Return what is known of the job: waits of each rank, the critical path, and its time without each delay."""
    path = job.critical_path()
    return {
        "run": job.job.name,
        "window_ns": job.window_ns,
        "window_without_the_slow_gpu_ns": job.without(SLOW_GPU).window_ns,
        "window_without_the_stall_ns": job.without(STALL).window_ns,
        "window_without_transfers_ns": job.what_if_ideal_network(),
        "collectives": sum(not each.is_p2p for each in job.collectives),
        "sends": sum(each.is_p2p for each in job.collectives),
        "critical_path_ns": _sums((each.part, each.dur_ns) for each in path),
        "critical_path_of_ranks_ns": _sums((str(each.rank), each.dur_ns) for each in path),
        "ranks": {
            str(rank): {"clock_offset_ns": job.offset_ns(rank)} | asdict(totals)
            for rank, totals in job.totals().items()
        },
    }


def _sums(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, dur_ns in sorted(parts):
        sums[name] = sums.get(name, 0) + dur_ns
    return sums


def simulate(run: Run) -> list[Rank]:
    """Run all ranks side by side: a collective ends for everyone once the last rank has joined and it is through."""
    world_size = len(DATA_WAITS_NS)
    ranks = [Rank(number, world_size, BASE_NS + START_NS + 31_250 * number) for number in range(world_size)]
    programs = [
        train(rank, DATA_WAITS_NS[rank.number][: run.steps], SLOW_STEPS[rank.number], broadcasts=run.broadcasts)
        for rank in ranks
    ]
    joined = [next(program) for program in programs]
    while joined:
        through_ns = max(start_ns + transfer_ns for start_ns, transfer_ns in joined)
        joined = [ready for program in programs if (ready := _next(program, through_ns))]
    return ranks


def _next(program: Collective, through_ns: int) -> tuple[int, int] | None:
    try:
        return program.send(through_ns)
    except StopIteration:
        return None


def trace(rank: Rank, name: str) -> str:
    """Return the text of one rank's file."""
    rank.events.sort(key=lambda event: event.phase == "i")
    for number, event in enumerate(rank.events):
        event.args["Ev Idx"] = number
    activities = sorted([*rank.gpu, *rank.syncs, *rank.calls], key=lambda event: event.args["correlation"])
    everything = [*rank.events, *activities, *rank.projections()]
    start_ns = min(event.start_ns for event in everything) - 2_402_117
    end_ns = max(event.end_ns for event in everything) + 1_804_003
    everything += recording(start_ns, end_ns)
    relative = [replace(event, start_ns=event.start_ns - BASE_NS) for event in everything]
    return text(_top(rank), relative, _tracks(rank, start_ns - BASE_NS), name)


def _top(rank: Rank) -> dict[str, object]:
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": rank.world_size}
    return {
        "schemaVersion": 1,
        "generated": GENERATED,
        "deviceProperties": [device_properties(number) for number in range(rank.world_size)],
        **versions(),
        "trace_id": f"{rank.number:032X}",
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank.number,
            "world_size": rank.world_size,
            "pg_count": 1,
            "pg_config": [{**group, "ranks": list(range(rank.world_size))}],
            "nccl_version": "2.27.5",
        },
        "profile_memory": 1,
        "record_shapes": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
    }


def _tracks(rank: Rank, at_ns: int) -> Iterator[str]:
    streams = sorted({row.tid for row in [*rank.gpu, *rank.syncs]})
    threads = ((rank.main_tid, "python"), (rank.autograd_tid, f"pt_autograd_{rank.number}"))
    on_device = ((rank.number, stream) for stream in streams)
    return describe_tracks(rank.pid, range(rank.world_size), on_device, threads, at_ns)


if __name__ == "__main__":
    main()
