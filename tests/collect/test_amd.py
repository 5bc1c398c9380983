"""A node with cards of AMD: what the driver's files report, which cards a program sees, and what is refused."""

from pathlib import Path

import pytest

from tracelab.collect.machine import Gpu, gpu_source, list_gpus
from tracelab.collect.machine.amdgpu import open_amdgpu
from tracelab.collect.nvidia import CaptureError, prepare_capture
from tracelab.collect.process import placement
from tracelab.collect.settings import Settings

NOWHERE = {"PATH": "/nowhere"}
BUSES = ("0000:c5:00.0", "0000:0c:00.0")
"""PCI addresses of card0 and card1: ROCm numbers by address."""
FILES = {
    "vendor": "0x1002",
    "product_name": "AMD Instinct MI300X OAM",
    "mem_info_vram_total": "206141652992",
    "mem_info_vram_used": "297586688",
    "gpu_busy_percent": "37",
    "hwmon/hwmon4/power1_input": "141000000",
    "hwmon/hwmon4/power1_cap": "750000000",
    "hwmon/hwmon4/temp1_input": "42000",
    "hwmon/hwmon4/freq1_input": "2100000000",
    "hwmon/hwmon4/freq2_input": "900000000",
}


def write_card(root: Path, number: int, bus: str, **changed: str | None) -> None:
    """Write the files of one card as the driver shows them."""
    device = root / "devices" / bus
    for name, text in (FILES | {"unique_id": f"c0ffee000000000{number}"} | changed).items():
        if text is not None:
            (device / name).parent.mkdir(parents=True, exist_ok=True)
            (device / name).write_text(text + "\n")
    (root / "drm" / f"card{number}").mkdir(parents=True)
    (root / "drm" / f"card{number}" / "device").symlink_to(device)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return the folder of a node with two cards of AMD and one of another maker."""
    for number, bus in enumerate(BUSES):
        write_card(tmp_path, number, bus)
    write_card(tmp_path, 7, "0000:00:02.0", vendor="0x8086", mem_info_vram_total=None)
    (tmp_path / "drm" / "card0-DP-1").mkdir()
    (tmp_path / "kfd").touch()
    return tmp_path


@pytest.fixture
def _amd(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every source of GPU states see this node alone."""
    monkeypatch.setattr(gpu_source, "open_nvml", lambda _environment: None)
    monkeypatch.setattr(
        gpu_source, "open_amdgpu", lambda environment: open_amdgpu(environment, node / "drm", node / "kfd")
    )


def cards(node: Path, **environment: str) -> list[Gpu]:
    """Return the cards that a program with this environment sees."""
    source = open_amdgpu(environment, node / "drm", node / "kfd")
    assert source is not None
    return source.cards()


def test_a_card_is_what_the_driver_reports(node: Path) -> None:
    first = cards(node)[0]
    assert (first.device, first.source, first.bus_id, first.uuid) == (0, "amdgpu", BUSES[1], "GPU-c0ffee0000000001")
    assert (first.name, first.total_bytes, first.used_bytes) == (
        "AMD Instinct MI300X OAM",
        206_141_652_992,
        297_586_688,
    )
    assert (first.util_ratio, first.power_w, first.power_limit_w, first.temperature_c) == (0.37, 141.0, 750.0, 42.0)
    assert (first.sm_clock_hz, first.memory_clock_hz, first.throttle_reasons) == (2_100_000_000, 900_000_000, None)


def test_a_value_that_a_card_has_not_is_unknown(tmp_path: Path) -> None:
    absent = dict.fromkeys(["gpu_busy_percent", "product_name", *(name for name in FILES if "hwmon" in name)])
    write_card(tmp_path, 0, BUSES[0], unique_id="", mem_info_vram_used="?", **absent)
    (tmp_path / "kfd").touch()
    (card,) = cards(tmp_path)
    assert (card.name, card.uuid, card.used_bytes, card.util_ratio, card.power_w, card.sm_clock_hz) == (None,) * 6


@pytest.mark.parametrize(
    ("environment", "buses"),
    [
        ({}, [BUSES[1], BUSES[0]]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [BUSES[0]]),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, [BUSES[0], BUSES[1]]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [BUSES[1]]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-c0ffee0000000000"}, [BUSES[0]]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [BUSES[0]]),
        ({"HIP_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_a_program_sees_what_the_variables_of_rocm_leave(
    node: Path, environment: dict[str, str], buses: list[str]
) -> None:
    found = cards(node, **environment)
    assert [card.bus_id for card in found] == buses
    assert [card.device for card in found] == list(range(len(buses)))


def test_a_card_that_only_draws_is_no_gpu(node: Path) -> None:
    (node / "kfd").unlink()
    assert open_amdgpu({}, node / "drm", node / "kfd") is None


@pytest.mark.usefixtures("_amd")
@pytest.mark.parametrize("profiler", ["nsys", "ncu"])
def test_tools_of_nvidia_are_refused_for_cards_of_amd(profiler: str, tmp_path: Path) -> None:
    sentence = f"{profiler} records NVIDIA GPUs, and those of this node are from AMD; use --profiler kineto"
    with pytest.raises(CaptureError, match=sentence):
        prepare_capture(profiler, tmp_path, NOWHERE)
    with pytest.raises(CaptureError, match="is not installed"):
        prepare_capture(profiler, tmp_path, NOWHERE, cuda=False)


@pytest.mark.usefixtures("_amd")
@pytest.mark.parametrize(("counted", "device"), [(2, "cuda"), (0, "cpu")])
def test_cards_of_amd_count_where_torch_sees_them(counted: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "count_torch_gpus", lambda _environment: counted)
    assert [card.source for card in list_gpus(NOWHERE)] == ["amdgpu"] * 2
    assert placement.place_ranks(Settings("gemm"), NOWHERE).settings.device == device
