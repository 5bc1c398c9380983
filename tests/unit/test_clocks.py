"""Clocks of ranks: which ones are one, what they drift, what bounds them, and what is refused."""

import random
from statistics import median
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.memory import MemoryStore
from tests.properties import examples
from tests.ranks import kernel, note

SECOND = 10**9


def offsets(memory: MemoryStore, kernels: list[dict[str, Any]], **tables: Any) -> list[dict[str, Any]]:
    return memory.filled({"kernels": kernels, **tables}).query("clock_offsets").to_pylist()


def noisy(
    count: int, spacing_ns: int, clocks: list[tuple[int, float]], scatter_ns: int = 0, seed: int = 1
) -> list[dict[str, Any]]:
    """All-reduces on ranks with an offset and a drift each; ends scatter."""
    chance = random.Random(seed)
    kernels = []
    for at in range(count):
        for rank, (offset, drift) in enumerate(clocks):
            true = spacing_ns * at
            start = true + offset + round(drift * true)
            end = true + 50_000 + chance.randint(-scatter_ns, scatter_ns)
            kernels.append(kernel(rank, start, end + offset + round(drift * end), source=f"{rank}", correlation=at))
    return kernels


def test_ranks_of_one_host_have_one_clock(memory: MemoryStore) -> None:
    kernels = noisy(6, 10**6, [(0, 0), (400, 0), (5_000_000, 0), (5_000_300, 0)])
    devices = [{"rank": rank, "source": str(rank), "host": "ab"[rank // 2]} for rank in range(4)]
    sources = [{"source": str(rank), "clock": "unix"} for rank in range(4)]
    answer = offsets(memory, kernels, devices=devices, sources=sources)
    assert [row["offset_ns"] for row in answer] == [0, 0, -5_000_000, -5_000_000]
    assert [row["verdict"] for row in answer] == ["same_clock", "same_clock", "aligned", "aligned"]
    assert [row["domain"] for row in answer] == ["host a", "host a", "host b", "host b"]


def test_a_host_that_its_ranks_contradict_is_not_believed(memory: MemoryStore) -> None:
    kernels = noisy(6, 10**6, [(0, 0), (90_000_000, 0)])
    devices = [{"rank": rank, "source": str(rank), "host": "localhost"} for rank in (0, 1)]
    sources = [{"source": str(rank), "clock": "unix"} for rank in (0, 1)]
    answer = offsets(memory, kernels, devices=devices, sources=sources)
    assert [(row["offset_ns"], row["verdict"]) for row in answer] == [(0, "same_clock"), (-90_000_000, "aligned")]


def test_a_host_connects_ranks_without_a_common_collective(memory: MemoryStore) -> None:
    """Ranks 0 and 1 share a host, 1 and 2 a group."""
    kernels = [row for row in noisy(6, 10**6, [(0, 0), (0, 0), (70_000, 0)]) if row["rank"]]
    kernels += [kernel(0, 10**6 * at, 10**6 * at + 9, source="0", correlation=at) for at in range(6)]
    notes = [
        note(row, row["correlation"], 2 if row["rank"] else 1)
        | {"source": row["source"], "group_name": str(bool(row["rank"]))}
        for row in kernels
    ]
    devices = [{"rank": rank, "source": str(rank), "host": "a"} for rank in (0, 1)]
    sources = [{"source": str(rank), "clock": "unix"} for rank in range(3)]
    answer = offsets(memory, kernels, collectives=notes, devices=devices, sources=sources)
    assert [(row["offset_ns"], row["verdict"]) for row in answer] == [
        (0, "same_clock"),
        (0, "same_clock"),
        (-70_000, "aligned"),
    ]


def test_ranks_of_one_report_have_one_clock(memory: MemoryStore) -> None:
    kernels = [
        row | {"source": "ab"[row["rank"] // 2]}
        for row in noisy(6, 10**6, [(0, 0), (0, 0), (777_000, 0), (777_000, 0)])
    ]
    sources = [{"source": name, "clock": "session", "format": "nsys"} for name in "ab"]
    answer = offsets(memory, kernels, sources=sources)
    assert [row["offset_ns"] for row in answer] == [0, 0, -777_000, -777_000]
    assert len({row["domain"] for row in answer}) == 2


def test_a_rank_on_two_clocks_is_refused(memory: MemoryStore) -> None:
    kernels = noisy(12, 10**6, [(0, 0), (0, 0)])
    kernels = [row | {"source": f"{row['rank']}{row['correlation'] // 6 * row['rank']}"} for row in kernels]
    sources = [{"source": name, "clock": "session", "format": "nsys"} for name in ("00", "10", "11")]
    answer = offsets(memory, kernels, sources=sources)
    assert [(row["rank"], row["verdict"], row["offset_ns"]) for row in answer] == [
        (0, "same_clock", 0),
        (1, "refused", None),
    ]


def test_a_drift_over_more_than_ten_seconds_comes_back(memory: MemoryStore) -> None:
    drifts = {"a": -30, "b": -1, "c": 0.2, "d": 30}
    kernels = [
        row | {"run": run}
        for run, ppm in drifts.items()
        for row in noisy(60, SECOND, [(0, 0), (500_000_000, ppm * 1e-6)], scatter_ns=500)
    ]
    found = {row["run"]: row for row in offsets(memory, kernels) if row["rank"] == 1}
    assert list(found) == list(drifts)
    for run, ppm in drifts.items():
        row = found[run]
        assert row["drift_ppb"] == pytest.approx(-1000 * ppm, abs=30)
        assert (row["verdict"], row["violations"]) == ("aligned", 0)
        clock = row["offset_time_ns"]
        true = (clock - 500_000_000) / (1 + ppm * 1e-6)
        assert row["offset_ns"] == pytest.approx(true - clock, abs=300)
    waits = memory.query("collective_wait", rank=1).to_pylist()
    assert {each["run"] for each in waits} == set(drifts)
    assert max(each["wait_ns"] for each in waits) <= 1500


@pytest.mark.parametrize(("count", "spacing", "ppm"), [(10, SECOND, 30), (60, SECOND, 0), (60, SECOND, 0.01)])
def test_no_drift_is_taken_from_a_short_span_or_from_what_scatters(
    memory: MemoryStore, count: int, spacing: int, ppm: float
) -> None:
    row = offsets(memory, noisy(count, spacing, [(0, 0), (0, ppm * 1e-6)], scatter_ns=2_000))[1]
    assert (row["drift_ppb"], row["offset_time_ns"]) == (None, None)


def test_drifts_add_up_along_a_path(memory: MemoryStore) -> None:
    """Groups of neighbors: rank 2 is known through rank 1 alone."""
    clocks = [(0, 0.0), (10**9, 20e-6), (-(10**9), -10e-6)]
    kernels, notes = [], []
    for group in ((0, 1), (1, 2)):
        for row in noisy(40, SECOND, clocks):
            if row["rank"] in group:
                at = row["start_ns"] + 200_000 * group[0]
                kernels.append(row | {"start_ns": at, "stream": 7 + group[0]})
                notes.append(note(kernels[-1], row["correlation"], 2, group_ranks=list(group), source=row["source"]))
    answer = offsets(memory, kernels, collectives=notes)
    assert [row["drift_ppb"] for row in answer[1:]] == [pytest.approx(-20_000, abs=2), pytest.approx(10_000, abs=2)]
    for row, (offset, drift) in zip(answer[1:], clocks[1:], strict=True):
        true = (row["offset_time_ns"] - offset) / (1 + drift)
        assert row["offset_ns"] == pytest.approx(true - row["offset_time_ns"], abs=10)


def test_an_end_before_a_start_elsewhere_is_a_violation(memory: MemoryStore) -> None:
    kernels = noisy(9, 10**6, [(0, 0), (0, 0)])
    kernels[1] |= {"start_ns": 60_000, "dur_ns": 1_000}  # rank 1 starts after rank 0 has ended
    answer = offsets(memory, kernels)
    assert [(row["verdict"], row["violations"]) for row in answer] == [("same_clock", 0), ("refused", 1)]
    assert (answer[1]["low_ns"], answer[1]["high_ns"]) == (-50_000, -10_000)


def sent(
    source: int, target: int, start_ns: int, receive_ns: int, end_ns: int, correlation: int
) -> list[dict[str, Any]]:
    return [
        kernel(source, start_ns, end_ns, name="ncclDevKernel_SendRecv", stream=5, correlation=correlation),
        kernel(target, receive_ns, end_ns, name="ncclDevKernel_SendRecv", stream=5, correlation=correlation),
    ]


def test_ranks_that_only_send_are_in_the_middle_of_their_bounds(memory: MemoryStore) -> None:
    """Rank 1 is 5 us ahead. It receives until 300 ns after the send starts, and sends until 100 ns after its start."""
    kernels, notes = [], []
    for at in range(3):
        out = sent(0, 1, 10_000 * at, 10_000 * at, 10_000 * at + 300, 2 * at)
        back = sent(1, 0, 10_000 * at + 1_000, 10_000 * at + 1_000, 10_000 * at + 1_100, 2 * at + 1)
        for row, side in zip(
            (*out, *back), ({"dst_rank": 1}, {"src_rank": 0}, {"dst_rank": 0}, {"src_rank": 1}), strict=True
        ):
            kernels.append(row | {"start_ns": row["start_ns"] + 5_000 * row["rank"]})
            noted = {"collective": "send_recv", "is_p2p": True, "seq": None} | side
            notes.append(note(kernels[-1], 0, 2) | noted)
    row = offsets(memory, kernels, collectives=notes)[1]
    assert (row["low_ns"], row["high_ns"]) == (-5_300, -4_900)
    assert (row["offset_ns"], row["spread_ns"], row["pairs"], row["verdict"]) == (-5_100, 200, 0, "weak")


def test_a_broadcast_bounds_from_one_side(memory: MemoryStore) -> None:
    """Rank 1 may end a broadcast 20 ns after the root starts, and not before; the root may end at any time."""
    kernels = noisy(6, 10**6, [(0, 0), (0, 0)])
    notes = [note(row, row["correlation"], 2, source=row["source"]) for row in kernels]
    cast = [
        kernel(0, 500_000, 500_005, correlation=99, source="0"),
        kernel(1, 400_000, 500_020, correlation=99, source="1"),
    ]
    notes += [note(row, 99, 2, source=row["source"]) | {"collective": "broadcast", "root": 0} for row in cast]
    row = offsets(memory, [*kernels, *cast], collectives=notes)[1]
    assert (row["low_ns"], row["high_ns"]) == (-20, 50_000)


@given(st.integers(0, 10**6), st.integers(-(10**9), 10**9), st.floats(-50, 50), st.integers(2, 30))
@examples(20)
def test_slopes_are_the_median_over_far_pairs_of_a_loop(
    memory: MemoryStore, seed: int, clock: int, ppm: float, count: int
) -> None:
    kernels = noisy(count, SECOND, [(0, 0), (clock, ppm * 1e-6)], scatter_ns=1_000, seed=seed)
    ends = [[row["start_ns"] + row["dur_ns"] for row in kernels if row["rank"] == rank] for rank in (0, 1)]
    seen = [(theirs, ours - theirs) for ours, theirs in zip(*ends, strict=True)]
    span = seen[-1][0] - seen[0][0]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a in seen for b in seen if b[0] - a[0] > span // 2]
    drift = median(slopes) if span > 10 * SECOND and len(seen) >= 5 and slopes else 0.0
    middle = seen[0][0] + span // 2
    left = [delta - drift * (at - middle) for at, delta in seen]
    if drift and not abs(drift) * span > 3 * median(abs(each - median(left)) for each in left):
        drift, left = 0.0, [float(delta) for _, delta in seen]
    row = offsets(memory, kernels)[1]
    assert (row["drift_ppb"] or 0.0) == pytest.approx(1e9 * drift, rel=1e-6, abs=1e-6)
    assert row["offset_ns"] == pytest.approx(median(left), abs=1)
