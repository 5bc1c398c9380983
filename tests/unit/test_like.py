"""The definitions of HTA and TraceLens, against their algorithms in plain Python, on random rows."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory import MemoryStore
from tests.properties import examples
from tracelab.client import Lab
from tracelab.ingest import pipeline

GENERATED = Path(__file__).parents[2] / "data" / "generated" / "generated-4rank-ddp"
HTA = [
    (False, 0, (3778, 40332, 35943, 80053), (4.72, 50.38, 44.90), 34.48),
    (False, 1, (11681, 33917, 26753, 72351), (16.14, 46.88, 36.98), 37.76),
    (False, 2, (20457, 40771, 18776, 80004), (25.57, 50.96, 23.47), 30.80),
    (False, 3, (8341, 40854, 30730, 79925), (10.44, 51.12, 38.45), 37.78),
    (True, 0, (3782, 40332, 35945, 80059), (4.72, 50.38, 44.90), 34.48),
    (True, 1, (11958, 40641, 27403, 80002), (14.95, 50.80, 34.25), 41.37),
    (True, 2, (20461, 40771, 18777, 80009), (25.57, 50.96, 23.47), 30.80),
    (True, 3, (8344, 40854, 30731, 79929), (10.44, 51.11, 38.45), 37.78),
]
"""What HTA 0.5.0 answers of the generated run: idle, compute, non-compute, kernel time in us, percentages, overlap."""

Row = dict[str, object]
Spans = list[tuple[int, int]]

COMM = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
checked = examples(40)

rows = st.fixed_dictionaries(
    {
        "rank": st.sampled_from([0, 1]),
        "device": st.sampled_from([0, 1]),
        "name": st.sampled_from(["gemm", COMM, "nccl_without_the_word", "void SyncBatchNorm"]),
        "correlation": st.sampled_from([1, 2, 3, None]),
        "start_ns": st.integers(0, 40).map(lambda at: at * 250),
        "dur_ns": st.integers(0, 20).map(lambda at: at * 250),
    }
)
calls = st.fixed_dictionaries(
    {"rank": st.sampled_from([0, 1]), "correlation": st.sampled_from([1, 2, 3]), "start_ns": st.integers(0, 10_000)}
)
steps = st.lists(st.tuples(st.integers(0, 8_000), st.integers(0, 4_000)), max_size=3)


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """HTA's merging: a span begins a group where it starts after all before it have ended."""
    groups: Spans = []
    latest = None
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if latest is None or start > latest:
            groups.append((start, end))
        else:
            groups[-1] = (groups[-1][0], max(groups[-1][1], end))
        latest = end if latest is None else max(latest, end)
    return groups


def total(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def cut(row: Row) -> tuple[int, int]:
    """The start up and the end down to whole microseconds."""
    start, dur = int(str(row["start_ns"])), int(str(row["dur_ns"]))
    return -(-start // 1000) * 1000, (start + dur) // 1000 * 1000


def used(gpu: list[Row], launched: list[Row], marks: list[tuple[int, int]], rank: int) -> list[Row]:
    """The rows that HTA counts: of several steps it drops the last."""
    ours = [row for row in gpu if row["rank"] == rank]
    if len(marks) < 2:
        return ours
    last = max(cut({"start_ns": start, "dur_ns": dur})[0] for start, dur in marks)
    first: dict[object, int] = {}
    for call in (call for call in launched if call["rank"] == rank):
        at = cut(call | {"dur_ns": 0})[0]
        first[call["correlation"]] = min(first.get(call["correlation"], at), at)
    return [row for row in ours if first.get(row["correlation"], last) < last]


def filled(memory: MemoryStore, gpu: list[Row], launched: list[Row], marks: list[tuple[int, int]]) -> Lab:
    tables = {
        "kernels": [row | {"source": str(row["rank"])} for row in gpu],
        "api_calls": [
            row | {"api": "runtime", "name": "cudaLaunchKernel", "dur_ns": 10, "source": str(row["rank"])}
            for row in launched
        ],
        "annotations": [
            {"name": f"ProfilerStep#{at}", "scope": "cpu", "start_ns": start, "dur_ns": dur}
            | {"rank": rank, "source": str(rank)}
            for rank in (0, 1)
            for at, (start, dur) in enumerate(marks)
        ],
    }
    return memory.filled(tables)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("generated") / "lab"
    pipeline.ingest([GENERATED], store=store)
    return Lab(store)


@pytest.mark.parametrize(("with_last", "rank", "us", "percent", "overlap"), HTA)
def test_hta_prints_the_same_of_the_generated_run(generated, with_last, rank, us, percent, overlap):
    params = {"rank": rank, "include_last_profiler_step": with_last}
    (row,) = generated.query("gpu_breakdown", like="hta", **params).to_pylist()
    (share,) = generated.query("nccl_share", like="hta", **params).to_pylist()
    parts = ("idle", "compute", "non_compute", "kernel")
    assert [row[f"{part}_ns"] for part in parts] == [1000 * each for each in us]
    assert (*(row[f"{part}_percent"] for part in parts[:3]), share["comp_comm_overlap_percent"]) == (*percent, overlap)


def test_hta_lets_the_longest_of_rows_that_start_together_cover_a_row_that_it_turned(memory):
    spans = [(0, 0), (3250, 750), (3250, 1750), (4250, 0)]
    gpu: list[Row] = [
        {"rank": 0, "device": 0, "name": "gemm", "correlation": 1, "start_ns": start, "dur_ns": dur}
        for start, dur in spans
    ]
    (row,) = filled(memory, gpu, [], []).query("gpu_breakdown", like="hta").to_pylist()
    assert (row["kernel_ns"], row["idle_ns"], row["compute_ns"]) == (5000, 4000, 1000)


@checked
@given(st.lists(rows, min_size=1, max_size=8), st.lists(calls, max_size=6), steps)
def test_hta_merges_rounds_and_drops_as_in_python(memory, gpu, launched, marks):
    lab = filled(memory, gpu, launched, marks)
    for row in lab.query("gpu_breakdown", like="hta").to_pylist():
        counted = used(gpu, launched, marks, row["rank"])
        assert row["gpu_rows"] == len(counted)
        if counted:
            compute = merged(cut(each) for each in counted if "Sync" not in each["name"] and each["name"] != COMM)
            groups = merged(map(cut, counted))
            spans = [*map(cut, counted)]
            kernel_ns = max(end for _, end in spans) - min(start for start, _ in spans)
            expected = (kernel_ns, kernel_ns - total(groups), total(compute))
            assert (row["kernel_ns"], row["idle_ns"], row["compute_ns"]) == expected
            assert row["idle_ns"] + row["compute_ns"] + row["non_compute_ns"] == row["kernel_ns"]


@checked
@given(st.lists(rows, min_size=1, max_size=8), st.lists(calls, max_size=6), steps)
def test_overlap_is_what_of_communication_lies_in_compute(memory, gpu, launched, marks):
    lab = filled(memory, gpu, launched, marks)
    for row in lab.query("nccl_share", like="hta").to_pylist():
        counted = used(gpu, launched, marks, row["rank"])
        spans = [(each["name"], range(*cut(each), 250)) for each in counted]
        comm = {at for name, span in spans if name == COMM for at in span}
        compute = {at for name, span in spans if name in ("gemm", "nccl_without_the_word") for at in span}
        assert row["overlap_ns"] == 250 * len(comm & compute)
        assert row["comm_kernels"] == sum(name == COMM for name, _ in spans)


@checked
@given(st.lists(rows, min_size=1, max_size=8), st.lists(rows, max_size=4), st.lists(rows, max_size=4))
def test_tracelens_parts_add_up_and_are_those_of_sets(memory, kernels, copies, memsets):
    tables = {"kernels": kernels, "memcpys": [], "memsets": []}
    bare = ("rank", "device", "start_ns", "dur_ns")
    tables["memcpys"] = [{name: row[name] for name in bare} | {"direction": "HtoD"} for row in copies]
    tables["memsets"] = [{name: row[name] for name in bare} for row in memsets]
    lab = memory.filled(tables)

    def instants(listed: Iterable[Row]) -> set[int]:
        return {at for row in listed for at in range(row["start_ns"], row["start_ns"] + row["dur_ns"], 250)}

    for row in lab.query("gpu_breakdown", like="tracelens").to_pylist():
        ours = [[each for each in listed if each["rank"] == row["rank"]] for listed in (kernels, copies, memsets)]
        comm = instants(each for each in ours[0] if "nccl" in each["name"])
        computation = instants(each for each in ours[0] if "nccl" not in each["name"]) | instants(ours[2])
        memcpy = instants(ours[1])
        expected = [computation, comm - computation, memcpy - computation - comm, computation | comm | memcpy]
        parts = ("computation_ns", "exposed_comm_ns", "exposed_memcpy_ns", "busy_ns")
        assert [row[part] for part in parts] == [250 * len(part) for part in expected]
        assert sum(row[part] for part in parts[:3]) + row["idle_ns"] == row["total_ns"]


@pytest.mark.parametrize(("doubles", "idle_ns"), [(False, 1_000), (True, 0)])
def test_doubles_do_not_see_a_start_a_tenth_of_a_microsecond_late(memory, doubles, idle_ns):
    first = 1_712_195_495_500_000_000
    kernels = [
        {"name": "a", "device": 0, "start_ns": first, "dur_ns": 2_000},
        {"name": "b", "device": 0, "start_ns": first + 2_100, "dur_ns": 2_000},
    ]
    lab = memory.filled({"kernels": kernels})
    (row,) = lab.query("gpu_breakdown", like="hta", doubles=doubles).to_pylist()
    assert row["idle_ns"] == idle_ns
