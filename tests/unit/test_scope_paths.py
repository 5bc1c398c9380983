"""Critical paths and what_if of a scope: the path of the whole recording, in the windows and rows of the scope."""

from pathlib import Path
from typing import Any

import pytest

from tests.build import build_store
from tests.unit.scope_rows import MAIN, event, mark, on
from tracelab.client import Lab
from tracelab.errors import UsageError


def paced_step(number: int, stream: int) -> dict[str, dict[str, Any]]:
    """A step of 100 ns: a kernel is launched at 12, starts at 20, and runs to the end of a synchronization at 60."""
    at = 100 * number
    sync = on(MAIN, at + 40, 20, api="runtime", name="cudaStreamSynchronize", correlation=100 + number)
    return {
        "annotations": mark(at, 100, f"ProfilerStep#{number}"),
        "ops": on(MAIN, at + 10, 20, name="aten::mm"),
        "api_calls": on(MAIN, at + 12, 5, api="runtime", name="cudaLaunchKernel", correlation=1 + number),
        "kernels": event(at + 20, 40, device=0, stream=stream, name="gemm", correlation=1 + number),
        "more_calls": sync,
    }


@pytest.fixture(scope="module")
def three_paced_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    steps = [paced_step(number, stream) for number, stream in enumerate((7, 7, 8))]
    rows = {table: [step[table] for step in steps] for table in ("annotations", "ops", "kernels")}
    rows["api_calls"] = [step[table] for step in steps for table in ("api_calls", "more_calls")]
    rows["python_frames"] = [on(MAIN, 110, 10, name="nn.Module: Linear_0")]
    return build_store(tmp_path_factory.mktemp("scope") / "paced", rows)


STEP_NS = {"cpu_unrecorded": 50, "cpu": 2, "launch_latency": 8, "gemm": 40}


@pytest.mark.parametrize(
    ("scope", "window_ns", "path_ns"),
    [
        ({}, 300, {name: 3 * each for name, each in STEP_NS.items()}),
        ({"steps": "1"}, 100, STEP_NS),
        ({"steps": "1", "by": "execution"}, 100, STEP_NS),
        ({"steps": "1-2"}, 200, {name: 2 * each for name, each in STEP_NS.items()}),
        ({"steps": "0,2"}, 200, {name: 2 * each for name, each in STEP_NS.items()}),
        ({"from_": "15ns", "to": "70ns"}, 55, {"launch_latency": 5, "gemm": 40, "cpu_unrecorded": 10}),
        ({"from_": "115ns", "steps": "0-1"}, 85, {"launch_latency": 5, "gemm": 40, "cpu_unrecorded": 40}),
        ({"from_": "65ns", "to": "68ns"}, 3, {"cpu_unrecorded": 3}),
        ({"within": "^aten::mm$"}, 300, {"cpu": 6, "launch_latency": 24, "gemm": 120}),
        ({"within": "^aten::mm$", "by": "execution"}, 300, {"cpu": 6, "launch_latency": 24, "gemm": 120}),
        ({"within": "Linear_0", "by": "execution"}, 300, {"cpu": 2}),
        ({"within": "^aten::mm$", "steps": "2"}, 100, {"cpu": 2, "launch_latency": 8, "gemm": 40}),
        ({"within": "Linear_0"}, 300, {"cpu": 2, "launch_latency": 8, "gemm": 40}),
        ({"within": "ProfilerStep#1"}, 300, STEP_NS),
        ({"stream": "8"}, 300, {"launch_latency": 8, "gemm": 40}),
        ({"stream": "7-"}, 300, {"launch_latency": 24, "gemm": 120}),
        ({"linked": True}, 300, {name: 3 * each for name, each in STEP_NS.items()}),
    ],
)
def test_the_path_of_a_scope_is_that_of_the_whole_recording(
    three_paced_steps: Path, scope: dict[str, Any], window_ns: int, path_ns: dict[str, int]
) -> None:
    lab = Lab(three_paced_steps).scoped(**scope)
    rows = lab.query("critical_path").to_pylist()
    assert {each["class"]: each["dur_ns"] for each in rows} == path_ns
    assert {each["window_ns"] for each in rows} == {window_ns}
    assert all(each["of_window_ratio"] == each["dur_ns"] / window_ns for each in rows)


def test_stretches_of_windows_keep_their_places(three_paced_steps: Path) -> None:
    lab = Lab(three_paced_steps).scoped(steps="0,2", stream="7")
    (gap, kernel) = lab.query("critical_path_rows").to_pylist()
    assert [(each["number"], each["at_ns"], each["dur_ns"]) for each in (gap, kernel)] == [(3, 12, 8), (4, 20, 40)]
    bins = Lab(three_paced_steps).scoped(steps="0,2").query("critical_path_timeline", bins=3).to_pylist()
    columns = ("at_ns", "bin_ns", "gpu_ns", "cpu_ns", "waiting_ns", "unknown_ns", "elsewhere_ns")
    assert [tuple(each[column] for column in columns) for each in bins] == [
        (0, 100, 40, 52, 8, 0, 0),
        (100, 100, 0, 0, 0, 0, 100),
        (200, 100, 40, 52, 8, 0, 0),
    ]


def test_the_path_of_a_step_is_that_of_a_scope_of_it(three_paced_steps: Path) -> None:
    expected = Lab(three_paced_steps).query("critical_path_rows", step=1).to_pylist()
    assert Lab(three_paced_steps).scoped(steps="1").query("critical_path_rows").to_pylist() == expected
    assert Lab(three_paced_steps).scoped(steps="0-1").query("critical_path_rows", step=1).to_pylist() == expected
    assert Lab(three_paced_steps).scoped(steps="2").query("critical_path_rows", step=1).to_pylist() == []


@pytest.mark.parametrize(
    ("scope", "before_ns", "after_ns", "changed_rows"),
    [  # without its kernel, a synchronization returns at once, 20 ns earlier
        ({}, 300, 240, 3),
        ({"steps": "1"}, 100, 80, 1),
        ({"steps": "0,2"}, 200, 160, 2),
        ({"from_": "15ns", "to": "70ns"}, 55, 35, 1),
        ({"from_": "100ns"}, 200, 160, 2),
        ({"stream": "8"}, 300, 280, 1),
        ({"stream": "8", "steps": "1-2"}, 200, 180, 1),
        ({"within": "Linear_0"}, 300, 280, 1),
    ],
)
def test_a_replay_of_a_scope_changes_its_rows_alone(
    three_paced_steps: Path, scope: dict[str, Any], before_ns: int, after_ns: int, changed_rows: int
) -> None:
    rows = Lab(three_paced_steps).scoped(**scope).query("what_if", factor=0, **{"class": "gpu"}).to_pylist()
    columns = ("time_before_ns", "time_after_ns", "changed_rows", "reason")
    assert {tuple(each[column] for column in columns) for each in rows} == {(before_ns, after_ns, changed_rows, None)}
    assert sum(each["before_ns"] or 0 for each in rows) == before_ns
    assert sum(each["after_ns"] or 0 for each in rows) == after_ns


def test_a_window_of_which_nothing_is_left_takes_no_time(three_paced_steps: Path) -> None:
    (row,) = Lab(three_paced_steps).scoped(from_="60ns", to="100ns").query("what_if", factor=0).to_pylist()
    assert (row["before_ns"], row["after_ns"], row["time_after_ns"], row["reason"]) == (40, 0, 0, None)


def test_the_note_of_a_path_states_what_it_is_of(three_paced_steps: Path) -> None:
    lab = Lab(three_paced_steps)
    assert lab.scoped(steps="1").query("critical_path").notes == (
        "Scope: steps 1 of 0–2. The critical path is that of the whole recording, in the window of the scope.",
    )
    assert lab.scoped(stream="8").query("what_if").notes == (
        "Scope: stream 8. The critical path is that of the whole recording. Of its rows on GPUs in the scope "
        "critical_path answers, with ratios of all of it; what_if changes these alone, and answers of all of it.",
    )
    assert lab.scoped(from_="65ns", to="68ns").sql("select window_ns from path_runs").to_pylist() == [{"window_ns": 3}]
    with pytest.raises(UsageError, match=r"^critical_path as HTA defines it takes no scope: .* --in-annotation"):
        lab.scoped(steps="1").query("critical_path", like="hta")
