"""Clock offsets in 200 simulated jobs, whose true ones are known."""

from collections import defaultdict
from typing import Any

import pytest

from job_simulator import START_NS, Simulation, simulate
from tests.memory import MemoryStore
from tests.simulated import communication, random_job

JOBS = 200


@pytest.fixture(scope="module")
def jobs() -> dict[str, Simulation]:
    return {simulation.job.name: simulation for simulation in (simulate(random_job(seed)) for seed in range(JOBS))}


@pytest.fixture(scope="module")
def offsets(memory: MemoryStore, jobs: dict[str, Simulation]) -> list[dict[str, Any]]:
    tables: dict[str, list[Any]] = defaultdict(list)
    for simulation in jobs.values():
        for name, rows in communication(simulation).items():
            tables[name] += rows
    return memory.filled(tables).query("clock_offsets").to_pylist()


def true_offsets_ns(simulation: Simulation, rank: int, reference: int) -> tuple[int, int]:
    """Return the least and the largest offset during the job: drift changes it."""
    moments = (START_NS, simulation.end_ns)
    least_ns, most_ns = sorted(simulation.offset_ns(rank, reference, at_ns=moment) for moment in moments)
    return least_ns, most_ns


def test_every_rank_of_every_job_has_a_verdict(jobs: dict[str, Simulation], offsets: list[dict[str, Any]]) -> None:
    assert len(offsets) == sum(simulation.job.ranks for simulation in jobs.values())


def test_the_true_offset_is_within_the_bounds_unless_it_is_refused(
    jobs: dict[str, Simulation], offsets: list[dict[str, Any]]
) -> None:
    for row in offsets:
        least_ns, most_ns = true_offsets_ns(jobs[row["run"]], row["rank"], row["reference_rank"])
        if row["verdict"] != "refused":
            assert row["low_ns"] <= most_ns, row
            assert row["high_ns"] >= least_ns, row


def test_offsets_come_back_within_the_jitter_of_the_ends_or_their_spread(
    jobs: dict[str, Simulation], offsets: list[dict[str, Any]]
) -> None:
    """Ranks without a common collective are three pairs apart at most: by pipeline, data and tensor group."""
    for row in offsets:
        simulation = jobs[row["run"]]
        least_ns, most_ns = true_offsets_ns(simulation, row["rank"], row["reference_rank"])
        if row["verdict"] != "refused":
            error_ns = max(0, least_ns - row["offset_ns"], row["offset_ns"] - most_ns)
            assert error_ns <= 3 * max(simulation.job.end_jitter_ns, row["spread_ns"]), row


def test_only_jobs_without_sequence_numbers_are_refused(
    jobs: dict[str, Simulation], offsets: list[dict[str, Any]]
) -> None:
    refused = {row["run"] for row in offsets if row["verdict"] == "refused"}
    assert refused <= {name for name, simulation in jobs.items() if "Seq" in simulation.job.omitted}
    assert len(refused) < JOBS / 5
