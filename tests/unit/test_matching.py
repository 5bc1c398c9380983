"""The same collective on all ranks: by id, by sequence number, by order, sends by receiver; and what is not matched."""

from collections.abc import Callable, Iterable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.memory import MemoryStore
from tests.properties import examples
from tests.ranks import NAMES, kernel, note

SEND_RECV = "ncclDevKernel_SendRecv(args)"
ONE_CLOCK: dict[str, Any] = {
    "sources": [{"source": "a", "clock": "unix"}],
    "devices": [{"source": "a", "rank": rank, "host": "h"} for rank in (0, 1)],
}
Note = Callable[[dict[str, Any]], dict[str, Any]]


def job(
    memory: MemoryStore, kernels: Iterable[dict[str, Any]], noted: Note | None, **more: Any
) -> list[dict[str, Any]]:
    """Return the answer of collective_wait for kernels; `noted` is the group and number of each."""
    numbered = [row | {"correlation": at} for at, row in enumerate(kernels)]
    notes = [note(row, 0, 2) | noted(row) for row in numbered] if noted else []
    kept = [{name: value for name, value in row.items() if name != "id"} for row in numbered]
    notes = [{name: value for name, value in row.items() if name != "id"} for row in notes]
    return memory.filled({"kernels": kept, "collectives": notes, **more}).query("collective_wait").to_pylist()


def states(answer: list[dict[str, Any]]) -> set[tuple[str, str | None]]:
    return {(row["state"], row["reason"]) for row in answer}


def pairs(answer: list[dict[str, Any]]) -> dict[int, list[int]]:
    """The starts that were found to be one collective, by its number."""
    found: dict[int, list[int]] = {}
    for row in answer:
        found.setdefault(row["number"], []).append(row["start_ns"])
    return found


def test_the_id_of_an_operation_is_the_same_on_all_ranks(memory: MemoryStore) -> None:
    """Numbers that differ in the last digit, beyond what a double or 64 bits with a sign can hold."""
    kernels = [kernel(rank, 100 * at + rank, 100 * at + 50, id=at) for at in range(3) for rank in (0, 1)]
    kernels = [row for row in kernels if (row["rank"], row["id"]) != (1, 0)]
    answer = job(memory, kernels, lambda row: {"comms_id": str(2**64 - 1 - row["id"]), "seq": 7 * row["rank"]})
    assert pairs(answer) == {1: [0], 2: [100, 101], 3: [200, 201]}
    assert [(row["state"], row["reason"]) for row in answer] == [("partial", "on 1 of 2 ranks")] + [
        ("matched", None)
    ] * 4
    assert {row["matched_by"] for row in answer} == {"comms_id"}


def test_a_kernel_without_the_id_that_its_group_has_is_partial(memory: MemoryStore) -> None:
    kernels = [kernel(rank, 100 * at, 100 * at + 50, id=at) for at in range(40) for rank in (0, 1)]
    answer = job(memory, kernels, lambda row: {"comms_id": str(row["id"]) if row["id"] or row["rank"] else None})
    assert [row["state"] for row in answer] == ["partial"] * 2 + ["matched"] * 78


def test_ids_on_one_rank_alone_leave_the_sequence_numbers(memory: MemoryStore) -> None:
    kernels = [kernel(rank, 100 * at, 100 * at + 50, id=at) for at in range(3) for rank in (0, 1)]
    answer = job(memory, kernels, lambda row: {"comms_id": str(row["id"]) if row["rank"] else None, "seq": row["id"]})
    assert {(row["state"], row["matched_by"]) for row in answer} == {("matched", "seq")}


@pytest.mark.parametrize("seq", [True, False])
def test_an_id_that_all_operations_share_is_none(memory: MemoryStore, seq: bool) -> None:
    kernels = [kernel(rank, 100 * at, 100 * at + 50, id=at) for at in range(20) for rank in (0, 1)]
    answer = job(memory, kernels, lambda row: {"comms_id": "7", "seq": row["id"] if seq else None})
    assert {(row["state"], row["matched_by"]) for row in answer} == {("matched", "seq" if seq else "order")}
    assert len(pairs(answer)) == 20


def test_several_kernels_of_one_operation_are_one_from_first_start_to_last_end(memory: MemoryStore) -> None:
    kernels = [kernel(0, 0, 40), kernel(0, 10, 50, stream=8), kernel(1, 20, 50)]
    answer = job(memory, kernels, lambda _: {"comms_id": "5"})
    assert [(row["rank"], row["start_ns"], row["dur_ns"], row["wait_ns"]) for row in answer] == [
        (0, 0, 50, 20),
        (1, 20, 30, 0),
    ]


def test_operations_coalesced_into_one_kernel_are_matched_once(memory: MemoryStore) -> None:
    """Two ops note their numbers, but the one kernel that carries both has the number of the last."""
    kernels = [kernel(rank, 0, 50, id=0) for rank in (0, 1)]
    ops = [
        note(row | {"correlation": None}, seq, 2, origin="op", tid=1, device=None, stream=None)
        for row in kernels
        for seq in (5, 6)
    ]
    kept = [{**row, "correlation": 1} for row in kernels]
    for row in (*kept, *ops):
        row.pop("id", None)
    notes = [note(row, 6, 2) for row in kept]
    answer = memory.filled({"kernels": kept, "collectives": [*notes, *ops]}).query("collective_wait").to_pylist()
    assert [(row["number"], row["rank"], row["state"]) for row in answer] == [(1, 0, "matched"), (1, 1, "matched")]


@pytest.mark.parametrize(
    "differ",
    [
        lambda row: {"dtype": ("Float", "Half")[row["rank"]]},
        lambda row: {"collective": ("all_reduce", "all_gather")[row["rank"]]},
        lambda row: {"in_elements": (10, 20)[row["rank"]]},
    ],
)
def test_another_kind_type_or_size_is_no_match(memory: MemoryStore, differ: Note) -> None:
    answer = job(memory, [kernel(rank, 0, 50) for rank in (0, 1)], lambda row: {"seq": 1} | differ(row))
    assert states(answer) == {("mismatched", "kinds, types or sizes differ between ranks")}


def test_a_collective_in_which_a_recording_begins_is_cut(memory: MemoryStore) -> None:
    kernels = [kernel(rank, 100 * at, 100 * at + 50, source=f"{rank}", id=at) for at in range(3) for rank in (0, 1)]
    window = [{"source": "1", "window_start_ns": 20, "window_dur_ns": 200}]
    answer = job(memory, kernels, lambda row: {"seq": row["id"], "source": row["source"]}, sources=window)
    assert [(row["number"], row["state"], row["wait_ns"]) for row in answer if row["rank"]] == [
        (1, "cut", None),
        (2, "matched", 0),
        (3, "cut", None),
    ]
    assert {row["unmatched"] for row in memory.query("stragglers").to_pylist()} == {2}


def test_groups_of_more_than_30_ranks_are_known_by_their_spacing(memory: MemoryStore) -> None:
    """Two groups share a name: the even ranks and the odd ones."""
    kernels = [kernel(rank, rank, 200) for rank in range(80)]
    answer = job(
        memory, kernels, lambda row: {"seq": 1, "group_size": 40, "group_start": row["rank"] % 2, "group_stride": 2}
    )
    assert states(answer) == {("matched", None)}
    assert {(row["rank"] % 2, row["ranks"], row["last_rank"]) for row in answer} == {(0, 40, 78), (1, 40, 79)}


def test_the_spacing_on_an_op_holds_for_the_kernels_of_its_group(memory: MemoryStore) -> None:
    kernels = [kernel(rank, rank, 200, correlation=rank, source=str(rank)) for rank in range(4)]
    group = {"group_size": 2, "group_name": "tp"}
    notes = [note(row, 1, 2) | group | {"source": row["source"]} for row in kernels]
    ops = [
        {
            **row,
            "origin": "op",
            "tid": 1,
            "device": None,
            "stream": None,
            "group_start": row["rank"] % 2,
            "group_stride": 2,
        }
        for row in notes
    ]
    answer = memory.filled({"kernels": kernels, "collectives": [*notes, *ops]}).query("collective_wait").to_pylist()
    assert {(row["rank"], row["state"], row["last_rank"]) for row in answer} == {
        (rank, "matched", rank % 2 + 2) for rank in range(4)
    }


def test_communicators_of_nsight_systems_are_groups(memory: MemoryStore) -> None:
    kernels = [kernel(rank, 10 * rank, 90) for rank in range(4)]
    answer = job(
        memory, kernels, lambda row: {"seq": None, "group_name": None, "comm_id": str(2**63 + row["rank"] // 2)}
    )
    assert {(row["rank"], row["ranks"], row["wait_ns"]) for row in answer} == {
        (0, 2, 10),
        (1, 2, 0),
        (2, 2, 10),
        (3, 2, 0),
    }


def test_ranks_of_two_profilers_are_matched_by_stream_and_order(memory: MemoryStore) -> None:
    """Ranks 0 and 1 name groups and kinds, ranks 2 and 3 only kernels: an all-to-all is a SendRecv there."""
    kernels, notes = [], []
    for at in range(8):
        kind = ("all_reduce", "all_to_all", "all_gather")[at % 3]
        for rank in range(4):
            name = SEND_RECV if kind == "all_to_all" else NAMES[kind]
            row = kernel(rank, 1000 * at + rank, 1000 * at + 500, name=name, correlation=at, source=f"{rank}")
            kernels.append(row)
            if rank < 2:
                notes.append(note(row, at, 4) | {"collective": kind, "source": row["source"], "dtype": "Float"})
    sources = [{"source": str(rank), "format": "nsys", "clock": "session"} for rank in (2, 3)]
    answer = memory.filled({"kernels": kernels, "collectives": notes, "sources": sources}).query("collective_wait")
    assert {(row["state"], row["matched_by"]) for row in answer.to_pylist()} == {("matched", "order")}
    assert pairs(answer.to_pylist()) == {at + 1: [1000 * at + rank for rank in range(4)] for at in range(8)}


def sends(at_ns: int, send_ns: int, receive_ns: int, *, source: int = 0, target: int = 1) -> list[dict[str, Any]]:
    """A send and its receive, each until 100 ns after the later start."""
    end = at_ns + max(send_ns, receive_ns) + 100
    return [
        kernel(source, at_ns + send_ns, end, name=SEND_RECV, id=("send", target)),
        kernel(target, at_ns + receive_ns, end, name=SEND_RECV, id=("recv", source)),
    ]


def point_to_point(row: dict[str, Any]) -> dict[str, Any]:
    """The note of a send names the receiver alone, and that of a receive the sender; each rank counts its own."""
    kind, peer = row["id"]
    side = {"dst_rank": peer} if kind == "send" else {"src_rank": peer}
    return {
        "collective": "send_recv",
        "raw_name": kind,
        "is_p2p": True,
        "seq": 1000 * row["rank"] + row["start_ns"],
    } | side


def test_a_send_and_its_receive_wait_for_the_later_one(memory: MemoryStore) -> None:
    kernels = [row for at in range(6) for row in sends(10_000 * at, 0, 30 * at)]
    answer = job(memory, kernels, point_to_point, **ONE_CLOCK)
    assert {(row["state"], row["src_rank"], row["dst_rank"], row["group_size"]) for row in answer} == {
        ("matched", 0, 1, 2)
    }
    assert [row["wait_ns"] for row in answer if row["rank"] == 0] == [0, 30, 60, 90, 120, 150]  # late receivers
    assert {row["transfer_ns"] for row in answer} == {100}
    assert {row["collectives"] for row in memory.query("stragglers").to_pylist()} == {0}


def test_a_buffered_send_waits_for_nobody_beyond_its_end(memory: MemoryStore) -> None:
    kernels = [
        kernel(0, 0, 20, name=SEND_RECV, id=("send", 1)),
        kernel(1, 70, 90, name=SEND_RECV, id=("recv", 0)),
    ]
    answer = job(memory, kernels, point_to_point, **ONE_CLOCK)
    assert [(row["wait_ns"], row["transfer_ns"]) for row in answer] == [(20, 0), (0, 20)]


def test_sends_in_both_directions_and_to_others_are_kept_apart(memory: MemoryStore) -> None:
    """Ranks 0 -> 1 -> 2, and back: the k-th send of a direction belongs to its k-th receive."""
    links = [(0, 1), (1, 2), (2, 1), (1, 0)]
    kernels = [
        row
        for at in range(5)
        for step, (source, target) in enumerate(links)
        for row in sends(10_000 * at + 1_000 * step, 10, 0, source=source, target=target)
    ]
    answer = job(memory, kernels, point_to_point)
    assert {row["state"] for row in answer} == {"matched"}
    assert all(len(starts) == 2 and abs(starts[0] - starts[1]) == 10 for starts in pairs(answer).values())
    assert len(pairs(answer)) == 20


def test_a_window_that_misses_the_first_sends_is_moved(memory: MemoryStore) -> None:
    kernels = [row for at in range(9) for row in sends(10_000 * at * at, 0, 5)]
    answer = job(memory, [row for row in kernels if row["rank"] == 0 or row["start_ns"] > 50_000], point_to_point)
    assert [row["state"] for row in answer if row["rank"] == 0] == ["partial"] * 3 + ["matched"] * 6
    assert all(starts[1] - starts[0] == 5 for starts in pairs(answer).values() if len(starts) == 2)


def test_sends_of_other_sizes_are_no_match(memory: MemoryStore) -> None:
    answer = job(
        memory,
        [row for at in range(3) for row in sends(1000 * at, 0, 5)],
        lambda row: point_to_point(row) | {"in_elements": 8 if row["start_ns"] == 1000 else 4, "out_elements": 4},
    )
    assert {row["state"] for row in answer} == {"refused"}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 60)), min_size=8, max_size=20),
    st.integers(0, 2),
    st.integers(0, 2),
)
@examples(30)
def test_orders_with_cut_windows_agree_with_a_loop(
    memory: MemoryStore, collectives: list[tuple[int, int, int]], missing_first: int, missing_last: int
) -> None:
    """Rank 1 lacks some at both ends; irregular times and kinds leave one shift, or none is taken."""
    kinds = list(NAMES)
    kernels, at_ns = [], 0
    for number, (kind, late, gap) in enumerate(collectives):
        at_ns += 1000 * (number * number + 7 * gap + 1)
        for rank, start in ((0, at_ns), (1, at_ns + late)):
            if rank == 0 or missing_first <= number < len(collectives) - missing_last:
                kernels.append(kernel(rank, start, at_ns + 100, kinds[kind % len(kinds)], id=number))
    answer = job(memory, kernels, None)
    expected = {start["start_ns"]: start["id"] for start in kernels if start["rank"] == 0}
    theirs = {start["start_ns"]: start["id"] for start in kernels if start["rank"] == 1}
    for number in {row["number"] for row in answer if row["state"] == "matched"}:
        first, second = (row["start_ns"] for row in answer if row["number"] == number)
        assert expected[first] == theirs[second]
