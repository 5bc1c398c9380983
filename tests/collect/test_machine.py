"""What a node says of its GPUs and of itself: NVML and nvidia-smi that answer as real ones do, and where none is."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tracelab.collect.machine import Gpu, gpu_source, list_gpus
from tracelab.collect.machine.gpu import throttle_reasons, visible_gpus
from tracelab.collect.machine.gpu_source import open_gpu_source
from tracelab.collect.machine.host import Host, ThreadTime, read_host, tree_times, util_ratio

FAKES = Path(__file__).parent / "fakes"
NOWHERE = {"PATH": "/nowhere"}
UUIDS = ("GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-aaaaaaaa-0000-0000-0000-000000000001")


class NVMLError(Exception):
    """As pynvml's."""


def not_supported(*_, **__):
    raise NVMLError("Not Supported")


def fake_nvml(**replaced):
    """pynvml on a node of two cards, with the functions of a driver of today."""
    nvml = ModuleType("pynvml")
    slices = {"MIG-11111111-0000-0000-0000-000000000000": 7}
    functions = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlMemory_v2": 2,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "570.86.15",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda number: number,
        "nvmlDeviceGetHandleByUUID": lambda name: slices.get(name) or not_supported(),
        "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
        "nvmlDeviceGetUUID": lambda handle: UUIDS[handle] if handle < 2 else next(iter(slices)),
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=f"00000000:4{handle}:00.0".encode()),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetMemoryInfo": lambda handle, version=None: SimpleNamespace(
            total=150_754_820_096, used=600_000_000 if version is None else 11_534_336 + handle
        ),
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=37, memory=5),
        "nvmlDeviceGetPowerUsage": lambda handle: 119_420,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
        "nvmlDeviceGetClockInfo": lambda handle, clock: {1: 1980, 2: 3201}[clock],
        "nvmlDeviceGetMaxClockInfo": lambda handle, clock: {1: 1980, 2: 3201}[clock],
        "nvmlDeviceGetApplicationsClock": lambda handle, clock: {1: 1755}[clock],
        "nvmlDeviceGetTemperatureV": lambda handle, sensor: 41,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x24,
    }
    for name, value in (functions | replaced).items():
        if value is not None:
            setattr(nvml, name, value)
    return nvml


@pytest.fixture
def nvml(monkeypatch):
    def install(**replaced):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(**replaced))

    return install


@pytest.fixture(autouse=True)
def without_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)


def smi(fault=""):
    return {**os.environ, "PATH": f"{FAKES}{os.pathsep}{os.environ['PATH']}", "FAKE": fault}


def card(device, source, **known):
    return Gpu(
        device,
        source,
        uuid=UUIDS[device],
        bus_id=f"00000000:4{device}:00.0",
        name="NVIDIA H200",
        driver="570.86.15",
        compute_capability="9.0",
        util_ratio=0.37,
        power_w=119.42,
        power_limit_w=700.0,
        sm_clock_hz=1_980_000_000,
        sm_clock_max_hz=1_980_000_000,
        sm_clock_set_hz=1_755_000_000,
        memory_clock_hz=3_201_000_000,
        memory_clock_max_hz=3_201_000_000,
        throttle_reasons="sw_power_cap, sw_thermal_slowdown",
        **known,
    )


def test_samples_read_only_what_changes(nvml):
    calls = Counter()

    def count(name, function):
        return lambda *arguments, **keywords: (calls.update([name]), function(*arguments, **keywords))[1]

    nvml(**{name: count(name, value) for name, value in vars(fake_nvml()).items() if name.startswith("nvmlDeviceGet")})
    source = open_gpu_source(NOWHERE)
    assert source.cards() == source.cards()
    each_sample = ("MemoryInfo", "UtilizationRates", "PowerUsage", "TemperatureV", "CurrentClocksEventReasons")
    assert {name: calls[f"nvmlDeviceGet{name}"] for name in each_sample} == dict.fromkeys(each_sample, 2 * 2)
    assert calls["nvmlDeviceGetClockInfo"] == 2 * 2 * 2  # two clocks
    once = ("UUID", "PciInfo", "Name", "CudaComputeCapability", "EnforcedPowerLimit", "ApplicationsClock")
    assert {name: calls[f"nvmlDeviceGet{name}"] for name in once} == dict.fromkeys(once, 2)


def test_nvml_reports_a_card_in_base_units_and_memory_as_nvidia_smi_does(nvml):
    nvml()
    assert list_gpus(NOWHERE) == [
        card(device, "nvml", total_bytes=150_754_820_096, used_bytes=11_534_336 + device, temperature_c=41.0)
        for device in (0, 1)
    ]


def test_an_older_nvml_is_queried_by_its_own_names(nvml):
    nvml(
        nvmlMemory_v2=None,
        nvmlDeviceGetTemperatureV=None,
        nvmlDeviceGetTemperature=lambda handle, sensor: 39,
        nvmlDeviceGetCurrentClocksEventReasons=None,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0,
        nvmlDeviceGetName=lambda handle: b"Tesla V100",
    )
    first = list_gpus(NOWHERE)[0]
    assert (first.used_bytes, first.temperature_c, first.throttle_reasons, first.name) == (
        600_000_000,
        39.0,
        "none",
        "Tesla V100",
    )


def test_what_a_card_does_not_tell_is_none_and_no_zero(nvml):
    nvml(nvmlDeviceGetUtilizationRates=not_supported, nvmlDeviceGetPowerUsage=not_supported)
    first = list_gpus(NOWHERE)[0]
    assert (first.util_ratio, first.power_w, first.power_limit_w) == (None, None, 700.0)


def test_a_card_that_may_not_be_opened_keeps_its_place(nvml):
    nvml(nvmlDeviceGetHandleByIndex=lambda number: number or not_supported())
    assert [(each.device, each.uuid) for each in list_gpus(NOWHERE)] == [(0, None), (1, UUIDS[1])]


def test_a_slice_of_a_card_is_requested_by_its_own_name(nvml):
    nvml()
    name = "MIG-11111111-0000-0000-0000-000000000000"
    (only,) = list_gpus(NOWHERE | {"CUDA_VISIBLE_DEVICES": name})
    assert (only.device, only.uuid, only.used_bytes) == (0, name, 11_534_343)


def test_nvidia_smi_reports_the_same_where_nvml_is_not_there():
    assert list_gpus(smi()) == [
        card(device, "nvidia-smi", total_bytes=143_771 * 1_048_576, used_bytes=(10 + device) * 1_048_576)
        for device in (0, 1)
    ]


def test_an_older_nvidia_smi_is_queried_for_what_it_knows():
    assert [each.throttle_reasons for each in list_gpus(smi("old"))] == ["sw_power_cap, sw_thermal_slowdown"] * 2


def test_without_a_driver_there_are_no_cards(nvml):
    assert list_gpus(smi("no_driver")) == []
    nvml(nvmlInit=not_supported)
    assert list_gpus(NOWHERE) == []
    assert gpu_source.open_gpu_source(NOWHERE) is None


def test_torch_is_used_where_nothing_else_answers(monkeypatch):
    known = SimpleNamespace(name="NVIDIA L4", major=8, minor=9, total_memory=23_000_000_000, uuid="bbbb-1")
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1, get_device_properties=lambda device: known
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert list_gpus(NOWHERE) == [
        Gpu(0, "torch", uuid="GPU-bbbb-1", name="NVIDIA L4", compute_capability="8.9", total_bytes=23_000_000_000)
    ]
    monkeypatch.delitem(sys.modules, "torch")
    assert list_gpus(NOWHERE) == []


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (None, ["a0", "a1", "b0"]),
        ("", []),
        ("2,0", ["b0", "a0"]),
        ("1,-1,0", ["a1"]),
        ("0,7,1", ["a0"]),
        ("GPU-b", ["b0"]),
        ("GPU-a", []),
        ("NoDevFiles", []),
    ],
)
def test_cards_are_numbered_as_a_process_sees_them(wanted, seen):
    found = [Gpu(0, "nvml", uuid=f"GPU-{name}") for name in ("a0", "a1", "b0")]
    environment = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert [(card.device, card.uuid) for card in visible_gpus(found, environment)] == [
        (device, f"GPU-{name}") for device, name in enumerate(seen)
    ]


def test_reasons_for_a_low_clock_are_words_and_unknown_ones_stay_numbers():
    assert throttle_reasons(0x8C) == "sw_power_cap, hw_slowdown, hw_power_brake_slowdown"
    assert throttle_reasons(0x1001) == "gpu_idle, 0x1000"
    assert (throttle_reasons(0), throttle_reasons(None)) == ("none", None)


def test_a_host_reports_its_memory_and_that_of_a_tree_of_processes():
    block = bytearray(os.urandom(1 << 20)) * 64
    now = read_host(os.getpid())
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert now.total_bytes == int(lines["MemTotal"].split()[0]) * 1024
    assert 0 < now.used_bytes < now.total_bytes
    assert now.rss_bytes > len(block)
    assert now.cores == os.cpu_count()


def test_a_host_counts_the_memory_of_children_too():
    before = read_host(os.getpid()).rss_bytes
    text = "import sys, time; block = b'x' * (96 << 20); print(len(block), flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline().strip() == b"100663296"
        grown = read_host(os.getpid()).rss_bytes - before
    finally:
        child.kill()
        child.communicate()
    assert grown > 90 << 20


def test_utilization_is_the_share_of_the_cores_time_in_between():
    assert util_ratio(Host("h", busy_s=10.0, idle_s=50.0), Host("h", busy_s=13.0, idle_s=51.0)) == 0.75
    assert util_ratio(Host("h", busy_s=10.0, idle_s=50.0), Host("h", busy_s=10.0, idle_s=50.0)) is None
    assert util_ratio(Host("h"), Host("h", busy_s=1.0, idle_s=1.0)) is None


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count waits for cores")
def test_threads_of_a_tree_of_processes_are_timed():
    before = read_host(os.getpid())
    begun = time.process_time_ns()
    text = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        spent = tree_times(before, read_host(os.getpid()))
    finally:
        child.communicate(b"\n")
    assert spent.cpu_ns > 190_000_000 + 0.5 * (time.process_time_ns() - begun)


def test_times_of_threads_are_those_since_the_first_reading():
    """A thread ran 2 ns more, another one began and waited for 7 ns, a third one ended."""
    before = Host("h", threads={1: ThreadTime(10, 5), 3: ThreadTime(90, 90)})
    after = Host("h", threads={1: ThreadTime(12, 5), 2: ThreadTime(1, 7)})
    assert tree_times(before, after) == ThreadTime(3, 7)
    assert tree_times(before, Host("h")) is None


def test_a_process_that_is_not_there_has_no_memory():
    assert read_host(2**22 + 1).rss_bytes is None


def test_psutil_and_the_kernel_tell_the_same(monkeypatch):
    pytest.importorskip("psutil")
    by_psutil = read_host()
    monkeypatch.setitem(sys.modules, "psutil", None)
    by_kernel = read_host()
    assert by_psutil.total_bytes == by_kernel.total_bytes
    assert abs(by_psutil.rss_bytes - by_kernel.rss_bytes) < 8 << 20
    assert abs(by_psutil.busy_s - by_kernel.busy_s) < 5
    assert abs(by_psutil.idle_s - by_kernel.idle_s) < 5
