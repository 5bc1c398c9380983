"""Simulated jobs of several ranks: their traces, their truth, and what the queries over ranks find in them."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from job_simulator import (
    START_NS,
    Clock,
    HostPause,
    Job,
    Kind,
    LoaderStall,
    SlowCompute,
    SlowHost,
    SlowLink,
    simulate,
)
from tests.memory import MemoryStore
from tests.simulated import stored_tables
from tracelab.client import Lab
from tracelab.ingest import pipeline

DELAYS = (SlowCompute(5, 130), LoaderStall(2, 1, 2_000_000))
JOB = Job(
    ranks=8, pipeline=2, tensor=2, steps=2, seed=1, layers=1, delays=(SlowCompute(5, 130), LoaderStall(2, 1, 2_000_000))
)


def test_a_job_is_simulated_the_same_twice(tmp_path: Path) -> None:
    digests = []
    for folder in ("a", "b"):
        written = simulate(JOB).write_kineto(tmp_path / folder)
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in written])
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 8


def test_rows_of_one_thread_or_stream_never_overlap_and_never_start_before_their_launch() -> None:
    simulation = simulate(JOB)
    calls = {(row.rank, row.correlation): row for row in simulation.rows if row.kind is Kind.CALL}
    ends: dict[tuple[int, int], int] = {}
    for row in simulation.rows:
        if row.kind is Kind.MEETING:
            continue
        start_ns = simulation.starts_ns[row.number]
        assert start_ns >= ends.get((row.rank, row.track), 0)
        ends[row.rank, row.track] = simulation.ends_ns[row.number]
        if row.kind not in (Kind.CALL, Kind.HOST, Kind.LOADER):
            assert start_ns > simulation.starts_ns[calls[row.rank, row.correlation].number]


def test_no_rank_leaves_a_collective_before_all_have_entered() -> None:
    simulation = simulate(JOB)
    assert {each.description for each in simulation.collectives} == {
        *("default_pg", "DATA_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP", "PIPELINE_MODEL_PARALLEL_GROUP")
    }
    for each in simulation.collectives:
        assert min(each.ends_ns.values()) >= each.last_ns
        assert max(each.ends_ns.values()) - min(each.ends_ns.values()) < JOB.end_jitter_ns


def test_the_critical_path_fills_the_window_without_gap_or_overlap() -> None:
    simulation = simulate(JOB)
    path = simulation.critical_path()
    assert sum(part.dur_ns for part in path) == simulation.window_ns
    assert [part.end_ns for part in path[1:]] == [part.start_ns for part in path[:-1]]
    assert (path[0].end_ns, path[-1].start_ns) == (simulation.end_ns, START_NS)
    assert sum(part.dur_ns for part in path if part.part == "loader" and part.rank == 2) >= 2_000_000


def test_ingested_traces_hold_the_rows_of_the_simulation(tmp_path: Path, memory: MemoryStore) -> None:
    job = dataclasses.replace(JOB, ranks=4, steps=1, clocks=(Clock(), Clock(1_000), Clock(-7, 20_000), Clock(10**9)))
    simulation = simulate(job)
    simulation.write_kineto(tmp_path / "job")
    pipeline.ingest([tmp_path / "job"], tmp_path / "store")
    memory.filled(stored_tables(simulation))
    lab = Lab(tmp_path / "store")
    for name, rows in stored_tables(simulation).items():
        columns = ", ".join(f'"{each}"' for each in rows[0] if each not in ("run", "source"))
        where = {"annotations": "where scope = 'cpu'", "collectives": "where origin = 'kernel'"}.get(name, "")
        stored = lab.sql(f"select {columns} from {name} {where} order by all").to_pylist()
        expected = memory.con.execute(f"select {columns} from {name} order by all").to_arrow_table()
        assert stored == expected.to_pylist(), name


@pytest.mark.parametrize("clocks", [(), tuple(Clock(37_000_000 * rank, 0) for rank in range(8))])
def test_waits_and_last_ranks_are_the_true_ones(memory: MemoryStore, clocks: tuple[Clock, ...]) -> None:
    """Ends that differ by nothing make offsets exact."""
    simulation = simulate(dataclasses.replace(JOB, clocks=clocks, end_jitter_ns=0))
    memory.filled(stored_tables(simulation))
    offsets = {row["rank"]: row["offset_ns"] for row in memory.query("clock_offsets").to_pylist()}
    assert offsets == {rank: simulation.offset_ns(rank) for rank in range(8)}
    totals = simulation.totals()
    for row in memory.query("stragglers").to_pylist():
        names = [field.name for field in dataclasses.fields(totals[0])]
        assert {name: row[name] for name in names} == dataclasses.asdict(totals[row["rank"]])
    waits = [row for row in memory.query("collective_wait").to_pylist() if row["wait_ns"] is not None]
    true = [each for each in simulation.collectives if not each.is_p2p]
    assert len(waits) == sum(len(each.ranks) for each in true)
    assert sorted((row["rank"], row["wait_ns"], row["last_rank"]) for row in waits) == sorted(
        (rank, wait_ns, each.last_rank) for each in true for rank, wait_ns in each.waits_ns.items()
    )


def test_the_parts_of_an_approach_fill_the_time_since_the_last_common_synchronization() -> None:
    """All ranks begin at one moment, so the lengths of their approaches differ by the waits."""
    simulation = simulate(JOB)
    for collective in simulation.collectives[::9]:
        approaches = simulation.approaches(collective)
        for each in approaches.values():
            parts = (each.compute_ns, each.communication_ns, each.copies_ns)
            assert sum(parts) + each.host_ns + each.dependency_ns + each.overhead_ns == each.dur_ns
        latest_ns = max(each.dur_ns for each in approaches.values())
        waits_ns = {rank: latest_ns - each.dur_ns for rank, each in approaches.items()}
        assert waits_ns == collective.waits_ns


def test_an_approach_shows_an_injected_stall_as_idle_by_the_host() -> None:
    delayed = simulate(dataclasses.replace(JOB, delays=(LoaderStall(2, 1, 2_000_000),)))
    healthy = delayed.without(*delayed.job.delays)
    number = next(
        index
        for index, each in enumerate(delayed.collectives)
        if each.step == 1 and each.ranks == (2, 3) and not each.is_p2p
    )
    collective = delayed.collectives[number]
    late = delayed.approaches(collective)[2].host_ns
    (same,) = (each for each in healthy.collectives if each.group == collective.group and each.seq == collective.seq)
    assert late - healthy.approaches(same)[2].host_ns == 2_000_000


def test_what_if_without_a_change_is_the_job_itself() -> None:
    simulation = simulate(JOB)
    assert simulation.what_if() == simulation.window_ns


@pytest.mark.parametrize(
    "delay",
    [
        SlowCompute(5, 150),
        SlowHost(5, 400),
        LoaderStall(5, 1, 5_000_000),
        HostPause(5, 1, 5_000_000),
        SlowLink(5, 400),
    ],
)
def test_a_delay_costs_time_that_the_job_without_it_gains(delay: object) -> None:
    healthy = dataclasses.replace(JOB, delays=())
    delayed = simulate(dataclasses.replace(JOB, delays=(delay,)))
    assert delayed.without(delay).window_ns == simulate(healthy).window_ns < delayed.window_ns
