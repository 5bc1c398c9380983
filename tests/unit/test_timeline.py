"""The questions about the GPU side of a timeline on random rows, against plain Python and against each other."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import timeline
from tests.properties import examples
from tests.timeline import Key, Row, place
from tracelab.query import library

COMPUTE, COMMUNICATION = "volta_sgemm_128x32_nt", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
CLASSES = {COMPUTE: "gemm", COMMUNICATION: "communication", "mystery": "unclassified"}
MIN_GAP_NS = 3
ASKED = {
    "idle_causes": {"min_gap_ns": MIN_GAP_NS},
    **{
        name: {}
        for name in ("launch_latency", "memcpy_overlap", "kernel_class_share", "stream_summary", "gpu_breakdown")
    },
}

times = st.one_of(st.none(), st.integers(-3, 20))
durations = st.one_of(st.none(), st.integers(-1, 8))
correlations = st.one_of(st.none(), st.integers(1, 6))
pids = st.sampled_from([1, 2, None])


def _rows(**columns: st.SearchStrategy) -> st.SearchStrategy:
    shared = {"source": st.sampled_from(["a", "b"]), "pid": pids, "start_ns": times, "dur_ns": durations}
    return st.lists(st.fixed_dictionaries(shared | {"correlation": correlations} | columns), max_size=7)


def _gpu(**columns: st.SearchStrategy) -> st.SearchStrategy:
    where = {
        "device": st.sampled_from([0, 1, None]),
        "context": st.sampled_from([1, None]),
        "stream": st.integers(7, 9),
    }
    return _rows(**where, **columns)


timelines = st.fixed_dictionaries(
    {
        "kernels": _gpu(name=st.sampled_from(list(CLASSES))).filter(bool),
        "memcpys": _gpu(direction=st.sampled_from(["HtoD", "DtoH"])).filter(bool),
        "memsets": _gpu(),
        "graph_launches": _gpu(),
        "api_calls": _rows(api=st.sampled_from(["runtime", "driver", "osrt"]), name=st.just("cudaLaunchKernel")),
    }
)


def _full(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return {
        name: [{"run": "r", "rank": 0, "kind": timeline.ACTIVITY.get(name)} | dict(row) for row in rows]
        for name, rows in tables.items()
    }


@examples(20)
@given(timelines)
def test_queries_agree_with_the_oracle_and_with_each_other(memory, tables):
    memory.filled(tables)
    said = {name: memory.run_query(library.find(name), values).to_pylist() for name, values in ASKED.items()}
    full = _full(tables)
    rows = timeline.activity(full)
    _check_idle(said, timeline.idle(rows, timeline.calls(full["api_calls"]), MIN_GAP_NS))
    _check_launches(said["launch_latency"], timeline.launches(rows, timeline.calls(full["api_calls"])))
    _check_streams(said["stream_summary"], rows)
    _check_classes(said["kernel_class_share"], full["kernels"])
    _check_overlap(said["memcpy_overlap"], rows)


def _check_idle(said, expected) -> None:
    breakdown = {place(row): row for row in said["gpu_breakdown"]}
    assert {place(row) for row in said["idle_causes"]} == breakdown.keys()
    for row in said["idle_causes"]:
        gaps = expected[place(row)]
        for cause in ("host", "dependency", "overhead", "unknown"):
            assert (cause, row[f"{cause}_gaps"], row[f"{cause}_ns"]) == (cause, len(gaps[cause]), sum(gaps[cause]))
        assert row["idle_ns"] == sum(map(sum, gaps.values())) == breakdown[place(row)]["idle_ns"]


def _check_launches(said, expected: dict[Key, timeline.Stream]) -> None:
    stored = {(*place(row), row["pid"], row["context"], row["stream"]): row for row in said}
    assert stored.keys() == expected.keys()
    for key, stream in expected.items():
        row = stored[key]
        for name in ("launches", "unmatched", "negative", "negative_queue"):
            assert (name, row[name]) == (name, getattr(stream, name))
        for name in ("waiting_ns", "max_queue_depth", "empty_ns"):
            assert (name, row[name] or 0) == (name, getattr(stream, name))


def _check_streams(said, rows) -> None:
    busy, alone = timeline.parts(rows, lambda row: (row["context"], row["stream"]))
    whole = timeline.measure(rows, lambda row: row["stream"], bool)
    lone: dict[Key, int] = defaultdict(int)
    for row in said:
        key = (*place(row), (row["context"], row["stream"]))
        assert (row["busy_ns"], row["alone_ns"]) == (busy[key], alone[key])
        assert row["busy_ns"] <= row["dur_ns"]
        lone[place(row)] += row["alone_ns"]
    for row in said:
        assert row["device_busy_ns"] == whole[place(row)] == lone[place(row)] + row["shared_ns"]


def _check_classes(said, kernels) -> None:
    busy, alone = timeline.parts(kernels, lambda row: CLASSES[row["name"]])
    shares: dict[Key, float] = defaultdict(float)
    for row in said:
        key = (*place(row), row["class"])
        assert (row["busy_ns"], row["alone_ns"]) == (busy[key], alone[key])
        shares[place(row)] += row["of_kernel_sum_ratio"] or 0
    timed = {place(row) for row in kernels if timeline.timed(row) and row["dur_ns"]}
    assert {key: pytest.approx(1) if key in timed else 0 for key in shares} == shares


def _check_overlap(said, rows) -> None:
    def measured(holds):
        return timeline.measure(rows, lambda row: row["kind"], holds)

    expected = {
        "copy_busy_ns": measured(lambda on: on["memcpy"] > 0),
        "copy_concurrent_ns": measured(lambda on: on["memcpy"] > 1),
        "kernel_busy_ns": measured(lambda on: on["kernel"] > 0),
        "overlap_ns": measured(lambda on: on["memcpy"] > 0 and on["kernel"] > 0),
        "graph_ns": measured(lambda on: on["graph"] > 0),
        "window_ns": measured(lambda on: True),
    }
    for row in said:
        for name, by_device in expected.items():
            assert (name, row[name]) == (name, by_device[place(row)])


def test_a_stream_that_waits_is_deep_and_one_that_is_fed_in_time_is_not(memory) -> None:
    """Ten launches at once wait 0, 10 … 90 ns: the mean depth is the latencies' sum over the time."""
    kernels = [
        {"pid": 1, "device": 0, "stream": 7, "correlation": at, "name": "k", "start_ns": 100 + 10 * at, "dur_ns": 10}
        for at in range(10)
    ]
    calls = [
        {"pid": 1, "api": "runtime", "name": "cudaLaunchKernel", "correlation": at, "start_ns": 100, "dur_ns": 0}
        for at in range(10)
    ]
    lab = memory.filled({"kernels": kernels, "api_calls": calls})
    (row,) = lab.query("launch_latency").to_pylist()
    assert (row["max_queue_depth"], row["waiting_ns"], row["span_ns"], row["mean_queue_depth"]) == (9, 450, 90, 5.0)
