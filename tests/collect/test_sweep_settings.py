"""A run of other settings is not taken for a cell of a sweep, whatever its name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tracelab.collect.process.placement import place_ranks
from tracelab.collect.run_folder import read_run_json
from tracelab.collect.settings import Settings, recorded_options
from tracelab.collect.sweep import state
from tracelab.collect.sweep.matrix import load_sweep
from tracelab.collect.sweep.settings_diff import compare_settings
from tracelab.resources import COLLECTORS

FILE = 'workload = "gemm"\n[axes]\nseed = [0, 1]\n'
RAN = Settings("gemm", device="cpu", gpus=2, parallel="ddp", set={"size": "8"}, tag={"machine": "A"})


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({}, {}),
        ({"tag": {"machine": "B"}}, {"tag.machine": ("A", "B")}),
        ({"set": {"size": "8", "repeats": "2"}}, {"set.repeats": (None, "2")}),
        ({"weights": Path("/a/b.pt")}, {"weights": (None, "b.pt")}),
        ({"timeout_s": 5.0}, {}),
        ({"device": "auto", "gpus": None}, {}),
        ({"gpus": 4}, {"gpus": (2, 4)}),
        ({"data": "cifar10", "data_root": Path("/data")}, {"data": ("synthetic", "cifar10")}),
    ],
)
def test_settings_that_change_a_result_are_differences(
    now: dict[str, Any], found: dict[str, tuple[object, object]]
) -> None:
    assert compare_settings(replace(RAN, **now), {"axes": recorded_options(RAN)}) == found


@pytest.mark.parametrize(
    ("data", "found"), [("folder", {"data_root": ("imagenet", "places")}), ("cifar10", {}), ("cifar100", {})]
)
def test_the_place_of_a_data_set_is_a_difference_where_it_states_which_one_it_is(
    data: str, found: dict[str, tuple[object, object]]
) -> None:
    ran = Settings("image_classification", data=data, data_root=Path("/a/imagenet"))
    assert compare_settings(replace(ran, data_root=Path("/b/places")), {"axes": recorded_options(ran)}) == found


@pytest.mark.parametrize("file", sorted(COLLECTORS.glob("sweeps/*.toml")), ids=lambda path: path.stem)
def test_a_run_is_requested_as_its_cell_is(file: Path, tmp_path: Path) -> None:
    for cell in load_sweep(file, tmp_path, fixed={"data_root": str(tmp_path)}).cells:
        settings = cell.settings
        if settings.device != "cuda":  # else the plan needs the GPUs
            settings = place_ranks(settings, {}).settings
        assert compare_settings(cell.settings, {"axes": json.loads(json.dumps(recorded_options(settings)))}) == {}


def test_a_cell_that_has_not_run_is_described_as_it_is_requested_now(tmp_path: Path) -> None:
    for text in (FILE, FILE + "[fixed]\nsteps = 7\n"):
        (tmp_path / "S.toml").write_text(text)
        state.write_planned_runs(load_sweep(tmp_path / "S.toml", tmp_path / "runs"), tmp_path / "S.toml")
    assert (read_run_json(tmp_path / "runs" / "S" / "S-seed0") or {})["axes"]["steps"] == 7
