"""A GPU of torch is matched to the card that NVML lists, and its copies run on the processors beside it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracelab.collect.ceilings import cards
from tracelab.collect.machine import Gpu

SLOW = Gpu(0, "nvml", uuid="GPU-aaaa", bus_id="00000000:1B:00.0", name="slow")
FAST = Gpu(1, "nvml", uuid="GPU-bbbb", bus_id="00000000:3D:00.0", name="fast")


def properties(**values: object) -> SimpleNamespace:
    """Return what torch knows of a GPU."""
    return SimpleNamespace(**values)


@pytest.mark.parametrize(
    ("known", "card"),
    [
        ({"uuid": "bbbb"}, FAST),  # CUDA numbers the fast card 0, and NVML by bus
        ({"uuid": "GPU-aaaa"}, SLOW),
        ({"pci_domain_id": 0, "pci_bus_id": 0x3D, "pci_device_id": 0}, FAST),
        ({"uuid": "cccc", "pci_domain_id": 0, "pci_bus_id": 0x1B, "pci_device_id": 0}, SLOW),
        ({"uuid": "cccc"}, None),
        ({"pci_domain_id": 0, "pci_bus_id": 0x99, "pci_device_id": 0}, None),
        ({}, SLOW),
    ],
)
def test_a_card_is_matched_by_uuid_then_bus_then_ordinal(known: dict[str, object], card: Gpu | None) -> None:
    assert cards.match_card(properties(**known), 0, [SLOW, FAST]) == card


def test_names_of_a_card_are_those_of_nvidia_smi() -> None:
    known = properties(uuid="bbbb", pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0)
    assert (cards.torch_uuid(known), cards.torch_bus_id(known)) == ("GPU-bbbb", "0000:1b:00")
    assert cards.torch_uuid(properties(uuid="MIG-1234")) == "MIG-1234"
    assert (cards.torch_uuid(properties()), cards.torch_bus_id(properties())) == (None, None)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the affinity of Linux")
def test_copies_run_on_the_processors_beside_the_card(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    near = min(before)
    folder = tmp_path / "0000:1b:00.0"
    folder.mkdir()
    (folder / "local_cpulist").write_text(f"{near}-{near},100000\n")
    (folder / "numa_node").write_text("1\n")
    with cards.run_beside("0000:1b:00", tmp_path) as where:
        assert (where, os.sched_getaffinity(0)) == ("processors of NUMA node 1", {near})
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("bus_id", [None, "0000:99:00", "0000:1b:00"])
def test_a_node_that_does_not_say_where_a_card_is_changes_nothing(bus_id: str | None, tmp_path: Path) -> None:
    (tmp_path / "0000:1b:00.0").mkdir()
    (tmp_path / "0000:1b:00.0" / "local_cpulist").write_text("all\n")
    with cards.run_beside(bus_id, tmp_path) as where:
        assert where == ""
