"""Simulated jobs of several ranks: their traces, their truth, and what the queries over ranks find in them."""

import dataclasses
import hashlib
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

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
from job_simulator.critical_path import walk_back
from job_simulator.timed_graph import Edge, Graph, Reason, after_end, after_start
from tests.memory import MemoryStore
from tests.properties import examples
from tests.simulated import stored_tables
from tracelab.client import Lab
from tracelab.ingest import pipeline

DELAYS = (SlowCompute(5, 130), LoaderStall(2, 1, 2_000_000))
JOB = Job(
    ranks=8, pipeline=2, tensor=2, steps=2, seed=1, layers=1, delays=(SlowCompute(5, 130), LoaderStall(2, 1, 2_000_000))
)


def two_ranks() -> Graph:
    """Return kernels of 20 and 50 ns on two ranks, each before a collective whose transfer takes 5 ns."""
    graph = Graph()
    call = graph.add(Kind.CALL, "launch", (0, 9, 0), 10, [])
    short = graph.add(Kind.KERNEL, "short", (0, 7, 0), 20, [after_start(call.number, 3, Reason.LAUNCH)])
    long = graph.add(Kind.KERNEL, "long", (1, 7, 0), 50, [])
    meeting = graph.add(Kind.MEETING, "all_reduce", (0, 0, 0), 5, [])
    for rank, kernel, jitter_ns in ((0, short, 1), (1, long, 0)):
        before = [after_end(kernel.number, 0, Reason.STREAM)]
        member = graph.add(Kind.COMMUNICATION, "nccl", (rank, 28, 0), 0, before)
        member.meeting = meeting.number
        member.ends_after.append(after_end(meeting.number, jitter_ns, Reason.MEETING))
        meeting.starts_after.append(after_start(member.number, 0, Reason.MEETING))
    return graph


def test_times_and_critical_path_of_two_kernels_before_a_collective() -> None:
    graph = two_ranks()
    starts_ns, ends_ns = graph.times(100)
    assert starts_ns == [100, 103, 100, 150, 123, 150]
    assert ends_ns == [110, 123, 150, 155, 156, 155]
    path = walk_back(graph.rows, starts_ns, ends_ns, 100)
    assert [(part.part, part.rank, part.row, part.start_ns, part.end_ns) for part in path] == [
        ("communication", 0, 4, 150, 156),
        ("compute", 1, 2, 100, 150),
    ]


def test_with_the_long_kernel_shortened_the_other_rank_is_on_the_path() -> None:
    graph = two_ranks()
    starts_ns, ends_ns = graph.times(100, lambda row: 10 if row.name == "long" else row.dur_ns)
    assert (starts_ns[3], max(ends_ns)) == (123, 129)
    path = walk_back(graph.rows, starts_ns, ends_ns, 100)
    assert [(part.part, part.rank, part.row, part.dur_ns) for part in path] == [
        ("communication", 0, 4, 6),
        ("compute", 0, 1, 20),
        ("launch", 0, 1, 3),
    ]


def test_without_launch_gaps_and_without_the_other_rank_rows_start_at_once() -> None:
    graph = two_ranks()
    assert graph.times(100, lag=lambda _, edge: 0 if edge.reason is Reason.LAUNCH else edge.lag_ns)[0][1] == 100
    alone = graph.times(100, lag=lambda row, edge: None if row.number == 3 and edge.row == 5 else edge.lag_ns)
    assert alone[1][3] == 128


def test_a_circle_is_refused() -> None:
    graph = two_ranks()
    graph.rows[0].starts_after.append(after_end(4, 0, Reason.HANDOVER))
    with pytest.raises(ValueError, match="wait for each other in a circle"):
        graph.times(0)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9), st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.integers(0, 5)), max_size=3)
        ),
        min_size=1,
        max_size=30,
    )
)
@examples(40)
def test_times_are_those_of_a_plain_recursion(rows: list[tuple[int, list[tuple[int, bool, int]]]]) -> None:
    graph = Graph()
    for number, (dur_ns, edges) in enumerate(rows):
        after = [Edge(row % number, is_end, lag_ns, Reason.STREAM) for row, is_end, lag_ns in edges if number]
        graph.add(Kind.KERNEL, "k", (0, 7, 0), dur_ns, after)

    def start_ns(number: int) -> int:
        moments = [
            start_ns(edge.row) + edge.lag_ns + graph.rows[edge.row].dur_ns * edge.is_end
            for edge in graph.rows[number].starts_after
        ]
        return max(moments, default=0)

    assert graph.times(0)[0] == [start_ns(number) for number in range(len(rows))]


def test_the_bubble_of_a_pipeline_is_near_the_ideal_one() -> None:
    """The first of p stages idles for (p - 1) / (m + p - 1) of its step, the last one for next to nothing."""
    bubbles = simulate(Job(ranks=4, pipeline=4, steps=2, microbatches=8)).bubbles()
    for each in bubbles:
        assert each.compute_ns + each.communication_ns + each.bubble_ns == each.window_ns
        if each.stage == 0:
            assert each.bubble_ns / each.window_ns == pytest.approx(3 / 11, abs=0.03)
    assert max(each.bubble_ns / each.window_ns for each in bubbles if each.stage == 3) < 0.03


def test_sharded_ranks_gather_parameters_and_scatter_gradients() -> None:
    simulation = simulate(Job(ranks=4, tensor=2, sharded=True, steps=1, layers=3))
    kinds = Counter(each.collective for each in simulation.collectives if each.description == "DATA_PARALLEL_GROUP")
    assert kinds == {"_allgather_base": 2 * 6, "_reduce_scatter_base": 2 * 3}


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
    assert sum(row["src_rank"] is not None for row in waits) == sum(2 for each in simulation.collectives if each.is_p2p)
    assert sorted((row["rank"], row["wait_ns"], row["last_rank"]) for row in waits) == sorted(
        (rank, wait_ns, each.last_rank) for each in simulation.collectives for rank, wait_ns in each.waits_ns.items()
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
