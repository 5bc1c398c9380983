"""CUPTI is detached at the last planned window alone, where CUDA allows it and the user has not decided."""

import os
from types import SimpleNamespace

import pytest

from tests.collect import gpu_node
from tests.needs import needs_torch
from tracelab import record
from tracelab.collect.profiling.cupti import CuptiTeardown
from tracelab.collect.program.settings import ProgramSettings, validate_program
from tracelab.collect.recording.profilers import KinetoOptions
from tracelab.collect.recording.window import Window
from tracelab.errors import UsageError


@pytest.fixture(autouse=True)
def _undecided(monkeypatch):
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)


@pytest.fixture
def node(tmp_path, monkeypatch):
    return gpu_node.open_node(tmp_path, monkeypatch)


def values_at_stops(planned, cuda="12.6", *, is_requested=True, records_gpu=True, is_canceled=False, windows=3):
    """Return the variable at the stop of each of some windows, and the note."""
    teardown = CuptiTeardown(SimpleNamespace(version=SimpleNamespace(cuda=cuda)), planned, is_requested=is_requested)
    values = []
    for _ in range(windows):
        teardown.prepare(records_gpu=records_gpu)
        if is_canceled:
            teardown.cancel()
        teardown.begin_stop()
        values.append(os.environ.get("TEARDOWN_CUPTI"))
        teardown.finish()
    return values, teardown.note


def test_the_variable_is_set_at_the_last_planned_window_and_withdrawn_after_it():
    assert values_at_stops(3) == ([None, None, "1"], None)
    assert values_at_stops(2) == ([None, "1", None], None)
    assert "TEARDOWN_CUPTI" not in os.environ


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cuda": None}, "no NVIDIA GPU is recorded"),  # of a CPU, or of ROCm
        ({"records_gpu": False}, "no NVIDIA GPU is recorded"),
        ({"cuda": "12.4"}, "torch is built for CUDA 12.4, and CUPTI detaches safely from 12.6 on"),
        ({"cuda": "9.2"}, "torch is built for CUDA 9.2, and CUPTI detaches safely from 12.6 on"),
    ],
)
def test_where_it_is_not_safe_a_note_has_the_reason(options, reason):
    assert values_at_stops(1, windows=1, **options) == ([None], f"detach has no effect: {reason}")


def test_without_a_request_or_a_plan_or_before_another_profiler_it_is_never_set():
    assert values_at_stops(1, is_requested=False, windows=1) == ([None], None)
    assert values_at_stops(None) == ([None] * 3, None)
    assert values_at_stops(1, is_canceled=True, windows=1) == ([None], None)
    assert values_at_stops(1, cuda="13.0", windows=1) == (["1"], None)


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("TEARDOWN_CUPTI", "0")
    values, note = values_at_stops(1, windows=1)
    assert (values, note) == (["0"], "detach has no effect: TEARDOWN_CUPTI=0 of the environment decides")
    assert os.environ["TEARDOWN_CUPTI"] == "0"


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
@pytest.mark.parametrize(("detach", "stops"), [(True, ["", " detaches CUPTI"]), (False, ["", ""])])
def test_a_run_detaches_right_before_its_last_window_stops(node, detach, stops):
    run = node.train(profiler="kineto", detach=detach, warmup=0, wait=1, active=1, cycles=2, steps=5)
    assert run.status == "ok", run.error
    windows = [call for call in run.calls() if call.startswith(("kineto.start", "kineto.stop"))]
    assert windows == [f"kineto.{word}" for end in stops for word in ("start_trace", f"stop_trace{end}")]
    assert run.json["ranks"]["0"].get("note") is None


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_on_a_cpu_it_is_accepted_with_a_note(tmp_path):
    from tracelab.collect.settings import Settings
    from tracelab.collect.train import train

    settings = Settings("gemm", device="cpu", profiler="kineto", detach=True, steps=1, active=1, warmup=0, out=tmp_path)
    result = train(settings)
    assert (result.status, result.note) == ("ok", "detach has no effect: no NVIDIA GPU is recorded")


def test_it_needs_kineto_and_windows_that_are_planned(tmp_path):
    options = KinetoOptions(detach=True)
    with pytest.raises(UsageError, match="--detach need --profiler kineto"):
        validate_program(ProgramSettings(("python",), ("nsys",), kineto=options))
    with pytest.raises(UsageError, match="--detach acts at the last planned window and --on-demand plans none"):
        validate_program(ProgramSettings(("python",), window=Window(on_demand=True), kineto=options))
    with pytest.raises(UsageError, match=r"^detach acts at the last planned window and on_demand plans none"):
        record(out=tmp_path, on_demand=True, detach=True)
