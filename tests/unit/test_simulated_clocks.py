"""Matched collectives and clock offsets in 200 simulated jobs, whose true ones are known."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from job_simulator import START_NS, Clock, Job, Simulation, SlowCompute, simulate
from tests.memory import MemoryStore
from tests.simulated import GROUP_ARGUMENTS, communication, random_job

JOBS = 200


def collect(simulations: Iterable[Simulation]) -> dict[str, list[Any]]:
    tables: dict[str, list[Any]] = defaultdict(list)
    for simulation in simulations:
        for name, rows in communication(simulation).items():
            tables[name] += rows
    return tables


@pytest.fixture(scope="module")
def jobs() -> dict[str, Simulation]:
    return {simulation.job.name: simulation for simulation in (simulate(random_job(seed)) for seed in range(JOBS))}


@pytest.fixture(scope="module")
def answers(memory: MemoryStore, jobs: dict[str, Simulation]) -> dict[str, list[dict[str, Any]]]:
    memory.filled(collect(jobs.values()))
    return {name: memory.query(name).to_pylist() for name in ("clock_offsets", "collective_wait")}


@pytest.fixture(scope="module")
def offsets(answers: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return answers["clock_offsets"]


def test_what_is_matched_is_one_collective_of_the_job(
    jobs: dict[str, Simulation], answers: dict[str, list[dict[str, Any]]]
) -> None:
    numbers = {}
    for name, simulation in jobs.items():
        for each in simulation.collectives:
            for rank, start_ns in each.starts_ns.items():
                clock = simulation.job.clock(rank)
                at_ns = clock.reading_ns(start_ns)
                numbers[name, rank, at_ns, clock.reading_ns(each.ends_ns[rank]) - at_ns] = each.number
    matched: dict[tuple[str, int], set[int]] = defaultdict(set)
    states: Counter[str] = Counter()
    for row in answers["collective_wait"]:
        states[row["state"]] += 1
        if row["state"] == "matched":
            collective = numbers[row["run"], row["rank"], row["start_ns"], row["dur_ns"]]
            matched[row["run"], row["number"]].add(collective)
    assert [key for key, collectives in matched.items() if len(collectives) > 1] == []
    assert states["matched"] > 0.8 * states.total()
    assert states["mismatched"] == 0


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


def test_waits_are_the_true_ones_to_the_nanosecond_where_all_clocks_are_exact(memory: MemoryStore) -> None:
    jobs = [random_job(seed) for seed in range(40)]
    exact = [dataclasses.replace(job, clocks=(), cuts=(), end_jitter_ns=min(job.end_jitter_ns, 1_500)) for job in jobs]
    simulations = {job.name: simulate(job) for job in exact if not set(GROUP_ARGUMENTS) & set(job.omitted)}
    answers = memory.filled(collect(simulations.values())).query("stragglers").to_pylist()
    assert len(answers) == sum(simulation.job.ranks for simulation in simulations.values())
    totals = {name: simulation.totals() for name, simulation in simulations.items()}
    for row in answers:
        true = dataclasses.asdict(totals[row["run"]][row["rank"]])
        assert {name: row[name] for name in true} == true, row["run"]


def test_the_slow_one_of_64_ranks_is_found_across_the_clocks_of_8_hosts(memory: MemoryStore) -> None:
    """Ends without jitter make offsets exact, so waits are exact, too."""
    clocks = tuple(Clock(1_000_003 * (rank // 8) ** 2) for rank in range(64))
    job = Job(ranks=64, pipeline=4, tensor=4, steps=2, layers=1, clocks=clocks, end_jitter_ns=0)
    simulation = simulate(dataclasses.replace(job, delays=(SlowCompute(19, 180),)))
    memory.filled(communication(simulation))
    offsets = {row["rank"]: row["offset_ns"] for row in memory.query("clock_offsets").to_pylist()}
    assert offsets == {rank: simulation.offset_ns(rank) for rank in range(64)}
    stragglers = memory.query("stragglers").to_pylist()
    totals = {rank: dataclasses.asdict(each) for rank, each in simulation.totals().items()}
    assert {row["rank"]: {name: row[name] for name in totals[0]} for row in stragglers} == totals
    assert max(stragglers, key=lambda row: row["last_ratio"])["rank"] == 19
