"""CUPTI is detached after each window, where CUDA allows it; it records waits on request."""

import inspect
import os
from dataclasses import fields
from types import SimpleNamespace

import pytest

import tracelab
from tests.collect import gpu_node
from tests.needs import needs_torch
from tracelab.collect.kineto_flags import KINETO_FLAGS
from tracelab.collect.profiling.cupti import CuptiTeardown
from tracelab.collect.profiling.kineto import Kineto
from tracelab.collect.program.settings import ProgramSettings, validate_program
from tracelab.collect.recording.profilers import KinetoOptions
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError


@pytest.fixture(autouse=True)
def _undecided(monkeypatch):
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)


@pytest.fixture
def node(tmp_path, monkeypatch):
    return gpu_node.open_node(tmp_path, monkeypatch)


def value_at_stop(cuda="12.6", *, keeps_attached=False, records_gpu=True, resumes=False):
    """Return the variable while a window stops."""
    teardown = CuptiTeardown(fake_torch(cuda), keeps_attached=keeps_attached)
    teardown.prepare(records_gpu=records_gpu)
    with teardown.stopping(resumes=resumes):
        return os.environ.get("TEARDOWN_CUPTI")


def fake_torch(version, calls=None):
    cuda = SimpleNamespace(
        is_current_stream_capturing=lambda: "capture" in calls, synchronize=lambda: calls.append("synchronize")
    )
    return SimpleNamespace(version=SimpleNamespace(cuda=version), cuda=cuda)


@pytest.mark.parametrize(
    ("options", "at_stop"),
    [
        ({}, "1"),
        ({"cuda": "13.0"}, "1"),
        ({"cuda": "12.4"}, None),  # CUDA graphs crash after it
        ({"cuda": "9.2"}, None),
        ({"cuda": None}, None),  # a CPU, or ROCm
        ({"records_gpu": False}, None),
        ({"resumes": True}, None),
        ({"keeps_attached": True}, None),
    ],
)
def test_cupti_detaches_where_that_is_safe_and_wanted(options, at_stop):
    assert value_at_stop(**options) == at_stop
    assert "TEARDOWN_CUPTI" not in os.environ


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("TEARDOWN_CUPTI", "0")
    assert value_at_stop() == "0"
    assert os.environ["TEARDOWN_CUPTI"] == "0"


def test_a_stop_that_fails_leaves_no_variable_behind():
    teardown = CuptiTeardown(fake_torch("12.6"), keeps_attached=False)
    teardown.prepare(records_gpu=True)
    with pytest.raises(OSError, match="lost"), teardown.stopping():
        raise OSError("lost")
    assert "TEARDOWN_CUPTI" not in os.environ
    assert teardown.is_attached


def stopped_teardown(monkeypatch, calls):
    """Return the teardown of a process after a window."""
    monkeypatch.setattr("tracelab.collect.profiling.cupti.time.sleep", calls.append)
    teardown = CuptiTeardown(fake_torch("12.6", calls), keeps_attached=False)
    teardown.prepare(records_gpu=True)
    assert teardown.is_attached
    with teardown.stopping():
        pass
    assert not teardown.is_attached
    return teardown


WAITS = [0.1, "synchronize", 0.1]


def test_a_profiler_of_the_program_waits_once_until_cupti_is_detached(monkeypatch):
    calls = []
    teardown = stopped_teardown(monkeypatch, calls)
    teardown.wait()
    teardown.wait()
    assert calls == WAITS


def test_the_next_window_waits_until_cupti_is_detached(monkeypatch):
    calls = []
    teardown = stopped_teardown(monkeypatch, calls)
    for _ in range(2):
        teardown.prepare(records_gpu=True)
        with teardown.stopping():
            calls.append(os.environ["TEARDOWN_CUPTI"])
    assert calls == [*WAITS, "1", *WAITS, "1"]


def test_a_fork_waits_until_cupti_is_detached(monkeypatch):
    """A profiler in a child forked meanwhile hangs."""
    calls = []
    teardown = stopped_teardown(monkeypatch, calls)
    for _ in range(2):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    assert calls == WAITS
    assert not teardown.is_attached


def test_a_capture_of_a_graph_is_not_synchronized(monkeypatch):
    calls = []
    teardown = stopped_teardown(monkeypatch, calls)
    calls.append("capture")
    teardown.wait()
    assert "synchronize" not in calls


def test_a_forked_child_never_calls_the_cuda_of_its_parent(monkeypatch):
    calls = []
    teardown = stopped_teardown(monkeypatch, calls)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    teardown.wait()
    assert calls == []


def test_cupti_stays_attached_where_a_profiler_of_the_program_ends_the_window():
    teardown = CuptiTeardown(fake_torch("12.6"), keeps_attached=False)
    teardown.prepare(records_gpu=True)
    teardown.cancel()
    with teardown.stopping():
        assert "TEARDOWN_CUPTI" not in os.environ
    assert teardown.is_attached


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
@pytest.mark.parametrize(
    ("options", "stops"),
    [
        ({"wait": 2}, [" detaches CUPTI"] * 2),
        ({"wait": 1}, ["", " detaches CUPTI"]),  # the step between is the one in which the next window is prepared
        ({"wait": 2, "keep_attached": True}, ["", ""]),
    ],
)
def test_a_run_detaches_after_each_window(node, options, stops):
    run = node.train(profiler="kineto", warmup=0, active=1, cycles=2, steps=7, **options)
    assert run.status == "ok", run.error
    windows = [call for call in run.calls() if call.startswith(("kineto.start", "kineto.stop"))]
    assert windows == [f"kineto.{word}" for end in stops for word in ("start_trace", f"stop_trace{end}")]
    assert run.json["ranks"]["0"].get("note") is None


def test_it_needs_kineto():
    options = KinetoOptions(keep_attached=True)
    with pytest.raises(UsageError, match="--keep-attached need --profiler kineto"):
        validate_program(ProgramSettings(("python",), ("nsys",), kineto=options))


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_waits_of_gpu_work_are_recorded_on_request(node):
    """The fifth setting of torch's experimental ones is whether synchronization is recorded."""
    run = node.train(profiler="kineto", syncs=True, warmup=0, active=1, steps=3)
    assert (run.status, run.json["capture"]["syncs"]) == ("ok", True), run.error
    (config,) = [call.split() for call in run.calls() if call.startswith("kineto.experimental_config")]
    assert config[5] == "True"


def test_a_pytorch_that_records_no_waits_is_named(tmp_path):
    module = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: True),
        version=SimpleNamespace(cuda="12.6"),
        profiler=SimpleNamespace(
            ProfilerActivity=SimpleNamespace(CPU="cpu", CUDA="cuda"), profile=lambda **options: options
        ),
    )
    kineto = Kineto(module, KinetoOptions(syncs=True), 0, tmp_path, tmp_path)
    assert "experimental_config" not in kineto._build_profile()
    assert kineto.describe()["note"] == "this PyTorch cannot record what GPU work waits for (--syncs)"


def test_the_options_of_kineto_are_those_of_every_command():
    named = [field.name for field in fields(KinetoOptions)]
    assert sorted(named) == sorted([*KINETO_FLAGS, "device"])
    assert set(KINETO_FLAGS) <= {field.name for field in fields(Settings)}
    assert set(KINETO_FLAGS) <= set(inspect.signature(tracelab.record).parameters)
