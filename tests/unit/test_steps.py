"""The parts of a step against a walk over boundaries, on steps and GPU rows of every arrangement."""

from hypothesis import given
from hypothesis import strategies as st

from tests import host
from tests.properties import examples
from tracelab.query import library

COMPUTE, COMMUNICATION = "volta_sgemm_128x32_nt", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "other_steps_ns", "idle_ns")

gpu_rows = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from([COMPUTE, COMMUNICATION, "copy"]),
            "stream": st.sampled_from([7, 8]),
            "start_ns": st.integers(0, 60),
            "dur_ns": st.integers(0, 40),
            "called_ns": st.one_of(st.none(), st.integers(0, 60)),
        }
    ),
    min_size=1,
    max_size=8,
)
marks = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 15)), min_size=1, max_size=4)


def annotations(listed: list[tuple[int, int]]) -> list[host.Row]:
    """Steps, each so long after the start of the one before, and so long itself: also beyond the next one's start."""
    found, start_ns = [], 0
    for number, (gap_ns, dur_ns) in enumerate(listed):
        start_ns += gap_ns
        row = {"name": f"ProfilerStep#{number}", "start_ns": start_ns, "dur_ns": dur_ns, "end_ns": start_ns + dur_ns}
        found.append(row | {"pid": 1, "tid": 1, "scope": "cpu"})
    return found


@examples(40)
@given(marks, gpu_rows)
def test_parts_are_those_of_a_walk_and_add_up(memory, listed, work):
    steps = annotations(listed)
    rows = [
        row | {"pid": 1, "device": 0, "correlation": number, "end_ns": row["start_ns"] + row["dur_ns"]}
        for number, row in enumerate(work, 1)
    ]
    calls = [
        {"pid": 1, "tid": 9, "api": "runtime", "name": "launch", "correlation": row["correlation"], "dur_ns": 1}
        | {"start_ns": row["called_ns"]}
        for row in rows
        if row["called_ns"] is not None
    ]
    stored = [{key: value for key, value in row.items() if key not in ("called_ns", "end_ns")} for row in rows]
    copies = [{key: value for key, value in row.items() if key != "name"} for row in stored if row["name"] == "copy"]
    tables = {
        "annotations": [{key: value for key, value in row.items() if key != "end_ns"} for row in steps],
        "kernels": [row for row in stored if row["name"] != "copy"],
        "memcpys": copies,
        "api_calls": calls,
    }
    answer = memory.filled(tables).run_query(library.find("step_breakdown"), {}).to_pylist()
    expected = host.steps(steps)
    called = host.launches(calls)
    places = [host.step_of(row, expected, called, []) for row in rows]
    for at, step in enumerate(expected):
        mine = [row for row, place in zip(rows, places, strict=True) if place == at]
        others = [row for row, place in zip(rows, places, strict=True) if place != at]
        own = tuple([row for row in mine if row["name"] == name] for name in (COMPUTE, COMMUNICATION, "copy"))
        parts = host.step_parts(step, own, others)
        assert sum(parts) == answer[at]["step_ns"] == step["until_ns"] - step["start_ns"]
        if host.is_behind(step, rows, [expected[place] for place in places if place is not None]):
            parts[-1] = None
        assert [answer[at][name] for name in PARTS] == parts
    lost = [row for row in answer if row["step"] is None]
    assert sum(row["kernels"] + row["copies"] for row in lost) == places.count(None)
