"""Matched collectives and clock offsets in 200 simulated jobs, whose true ones are known."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from job_simulator import START_NS, Clock, Job, RankTotals, SlowCompute, simulate
from tests.memory import MemoryStore
from tests.simulated import GROUP_ARGUMENTS, communication, random_job

JOBS = 200


@dataclass(frozen=True)
class Truth:
    """What is known of a job once it is simulated; its rows would fill the memory."""

    job: Job
    end_ns: int
    totals: dict[int, RankTotals]
    numbers: dict[tuple[int, int, int], int]
    """The number of a collective by rank, start and duration, by the rank's clock."""

    def offsets_ns(self, rank: int, reference: int) -> tuple[int, int]:
        """Return the least and the largest offset during the job: drift changes it."""
        least_ns, most_ns = sorted(self.job.offset_ns(rank, reference, moment) for moment in (START_NS, self.end_ns))
        return least_ns, most_ns


def simulate_all(jobs: Iterable[Job]) -> tuple[dict[str, Truth], dict[str, list[Any]]]:
    """Return the truth of each job by its name, and the kernels of their collectives as stored."""
    truths, tables = {}, defaultdict[str, list[Any]](list)
    for job in jobs:
        simulation = simulate(job)
        numbers = {}
        for each in simulation.collectives:
            for rank, start_ns in each.starts_ns.items():
                at_ns, end_ns = map(job.clock(rank).reading_ns, (start_ns, each.ends_ns[rank]))
                numbers[rank, at_ns, end_ns - at_ns] = each.number
        truths[job.name] = Truth(job, simulation.end_ns, simulation.totals(), numbers)
        for name, rows in communication(simulation).items():
            tables[name] += rows
    return truths, tables


@pytest.fixture(scope="module")
def known(memory: MemoryStore) -> tuple[dict[str, Truth], dict[str, list[dict[str, Any]]]]:
    truths, tables = simulate_all(random_job(seed) for seed in range(JOBS))
    memory.filled(tables)
    return truths, {name: memory.query(name).to_pylist() for name in ("clock_offsets", "collective_wait")}


@pytest.fixture(scope="module")
def jobs(known: tuple[dict[str, Truth], dict[str, list[dict[str, Any]]]]) -> dict[str, Truth]:
    return known[0]


@pytest.fixture(scope="module")
def offsets(known: tuple[dict[str, Truth], dict[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return known[1]["clock_offsets"]


def test_what_is_matched_is_one_collective_of_the_job(
    known: tuple[dict[str, Truth], dict[str, list[dict[str, Any]]]],
) -> None:
    jobs, answers = known
    matched: dict[tuple[str, int], set[int]] = defaultdict(set)
    states: Counter[str] = Counter()
    for row in answers["collective_wait"]:
        states[row["state"]] += 1
        if row["state"] == "matched":
            number = jobs[row["run"]].numbers[row["rank"], row["start_ns"], row["dur_ns"]]
            matched[row["run"], row["number"]].add(number)
    assert [key for key, numbers in matched.items() if len(numbers) > 1] == []
    assert states["matched"] > 0.8 * states.total()
    assert states["mismatched"] == 0


def test_every_rank_of_every_job_has_a_verdict(jobs: dict[str, Truth], offsets: list[dict[str, Any]]) -> None:
    assert len(offsets) == sum(truth.job.ranks for truth in jobs.values())


def test_the_true_offset_is_within_the_bounds_unless_it_is_refused(
    jobs: dict[str, Truth], offsets: list[dict[str, Any]]
) -> None:
    for row in offsets:
        least_ns, most_ns = jobs[row["run"]].offsets_ns(row["rank"], row["reference_rank"])
        if row["verdict"] != "refused":
            assert row["low_ns"] <= most_ns, row
            assert row["high_ns"] >= least_ns, row


def test_offsets_come_back_within_the_jitter_of_the_ends_or_their_spread(
    jobs: dict[str, Truth], offsets: list[dict[str, Any]]
) -> None:
    """Ranks without a common collective are three pairs apart at most: by pipeline, data and tensor group."""
    for row in offsets:
        truth = jobs[row["run"]]
        least_ns, most_ns = truth.offsets_ns(row["rank"], row["reference_rank"])
        if row["verdict"] != "refused":
            error_ns = max(0, least_ns - row["offset_ns"], row["offset_ns"] - most_ns)
            assert error_ns <= 3 * max(truth.job.end_jitter_ns, row["spread_ns"]), row


def test_only_jobs_without_sequence_numbers_are_refused(jobs: dict[str, Truth], offsets: list[dict[str, Any]]) -> None:
    refused = {row["run"] for row in offsets if row["verdict"] == "refused"}
    assert refused <= {name for name, truth in jobs.items() if "Seq" in truth.job.omitted}
    assert len(refused) < JOBS / 5


def test_waits_are_the_true_ones_to_the_nanosecond_where_all_clocks_are_exact(memory: MemoryStore) -> None:
    jobs = [random_job(seed) for seed in range(40)]
    exact = [dataclasses.replace(job, clocks=(), cuts=(), end_jitter_ns=min(job.end_jitter_ns, 1_500)) for job in jobs]
    truths, tables = simulate_all(job for job in exact if not set(GROUP_ARGUMENTS) & set(job.omitted))
    answers = memory.filled(tables).query("stragglers").to_pylist()
    assert len(answers) == sum(truth.job.ranks for truth in truths.values())
    for row in answers:
        true = dataclasses.asdict(truths[row["run"]].totals[row["rank"]])
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
