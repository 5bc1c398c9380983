"""Matched collectives and clock offsets in up to 200 simulated jobs, whose true ones are known."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from job_simulator import START_NS, Clock, Job, RankTotals, SlowCompute, simulate
from tests.memory import MemoryStore
from tests.properties import at_most
from tests.simulated import GROUP_ARGUMENTS, communication, random_job

JOBS = at_most(200)
EXACT_JOBS = at_most(40)


@dataclass(frozen=True)
class Truth:
    """What is known of a job once it is simulated; its rows would fill the memory."""

    job: Job
    end_ns: int
    totals: dict[int, RankTotals]
    numbers: dict[tuple[int, int, int], int]
    """The number of a collective by rank, start and duration, by the rank's clock."""
    waits_ns: dict[tuple[int, int, int], int]
    """By the same, how long the rank waits in it."""

    def offsets_ns(self, rank: int, reference: int) -> tuple[int, int]:
        """Return the least and the largest offset during the job: drift changes it."""
        least_ns, most_ns = sorted(self.job.offset_ns(rank, reference, moment) for moment in (START_NS, self.end_ns))
        return least_ns, most_ns


def simulate_all(jobs: Iterable[Job]) -> tuple[dict[str, Truth], dict[str, list[Any]]]:
    """Return the truth of each job by its name, and the kernels of their collectives as stored."""
    truths, tables = {}, defaultdict[str, list[Any]](list)
    for job in jobs:
        simulation = simulate(job)
        numbers, waits_ns = {}, {}
        for each in simulation.collectives:
            for rank, start_ns in each.starts_ns.items():
                at_ns, end_ns = map(job.clock(rank).reading_ns, (start_ns, each.ends_ns[rank]))
                numbers[rank, at_ns, end_ns - at_ns] = each.number
                waits_ns[rank, at_ns, end_ns - at_ns] = each.waits_ns[rank]
        truths[job.name] = Truth(job, simulation.end_ns, simulation.totals(), numbers, waits_ns)
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


def test_waits_are_off_by_no_more_than_the_bounds_of_offsets(
    known: tuple[dict[str, Truth], dict[str, list[dict[str, Any]]]],
) -> None:
    """The rank's own offset may be off, and that of the rank which seems to come last."""
    truths, answers = known
    off_ns: dict[tuple[str, int], int] = {}
    for row in answers["clock_offsets"]:
        if row["verdict"] != "refused":
            off_ns[row["run"], row["rank"]] = max(row["high_ns"] - row["offset_ns"], row["offset_ns"] - row["low_ns"])
    worst_ns = {run: max(each for (of, _), each in off_ns.items() if of == run) for run, _ in off_ns}
    errors = [
        (abs(row["wait_ns"] - truths[row["run"]].waits_ns[row["rank"], row["start_ns"], row["dur_ns"]]), row)
        for row in answers["collective_wait"]
        if row["wait_ns"] is not None and row["src_rank"] is None
    ]
    assert len(errors) > 50 * JOBS
    for error_ns, row in errors:
        assert error_ns <= off_ns[row["run"], row["rank"]] + worst_ns[row["run"]], row


def test_only_jobs_without_sequence_numbers_are_refused(jobs: dict[str, Truth], offsets: list[dict[str, Any]]) -> None:
    refused = {row["run"] for row in offsets if row["verdict"] == "refused"}
    assert refused <= {name for name, truth in jobs.items() if "Seq" in truth.job.omitted}
    assert len(refused) < JOBS / 5


def test_waits_are_the_true_ones_to_the_nanosecond_where_all_clocks_are_exact(memory: MemoryStore) -> None:
    jobs = [random_job(seed) for seed in range(EXACT_JOBS)]
    exact = [dataclasses.replace(job, clocks=(), cuts=(), end_jitter_ns=min(job.end_jitter_ns, 1_500)) for job in jobs]
    truths, tables = simulate_all(job for job in exact if not set(GROUP_ARGUMENTS) & set(job.omitted))
    answers = memory.filled(tables).query("stragglers").to_pylist()
    assert len(answers) == sum(truth.job.ranks for truth in truths.values())
    for row in answers:
        true = dataclasses.asdict(truths[row["run"]].totals[row["rank"]])
        assert {name: row[name] for name in true} == true, row["run"]


def test_waits_are_the_true_ones_to_the_nanosecond_where_the_offsets_are_known() -> None:
    """Clocks are up to 500 ms apart, windows begin at different times, and ends scatter: only the offsets are given."""
    memory = MemoryStore()
    jobs = [dataclasses.replace(job, omitted=()) for job in map(random_job, range(EXACT_JOBS))]
    still = [dataclasses.replace(job, clocks=tuple(Clock(each.offset_ns) for each in job.clocks)) for job in jobs]
    truths, tables = simulate_all(still)
    memory.filled(tables)
    given = [
        {"run": job.name, "rank": rank, "offset_ns": job.clock(0).offset_ns - job.clock(rank).offset_ns}
        for job in still
        for rank in range(job.ranks)
    ]
    memory.con.register("given_offsets", pa.Table.from_pylist(given))
    waits = memory.con.execute(
        """
        with executions as (select * exclude (external_id) from recorded_kernels),
        communication as (from collective_kernels('executions')),
        matched as materialized (from match_ranks('communication')),
        offsets as (
            select *, 0 as reference_rank, 0 as spread_ns, 'aligned' as verdict, null::double as drift_ppb,
                null::bigint as offset_time_ns
            from given_offsets
        )
        select run, rank, start_ns, end_ns - start_ns, wait_ns
        from wait_times('matched', 'offsets')
        where wait_ns is not null and not is_p2p
        """
    ).fetchall()
    assert len(waits) > 60 * EXACT_JOBS
    for run, rank, start_ns, dur_ns, wait_ns in waits:
        assert wait_ns == truths[run].waits_ns[rank, start_ns, dur_ns], (run, rank, start_ns)


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
