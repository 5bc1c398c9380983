"""Steps of the profiler are annotations, also where torch 1.8 to 1.11 files them under ops."""

from pathlib import Path

import pytest

from tests import corpus
from tests.readers.small import args_of, given, ingest_bytes, ingest_paths, kernel, op, trace
from tracelab.client import Lab

STEP = {"ph": "X", "cat": "Operator", "name": "ProfilerStep#16", "pid": 25738, "tid": "25738", "ts": 1000, "dur": 50}


def step(number: int, ts: int, dur: int) -> dict:
    return STEP | {"name": f"ProfilerStep#{number}", "ts": ts, "dur": dur, "args": {"External id": number}}


@pytest.mark.parametrize("category", ["Operator", "cpu_op"])
def test_a_step_among_the_ops_is_an_annotation_with_its_arguments(tmp_path: Path, category: str) -> None:
    arguments = {"External id": 4, "Input Dims": [], "Trace name": "PyTorch Profiler"}
    events = (op("aten::add"), STEP | {"cat": category, "args": arguments}, op("aten::mul"))
    lab = ingest_bytes(tmp_path, trace(*events))
    expected = {
        "name": "ProfilerStep#16",
        "category": category,
        "scope": "cpu",
        "pid": 25738,
        "tid": 25738,
        "start_ns": 1_000_000,
        "dur_ns": 50_000,
        "device": None,
        "stream": None,
    }
    row = lab.one("annotations")
    assert given(row, expected) == expected
    assert args_of(row) == arguments
    assert [row["name"] for row in lab.rows("ops")] == ["aten::add", "aten::mul"]
    assert lab.counts == (3, 3, 0)


@pytest.mark.parametrize("name", ["profilerstep#1", "My ProfilerStep#1", "ProfilerStep", None])
def test_other_ops_stay_ops(tmp_path: Path, name: str | None) -> None:
    lab = ingest_bytes(tmp_path, trace(STEP | {"name": name}))
    assert (lab.one("ops")["name"], lab.rows("annotations")) == (name, [])


def test_doctor_finds_the_steps(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(step(1, 1000, 50), kernel(ts=1010), step(2, 1050, 40)))
    assert "steps_unmarked" not in Lab(lab.store).doctor().arrow().column("code").to_pylist()


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_steps_of_torch_1_8_hold_their_kernels(tmp_path: Path) -> None:
    folder = corpus.ROOT / "kineto2" / "kineto_tb" / "nw0b"
    lab = ingest_paths(tmp_path, [folder])
    rows, steps, ranges = (
        Lab(lab.store).query(name).arrow().to_pylist()
        for name in ("step_breakdown", "timeline_steps", "annotation_gpu_time")
    )
    assert [(row["step"], row["kernels"]) for row in rows] == [(step, 1462) for step in range(16, 22)]
    assert rows[0]["step_ns"] == steps[0]["step_ns"] == 159_431_000
    assert {row["annotation"]: row["gpu_rows"] for row in ranges}["ProfilerStep#16"] == 926
