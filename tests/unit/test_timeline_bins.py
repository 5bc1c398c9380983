"""The timeline's bins on random rows, against a look at every nanosecond, and against the whole."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tracelab.query import execute, library
from tracelab.store import shared_relations

COMPUTE, COMMUNICATION = "volta_sgemm_128x32_nt", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
FIRST = 1_000

gpu = {
    "source": st.sampled_from(["a", "b"]),
    "device": st.sampled_from([0, None]),
    "start_ns": st.one_of(st.none(), st.integers(FIRST, FIRST + 40)),
    "dur_ns": st.one_of(st.none(), st.integers(-1, 25)),
}
kernels = st.lists(
    st.fixed_dictionaries(gpu | {"name": st.sampled_from([COMPUTE, COMMUNICATION])}), min_size=1, max_size=7
)
copies = st.lists(st.fixed_dictionaries(gpu | {"size_bytes": st.integers(0, 99)}), min_size=1, max_size=4)
graphs = st.lists(st.fixed_dictionaries(gpu), max_size=2)


@contextmanager
def keeping_four_bins() -> Iterator[None]:
    """Answer as where the store keeps states, in four bins of devices with three rows, some of which edges cut."""
    definitions = shared_relations._definitions()
    few = definitions["device_states"].replace("lane_rows < 1600 then 1 else 100 <<", "lane_rows < 3 then 1 else 4 <<")
    assert few != definitions["device_states"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(definitions, "device_states", few)
        patch.setattr(execute, "_keeps_own", lambda *_: True)
        yield


def parts(running: Counter) -> str:
    """What one nanosecond counts for."""
    if running["compute"] or running["graph"]:
        return "overlapped_comm_ns" if running["communication"] else "compute_alone_ns"
    return "exposed_comm_ns" if running["communication"] else "exposed_memory_ns" if running["copy"] else "idle_ns"


def oracle(rows: list[tuple[str, dict]], bins: int, span: tuple[int, int]) -> dict[tuple, Counter]:
    """By device and bin: nanoseconds of each part, and of kernels; rank = source here, so that no two overlap."""
    found: dict[tuple, Counter] = defaultdict(Counter)
    lanes: dict[tuple, list[tuple[str, int, int]]] = defaultdict(list)
    for kind, row in rows:
        lanes[row["rank"], row["device"]].append((kind, row["start_ns"], row["start_ns"] + row["dur_ns"]))
    first, last = span
    edges = [first + (last - first) * number // bins for number in range(bins + 1)]
    for lane, members in lanes.items():
        for at in range(min(start for _, start, _ in members), max(end for _, _, end in members)):
            running = Counter(kind for kind, start, end in members if start <= at < end)
            number = next(number for number in range(bins) if edges[number] <= at < edges[number + 1])
            flying = running["compute"] + running["communication"]
            counts = found[*lane, number]
            counts[parts(running)] += 1
            counts["kernel_ns"] += flying
            counts["max_kernels"] = max(counts["max_kernels"], flying)
    return found


@examples(40)
@given(kernels, copies, graphs, st.integers(1, 9))
def test_bins_agree_with_a_look_at_every_nanosecond_and_add_up_to_the_whole(memory, first, second, third, bins):
    tables = {"kernels": first, "memcpys": second, "graph_launches": third}
    tables = {
        name: [row | {"rank": "ab".index(row["source"])} for row in rows] for name, rows in tables.items() if rows
    }
    kinds = {"memcpys": lambda row: "copy", "graph_launches": lambda row: "graph"}
    kinds["kernels"] = lambda row: "compute" if row["name"] == COMPUTE else "communication"
    rows = [(kinds[name](row), row) for name, members in tables.items() for row in members]
    rows = [
        (kind, row)
        for kind, row in rows
        if row["start_ns"] is not None and (row["dur_ns"] or 0) >= 0 and row["dur_ns"] is not None
    ]
    clocks = [{"source": source, "clock": "unix"} for source in "ab"]
    lab = memory.filled(tables | {"sources": clocks})
    answer = lab.run_query(library.find("timeline"), {"bins": bins}).to_pylist()
    with keeping_four_bins():
        assert lab.run_query(library.find("timeline"), {"bins": bins}).to_pylist() == answer
        part = {"bins": bins, "from_ns": 7, "to_ns": 31, "device": 0}
        kept_part = lab.run_query(library.find("timeline"), part).to_pylist()
    assert lab.run_query(library.find("timeline"), part).to_pylist() == kept_part
    whole = lab.run_query(library.find("gpu_breakdown"), {}).to_pylist()
    span = (
        min((row["start_ns"] for _, row in rows), default=0),
        max((row["start_ns"] + row["dur_ns"] for _, row in rows), default=0),
    )
    if span[0] == span[1]:
        assert answer == []
        return
    bins = min(bins, span[1] - span[0])
    expected = oracle(rows, bins, span)
    names = ("compute_alone_ns", "overlapped_comm_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")
    for row in answer:
        key = (row["rank"], row["device"], row["bin"])
        assert {name: row[name] for name in (*names, "kernel_ns", "max_kernels")} == {
            name: expected[key][name] for name in (*names, "kernel_ns", "max_kernels")
        }
        assert sum(row[name] for name in names) + row["outside_ns"] == row["bin_ns"]
    _check_whole(answer, whole, rows)


def _check_whole(answer: list[dict], whole: list[dict], rows: list[tuple[str, dict]]) -> None:
    for each in whole:
        mine = [row for row in answer if (row["rank"], row["device"]) == (each["rank"], each["device"])]
        for name in ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "overlapped_comm_ns"):
            assert sum(row[name] for row in mine) == each[name]
        copied = [
            row
            for kind, row in rows
            if kind == "copy" and (row["rank"], row["device"]) == (each["rank"], each["device"])
        ]
        assert sum(row["copy_bytes"] for row in mine) == sum(row["size_bytes"] for row in copied if row["dur_ns"])
