"""GPUs as the real nvidia-ml-py reads them, from a library that stands in for the driver's."""

import ctypes
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracelab.collect import train as train_module
from tracelab.collect.machine import Sampler, list_gpus
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.process.placement import Placement
from tracelab.collect.settings import Settings

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py: make venv")
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler (cc, gcc or clang) for the stand-in of NVML"),
    pytest.mark.skipif(sys.platform != "linux", reason="the driver's library is a shared object of Linux"),
]
SOURCE = Path(__file__).parent / "fakes" / "nvml.c"
MIG = "MIG-11111111-0000-0000-0000-000000000000"
NOWHERE = {"PATH": "/nowhere"}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture
def nvml(library, monkeypatch):
    """Load the library in place of the driver's; called with faults, sets them."""
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", lambda _name: ctypes.CDLL(str(library)))
    monkeypatch.delenv("FAKE_NVML", raising=False)
    return lambda faults: monkeypatch.setenv("FAKE_NVML", faults)


def test_a_card_is_read_in_base_units(nvml):
    first, second = list_gpus(NOWHERE)
    assert (first.source, first.uuid, first.bus_id) == (
        "nvml",
        "GPU-aaaaaaaa-0000-0000-0000-000000000000",
        "00000000:40:00.0",
    )
    assert (first.name, first.driver, first.compute_capability) == ("NVIDIA H100 80GB HBM3", "570.86.15", "9.0")
    assert (first.total_bytes, first.used_bytes) == (80 << 30, 11 << 20)
    assert (first.util_ratio, first.power_w, first.power_limit_w, first.temperature_c) == (0.37, 119.42, 700.0, 41.0)
    assert (first.sm_clock_hz, first.memory_clock_hz, first.sm_clock_set_hz) == (
        1_980_000_000,
        2_619_000_000,
        1_755_000_000,
    )
    assert first.throttle_reasons == "sw_power_cap, sw_thermal_slowdown"
    assert (second.device, second.bus_id) == (1, "00000000:41:00.0")


def test_an_older_driver_is_read_by_its_own_functions(nvml):
    nvml("old")
    first, _ = list_gpus(NOWHERE)
    assert (first.driver, first.used_bytes, first.temperature_c, first.energy_j) == ("450.80.02", 600 << 20, 39.0, None)


def test_a_slice_has_memory_and_no_clock_or_power_of_its_own(nvml):
    (only,) = list_gpus(NOWHERE | {"CUDA_VISIBLE_DEVICES": MIG})
    assert (only.uuid, only.name, only.total_bytes) == (MIG, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10 << 30)
    assert (only.util_ratio, only.power_w, only.sm_clock_hz, only.temperature_c, only.throttle_reasons) == (None,) * 5


def test_a_card_that_this_user_may_not_open_keeps_its_number(nvml):
    nvml("denied")
    first, second = list_gpus(NOWHERE)
    assert (first.device, first.uuid, first.power_w) == (0, None, None)
    assert (second.device, second.power_w) == (1, 119.42)


def test_a_card_that_fell_off_the_bus_has_no_figures(nvml):
    nvml("lost")
    first, second = list_gpus(NOWHERE)
    assert (first.power_w, second.device, second.power_w, second.used_bytes) == (119.42, 1, None, None)


def test_without_a_driver_there_are_no_cards(nvml):
    nvml("no_driver")
    assert list_gpus(NOWHERE) == []


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def sample(path, **options):
    with Sampler(path, 0.1, environment=NOWHERE, **options) as sampler:
        while sampler.samples < 4:
            time.sleep(0.02)
    return rows(path)


def test_power_is_the_energy_between_two_samples(nvml, tmp_path):
    samples = [row for row in sample(tmp_path / "host_samples.0.jsonl") if row["device"] == 0]
    assert samples[0]["power_w"] == 119.42  # the driver's average, as there is no sample before
    assert [row["power_w"] for row in samples[1:4]] == pytest.approx([50.0] * 3, rel=0.1)
    spent_s = (samples[-1]["time_ns"] - samples[0]["time_ns"]) / 1e9
    assert samples[-1]["energy_j"] - samples[0]["energy_j"] == pytest.approx(50 * spent_s, rel=0.1)


def test_power_is_the_driver_s_where_no_energy_is_counted(nvml, tmp_path):
    nvml("old")
    assert {row["power_w"] for row in sample(tmp_path / "host_samples.0.jsonl") if row["device"] is not None} == {
        119.42
    }


def test_a_card_that_is_lost_while_it_is_sampled_keeps_its_rows(nvml, tmp_path):
    path = tmp_path / "host_samples.0.jsonl"
    with Sampler(path, 0.02, environment=NOWHERE) as sampler:
        while sampler.samples < 2:
            time.sleep(0.01)
        nvml("lost")
        until = sampler.samples + 2
        while sampler.samples < until:
            time.sleep(0.01)
    second = [row for row in rows(path) if row["device"] == 1]
    assert (second[0]["power_w"], second[-1]["power_w"], second[-1]["used_bytes"]) == (119.42, None, None)


@pytest.mark.parametrize(
    ("visible", "tasks", "files"),
    [
        (1, 2, {"host_samples.0.jsonl": {0, None}, "host_samples.0.1.jsonl": {1}}),
        (2, 2, {"host_samples.0.jsonl": {0, 1, None}}),
        (1, 1, {"host_samples.0.jsonl": {0, None}}),
    ],
)
def test_every_gpu_of_a_node_is_sampled_once(nvml, tmp_path, monkeypatch, visible, tasks, files):
    for rank in range(tasks):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", str(rank) if visible == 1 else "0,1")
        settings = Settings("gemm", device="cuda", parallel="ddp", sample_s=0.05)
        placement = Placement(settings, Job(rank, rank, tasks, tasks, "srun"), (rank,), visible)
        with train_module._sample_node(placement, tmp_path):
            time.sleep(0.06)
    assert {path.name: {row["device"] for row in rows(path)} for path in tmp_path.iterdir()} == files
    uuids = {row["device"]: row["uuid"] for path in tmp_path.iterdir() for row in rows(path)}
    assert uuids == {
        device: None if device is None else f"GPU-aaaaaaaa-0000-0000-0000-00000000000{device}" for device in uuids
    }
