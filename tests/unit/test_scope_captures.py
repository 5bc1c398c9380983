"""Replays of CUDA graphs in a scope find their captures outside of it."""

from pathlib import Path

import pytest

from tests.build import build_store
from tests.unit.scope_rows import MAIN, mark, on, work
from tracelab.client import Lab
from tracelab.errors import NoDataError
from tracelab.query import library


def test_a_graph_finds_its_capture_in_another_run_that_the_scope_does_not_cut(tmp_path: Path) -> None:
    capture = {"run": "capture", "source": "c"}
    store = build_store(
        tmp_path / "lab",
        {
            "annotations": [mark(100, 90, "ProfilerStep#0"), mark(200, 90, "ProfilerStep#1")],
            "ops": [on(MAIN, 2, 5, name="aten::mm", input_shapes="[[2,3],[3,5]]") | capture],
            "api_calls": [
                on(MAIN, 1, 1, api="runtime", name="hipStreamBeginCapture") | capture,
                on(MAIN, 3, 1, api="runtime", name="hipLaunchKernel", args='{"kernel":"gemm"}') | capture,
                on(MAIN, 9, 1, api="runtime", name="hipStreamEndCapture") | capture,
                on(MAIN, 210, 1, api="runtime", name="hipGraphLaunch", correlation=1),
            ],
            "kernels": [work(220, "gemm", 1)],
        },
    )
    for lab, run in ((Lab(store), "r"), (Lab(store).scoped(steps="1"), "r"), (Lab(store).scoped(steps="1"), None)):
        assert [(row["op"], row["capture_run"]) for row in lab.query("graph_replays", run=run).to_pylist()] == [
            ("aten::mm", "capture")
        ]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(
        tmp_path_factory.mktemp("replayed") / "lab",
        {
            "annotations": [mark(0, 90, "ProfilerStep#0"), mark(100, 90, "ProfilerStep#1")],
            "ops": [on(MAIN, 22, 5, name="aten::mm"), on(MAIN, 105, 2, name="aten::copy_")],
            "python_frames": [
                on(MAIN, 21, 8, name="nn.Module: Linear_0"),
                on(MAIN, 104, 4, name="nn.Module: Sample_0"),
            ],
            "api_calls": [
                on(MAIN, 20, 1, api="runtime", name="hipStreamBeginCapture"),
                on(MAIN, 23, 1, api="runtime", name="hipLaunchKernel", args='{"kernel":"gemm"}'),
                on(MAIN, 30, 1, api="runtime", name="hipStreamEndCapture"),
                *(on(MAIN, at, 1, api="runtime", name="hipGraphLaunch", correlation=at) for at in (40, 110)),
            ],
            "kernels": [work(50, "gemm", 40), work(120, "gemm", 110)],
        },
    )


def test_a_capture_outside_of_the_scope_keeps_its_ops_and_frames(replayed: Path) -> None:
    lab = Lab(replayed).scoped(steps="1")
    for by, detail in (("name", None), ("module", "Linear_0")):
        (row,) = (row for row in lab.query("op_summary", by=by).to_pylist() if row["op"] == "aten::mm")
        assert [row[name] for name in ("calls", "gpu_ns", "module")] == [0, 30, detail]
    (row,) = (row for row in lab.query("module_time").to_pylist() if row["module"] == "Linear_0")
    assert [row[name] for name in ("calls", "gpu_ns")] == [0, 30]
    frames = {row["frame"]: row["total"] for row in lab.query("stacks", measure="gpu").to_pylist()}
    assert frames == {"nn.Module: Linear_0": 30, "aten::mm": 30}
    (row,) = [row for row in Lab(replayed).query("op_summary").to_pylist() if row["op"] == "aten::mm"]
    assert [row["calls"], row["gpu_ns"]] == [1, 60]


def test_a_replay_has_the_ops_of_its_capture_in_a_scope_without_ops_of_its_own(replayed: Path) -> None:
    lab = Lab(replayed).scoped(from_="108ns")
    answer = lab.query("op_summary")
    assert [(row["op"], row["gpu_ns"]) for row in answer.to_pylist()] == [("aten::mm", 30)]
    assert answer.notes[0].endswith("0 of 2 ops, 1 of 2 kernels.")
    assert [(row["op"], row["gpu_ns"]) for row in lab.query("op_flop").to_pylist()] == [("aten::mm", 30)]
    assert {row["frame"]: row["total"] for row in lab.query("stacks", measure="gpu").to_pylist()}["aten::mm"] == 30
    with pytest.raises(NoDataError, match=r"no row lies in the scope: .*; 0 of 2 ops\."):
        Lab(replayed).scoped(from_="111ns").query("op_summary")


def test_hints_are_of_what_was_recorded_and_not_of_the_scope(replayed: Path) -> None:
    query = library.find("graph_replays")
    assert Lab(replayed).scoped(from_="111ns", by="execution").find_hints(query, {}) == []
