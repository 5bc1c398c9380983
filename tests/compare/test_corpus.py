"""Recorded traces as sides of a comparison: figures of the queries, and the same program under two names."""

from pathlib import Path

import numpy as np
import pytest

from tests import corpus
from tests.stores import shared_store
from tracelab.client import Lab
from tracelab.compare import fetch, recordings
from tracelab.compare.verdicts import judge
from tracelab.ingest import pipeline

pytestmark = corpus.needs_traces

CONTROL = corpus.ROOT / "kineto" / "hta" / "trace_diff" / "control.json.gz"


@pytest.fixture(scope="module")
def store(shared_stores: Path) -> Path:
    """Return a store with one recording under two names, as if it were recorded twice."""

    def fill(folder: Path) -> None:
        for run in ("control", "again"):
            pipeline.ingest([CONTROL], store=folder, run=run)

    return shared_store(shared_stores, "control_twice", fill)


def completion_times(lab: Lab) -> list[int]:
    """Return how long each step of the control takes from the completion of the one before, by plain Python."""
    marks = lab.sql("""
        select start_ns from annotations where run = 'control' and name like 'ProfilerStep#%' and scope = 'cpu'
        union all
        select max(end_ns) from annotations where run = 'control' and name like 'ProfilerStep#%' and scope = 'cpu'
    """).to_pylist()
    *starts, end = sorted(row["start_ns"] for row in marks)
    work = lab.sql("""
        select c.start_ns as called_ns, a.end_ns
        from gpu_activity as a
        join api_calls as c using (run, source, correlation)
        where run = 'control'
    """).to_pylist()
    complete = [
        max([ends, *(row["end_ns"] for row in work if starts[0] <= row["called_ns"] < ends)])
        for ends in (*starts[1:], end)
    ]
    return [after - max(begin, before) for begin, before, after in zip(starts, [0, *complete], complete, strict=False)]


def test_values_of_steps_are_those_of_the_queries(store: Path) -> None:
    with fetch.open_source(store, ["control"]) as source:
        unit, (recording,) = recordings.build_recordings(source.answers(), ["control"])
    rows = [row for row in Lab(store).query("step_breakdown", run="control").to_pylist() if row["step_ns"] is not None]
    inner = rows[1:-1]
    assert (unit, recording.steps.counted) == ("ranges", 4)
    assert recording.series["step_time"].tolist() == completion_times(Lab(store))[1:-1]
    assert recording.series["gpu_time"].tolist() == [row["gpu_busy_ns"] for row in inner]
    for prefix in ("class:", "kernel:"):
        summed = sum(values for name, values in recording.series.items() if name.startswith(prefix))
        assert summed.tolist() == [row["kernel_ns"] for row in inner]
    copied = sum(
        values for name, values in recording.series.items() if name.startswith("copy:") and name != "copy:memset"
    )
    assert copied.tolist() == [row["copy_ns"] for row in inner]


def test_a_recording_does_not_differ_from_its_copy(store: Path) -> None:
    result = Lab(store).compare("control", "again", fail_on="step_time > 0%")
    assert result.verdict == "undecided"  # one recording of each side, however alike
    assert {row["change_ratio"] for row in result.to_pylist()} <= {0.0, None}
    assert {row["difference_ns"] for row in result.to_pylist()} == {0}
    assert result.comparison.matching.matched == (1, 1)


def test_recorded_steps_of_one_run_dealt_to_two_sides_rarely_differ(tmp_path: Path) -> None:
    """Of 200 comparisons of 5 + 5 parts of the 25 steps, without a noise floor, at most 5 % find a difference."""
    trace = corpus.ROOT / "nsys" / "nersc_sc22" / "4gpu_nobroadcast.qdrep.nsys2022_4.sqlite"
    pipeline.ingest([trace], store=tmp_path / "lab", run="one")
    with fetch.open_source(tmp_path / "lab", ["one"]) as source:
        _, (recording,) = recordings.build_recordings(source.answers(), ["one"])
    series = {name: values for name, values in recording.series.items() if len(values) > 1}
    assert recording.steps.counted == 25
    generator = np.random.default_rng(3)
    alarms = 0
    for _ in range(200):
        parts = np.array_split(generator.permutation(25), 10)
        sides = [{name: values[part] for name, values in series.items()} for part in parts]
        rows = judge(list(series), sides[:5], sides[5:], assumed_floor=0.0)
        alarms += any(row.verdict in ("faster", "slower") for row in rows)
    assert alarms <= 10
