"""Measure queries on a store of a simulated job of eight ranks, and check those across ranks against the simulation."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import query_cost
from ingest_cost import ingest
from process_cost import cost

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

from job_simulator import Job, Kind, Simulation, SlowCompute, simulate

MOST_KERNELS = 1_000_000
"""The simulator holds some 3 KB of Python objects a kernel."""
PROBE_STEPS = 2


def job(steps: int) -> Job:
    """Return a job of pipeline and tensor groups in which rank 5 computes 30 % longer."""
    return Job(ranks=8, pipeline=2, tensor=2, layers=8, steps=steps, seed=1, delays=(SlowCompute(5, 130),), name="job")


def measure(work: Path, kernels: int) -> query_cost.Asked:
    """Simulate steps until ranks have run so many kernels, ingest their traces, and ask every question."""
    store, traces = work / "job-store", work / "job"
    try:
        steps = max(1, round(kernels / (_kernels(simulate(job(PROBE_STEPS))) / PROBE_STEPS)))
        simulation = simulate(job(steps))
        text_mb = sum(file.stat().st_size for file in simulation.write_kineto(traces)) / 1e6
        ingested = cost(ingest(traces, store, run="job"))
        shutil.rmtree(traces)
        held = (
            f"job: a simulated job of 8 ranks and {steps} steps, {_kernels(simulation):,} kernels, "
            f"{len(simulation.collectives):,} collectives, {text_mb:,.0f} MB ingested in {ingested.wall_s:.1f} s"
        )
        asked = query_cost.ask(store, "job", held, repeats=query_cost.repeats_of(kernels))
        asked.wrong += differences(simulation, asked.answers)
        return asked
    finally:
        shutil.rmtree(traces, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)


def differences(simulation: Simulation, answers: dict[str, query_cost.Answer]) -> Iterator[str]:
    """Say what the answers have otherwise than the simulation: waits, the critical path, the time of the job."""
    found = {row["rank"]: row["wait_ns"] for row in answers["stragglers"].rows}
    expected = {rank: totals.wait_ns for rank, totals in simulation.totals().items()}
    yield from _compare("stragglers: wait_ns by rank", found, expected)
    path_ns = sum(row["dur_ns"] for row in answers["critical_path"].rows)
    yield from _compare("critical_path: dur_ns, added up", path_ns, simulation.window_ns)
    times_ns = {row["time_before_ns"] for row in answers["what_if"].rows}
    yield from _compare("what_if: time_before_ns", times_ns, {simulation.window_ns})


def _kernels(simulation: Simulation) -> int:
    return sum(row.kind in (Kind.KERNEL, Kind.COMMUNICATION) for row in simulation.rows)


def _compare(what: str, found: object, expected: object) -> Iterator[str]:
    if found != expected:
        yield f"job: {what} {found}, expected {expected}"
