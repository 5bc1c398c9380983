"""Collectives matched over ranks, clocks aligned by their ends, and the waits in them."""

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.memory import MemoryStore
from tests.properties import examples
from tests.ranks import kernel, note
from tracelab.output.table_view import reduce_columns
from tracelab.query.library import library


def rows(memory: MemoryStore, name: str, kernels: list[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    return memory.filled({"kernels": kernels}).query(name, **values).to_pylist()


def test_the_order_is_moved_to_where_kinds_and_ends_agree(memory: MemoryStore) -> None:
    kinds = ["all_reduce", "all_gather", "all_gather", "all_reduce", "all_gather", "all_reduce", "all_reduce"]
    kernels = [kernel(0, 100 * at, 100 * at + 50, kind) for at, kind in enumerate(kinds)]
    kernels += [kernel(1, 100 * at + 7, 100 * at + 50, kind) for at, kind in enumerate(kinds) if at >= 2]
    answer = rows(memory, "collective_wait", kernels)
    assert [(row["number"], row["rank"], row["state"], row["wait_ns"]) for row in answer] == [
        (1, 0, "partial", None),
        (2, 0, "partial", None),
        *((number, rank, "matched", 7 * (rank == 0)) for number in (3, 4, 5, 6, 7) for rank in (0, 1)),
    ]


def test_orders_that_do_not_agree_are_refused(memory: MemoryStore) -> None:
    kernels = [kernel(0, 100 * at, 100 * at + 50, "all_reduce") for at in range(6)]
    kernels += [kernel(1, 100 * at, 100 * at + 50, "all_gather") for at in range(6)]
    answer = rows(memory, "collective_wait", kernels)
    assert {(row["state"], row["wait_ns"]) for row in answer} == {("refused", None)}
    assert {row["reason"] for row in answer} == {
        "no shift of the order makes kinds and sizes agree for 95 % of the collectives, and for five at least"
    }
    assert [row["verdict"] for row in rows(memory, "clock_offsets", kernels)] == ["same_clock", "refused"]


def test_ends_that_vary_by_milliseconds_are_refused(memory: MemoryStore) -> None:
    kernels = [kernel(0, 10**7 * at, 10**7 * at + 50) for at in range(6)]
    kernels += [kernel(1, 10**7 * at, 10**7 * at + 50 + 3_000_000 * (at % 3)) for at in range(6)]
    assert {row["state"] for row in rows(memory, "collective_wait", kernels)} == {"refused"}


def test_a_rank_that_is_not_recorded_leaves_its_group_partial(memory: MemoryStore) -> None:
    noted = {
        "origin": "kernel",
        "collective": "all_reduce",
        "group_name": "0",
        "group_size": 3,
        "pid": 1,
        "correlation": 1,
    }
    kernels = [kernel(rank, 0, 50, pid=1, correlation=1) for rank in (0, 1)]
    notes = [
        {**noted, "rank": each["rank"], "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 50, "seq": 4}
        for each in kernels
    ]
    answer = memory.filled({"kernels": kernels, "collectives": notes}).query("collective_wait").to_pylist()
    assert [(row["state"], row["ranks"], row["group_size"], row["wait_ns"]) for row in answer] == [
        ("partial", 2, 3, None)
    ] * 2


def test_groups_of_the_same_members_are_distinguished_by_their_names(memory: MemoryStore) -> None:
    """Each group counts for itself: in a job of data parallelism alone its group and the default one are alike."""
    kernels, notes = [], []
    for name, collective, at_ns in (("0", "all_reduce", 0), ("1", "all_gather", 100)):
        for rank in (0, 1):
            each = kernel(rank, at_ns + 10 * rank, at_ns + 50, collective, pid=1, correlation=at_ns)
            kernels.append(each)
            notes.append(note(each, 1, 2, group_name=name, group_ranks=[0, 1], collective=collective, pid=1))
    answer = memory.filled({"kernels": kernels, "collectives": notes}).query("collective_wait").to_pylist()
    assert [(row["collective"], row["state"], row["rank"], row["wait_ns"]) for row in answer] == [
        ("all_reduce", "matched", 0, 10),
        ("all_reduce", "matched", 1, 0),
        ("all_gather", "matched", 0, 10),
        ("all_gather", "matched", 1, 0),
    ]


def test_a_group_that_is_named_otherwise_on_each_rank_is_one_group(memory: MemoryStore) -> None:
    kernels = [kernel(rank, 10 * rank, 50, pid=1, correlation=7) for rank in (0, 1)]
    notes = [note(each, 1, 2, group_name=str(each["rank"]), group_ranks=[0, 1], pid=1) for each in kernels]
    answer = memory.filled({"kernels": kernels, "collectives": notes}).query("collective_wait").to_pylist()
    assert [(row["state"], row["wait_ns"]) for row in answer] == [("matched", 10), ("matched", 0)]


def test_groups_without_names_that_look_like_one_are_refused(memory: MemoryStore) -> None:
    """Ranks 0 and 1, and ranks 2 and 3, reduce at the same time on the same stream."""
    kernels = [
        kernel(rank, 1000 * at + rank, 1000 * at + 50 + rank // 2, pid=1, correlation=at)
        for at in range(6)
        for rank in range(4)
    ]
    notes = [note(each, 0, 2, group_name=None, pid=1) | {"seq": None} for each in kernels]
    answer = memory.filled({"kernels": kernels, "collectives": notes}).query("collective_wait").to_pylist()
    assert {(row["state"], row["reason"], row["wait_ns"]) for row in answer} == {
        ("refused", "found on more ranks than the group has", None)
    }


def test_of_as_many_collectives_on_each_rank_the_order_stays_as_it_is(memory: MemoryStore) -> None:
    """Steps take the same time, so that every shift of them fits, and some fit to the nanosecond."""
    kernels = [
        kernel(rank, 10**6 * at + 1000 * rank, 10**6 * at + 9000 + 100 * rank * (at % 3 == 1)) | {"run": f"{count:02}"}
        for count in (1, 2, 3, 12)
        for at in range(count)
        for rank in range(4)
    ]
    answer = rows(memory, "collective_wait", kernels)
    assert [row["run"] for row in answer] == ["01"] * 4 + ["02"] * 8 + ["03"] * 12 + ["12"] * 48
    assert [row["wait_ns"] for row in answer] == [3000, 2000, 1000, 0] * 18
    offsets = memory.query("clock_offsets").to_pylist()
    assert [abs(row["offset_ns"]) < 400 for row in offsets] == [True] * 16


def test_clocks_years_apart_have_an_offset_in_whole_nanoseconds(memory: MemoryStore) -> None:
    years = 3 * 365 * 86_400 * 10**9 + 7
    kernels = [
        kernel(rank, 1000 * at + years * rank, 1000 * at + 500 + years * rank) for at in range(6) for rank in (0, 1)
    ]
    assert [row["offset_ns"] for row in rows(memory, "clock_offsets", kernels)] == [0, -years]


def test_one_rank_alone_waits_for_nobody_known(memory: MemoryStore) -> None:
    (row,) = rows(memory, "stragglers", [kernel(0, 0, 50)])
    assert (row["collectives"], row["unmatched"], row["reason"]) == (0, 1, "on one rank, of a group of unknown size")
    unknown = ("chance", "dur_ns", "wait_ns", "exposed_wait_ns", "transfer_ns", "times_last", "caused_wait_ns")
    assert {row[name] for name in unknown} == {None}
    shown, notes = reduce_columns(memory.query("stragglers"), library()["stragglers"].show, "--all shows them")
    assert shown.to_pylist() == [{"reason": "on one rank, of a group of unknown size"}]
    assert notes[0].startswith("In every row above: run = r, rank = 0, collectives = 0, wait_ns = NULL, ")


def test_a_rank_that_nothing_connects_is_refused_with_the_reason(memory: MemoryStore) -> None:
    kernels = [kernel(rank, 0, 50, pid=rank, correlation=1) for rank in (0, 1)]
    notes = [{**note(each, rank, 2), "pid": rank} for rank, each in enumerate(kernels)]
    answer = memory.filled({"kernels": kernels, "collectives": notes}).query("clock_offsets").to_pylist()
    assert [(row["verdict"], row["reason"]) for row in answer] == [
        ("same_clock", None),
        ("refused", "no collective connects it with rank 0; on 1 of 2 ranks"),
    ]


random_jobs = st.integers(2, 4).flatmap(
    lambda ranks: st.tuples(
        st.lists(st.lists(st.integers(0, 40), min_size=ranks, max_size=ranks), min_size=5, max_size=9),
        st.lists(st.integers(-(10**9), 10**9), min_size=ranks, max_size=ranks),
    )
)


@given(st.lists(random_jobs, min_size=1, max_size=12))
@examples(8)
def test_offsets_come_back_and_waits_are_those_of_a_loop(
    memory: MemoryStore, jobs: list[tuple[list[list[int]], list[int]]]
) -> None:
    """Collectives end at once on all ranks; each rank's clock is off by a constant. Each job is a run."""
    kernels = [
        kernel(rank, 1000 * row[rank] + clocks[rank], 1000 * (max(row) + 9) + clocks[rank], correlation=number)
        | {"run": f"job{job}"}
        for job, (starts, clocks) in enumerate(jobs)
        for number, row in enumerate(_at_us(starts))
        for rank in range(len(clocks))
    ]
    notes = [
        note(each, each["correlation"], len(jobs[int(each["run"].removeprefix("job"))][1])) | {"run": each["run"]}
        for each in kernels
    ]
    memory.filled({"kernels": kernels, "collectives": notes})
    offsets, stragglers = (memory.query(name).to_pylist() for name in ("clock_offsets", "stragglers"))
    for job, (starts, clocks) in enumerate(jobs):
        _check_job(
            starts,
            clocks,
            {row["rank"]: row["offset_ns"] for row in offsets if row["run"] == f"job{job}"},
            {row["rank"]: row for row in stragglers if row["run"] == f"job{job}"},
        )


def _at_us(starts: list[list[int]]) -> list[list[int]]:
    return [[1000 * number + late for late in row] for number, row in enumerate(starts)]


def _check_job(
    starts: list[list[int]], clocks: list[int], offsets: dict[int, int], answer: dict[int, dict[str, Any]]
) -> None:
    """Compare the offsets and stragglers of one job with a loop over its collectives."""
    assert offsets == {rank: clocks[0] - clock for rank, clock in enumerate(clocks)}
    waits, last, caused = Counter[int](), Counter[int](), Counter[int]()
    for row in _at_us(starts):
        late = max(row)
        last[row.index(late)] += 1
        for rank, start in enumerate(row):
            waits[rank] += 1000 * (late - start)
            caused[row.index(late)] += 1000 * (late - start)
    small = {rank for rank, offset in offsets.items() if 0 < abs(offset) <= 1000}  # such an offset is not applied
    if not small:
        assert {rank: row["wait_ns"] for rank, row in answer.items()} == {rank: waits[rank] for rank in answer}
        assert {rank: row["times_last"] for rank, row in answer.items()} == {rank: last[rank] for rank in answer}
        assert {rank: row["caused_wait_ns"] for rank, row in answer.items()} == {rank: caused[rank] for rank in answer}


def test_a_rank_is_persistent_if_it_is_last_in_two_thirds_of_the_steps(memory: MemoryStore) -> None:
    late = {0: 2, 1: 2, 2: 0, 3: 2, 4: 2, 5: 2}  # the last rank of each step
    kernels = [
        kernel(rank, 1000 * step + 50 * (rank == late[step]), 1000 * step + 90) for step in late for rank in range(4)
    ]
    marks = [
        {"rank": rank, "scope": "cpu", "name": f"ProfilerStep#{step + 7}", "start_ns": 1000 * step - 5, "dur_ns": 900}
        for step in late
        for rank in range(4)
    ]
    answer = memory.filled({"kernels": kernels, "annotations": marks}).query("stragglers").to_pylist()
    figures = {
        row["rank"]: (row["steps"], row["steps_last"], row["longest_steps"], row["persistence"]) for row in answer
    }
    assert figures == {2: (6, 5, 3, "persistent"), 0: (6, 1, 1, "changing"), 1: (6, 0, 0, None), 3: (6, 0, 0, None)}
    assert {row["rank"]: row["lateness_ns"] for row in answer} == {0: 50, 1: 0, 2: 250, 3: 0}


@pytest.mark.parametrize(
    ("kind", "entries", "ends", "root_waits", "waits"),
    [
        ("broadcast", [20, 40, 10], [90, 90, 90], [20, 0, 30], [20, 0, 30]),
        ("broadcast", [20, 5, 10], [90, 90, 90], [0, 0, 0], [0, 15, 10]),
        ("broadcast", [20, 5, 10], [90, 20, 90], [0, 0, 0], [None] * 3),
        ("reduce", [20, 5, 10], [90, 90, 15], [0, 15, 0], [None] * 3),
    ],
)
def test_a_broadcast_synchronizes_where_no_rank_leaves_before_the_last_one_enters(
    memory: MemoryStore,
    kind: str,
    entries: list[int],
    ends: list[int],
    root_waits: list[int],
    waits: list[int | None],
) -> None:
    """The root is rank 1: the others wait for it in a broadcast, and it waits for them in a reduction."""
    kernels = [kernel(rank, 1000 * at, 1000 * at + 90, correlation=at) for at in range(5) for rank in range(3)]
    kernels += [kernel(rank, 5000 + entries[rank], 5000 + ends[rank], correlation=5) for rank in range(3)]
    notes = [note(each, each["correlation"], 3) for each in kernels]
    notes = [each | ({"collective": kind, "root": 1} if each["seq"] == 5 else {}) for each in notes]
    answer = memory.filled({"kernels": kernels, "collectives": notes}).query("collective_wait").to_pylist()
    rooted = [row for row in answer if row["number"] == 6]
    assert [row["root_wait_ns"] for row in rooted] == root_waits
    assert [row["wait_ns"] for row in rooted] == waits
