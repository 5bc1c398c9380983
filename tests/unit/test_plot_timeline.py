"""The picture of a timeline: steps that fill each bin, a panel for each device."""

from pathlib import Path

import pytest
from matplotlib.patches import StepPatch

from tests.build import build_store
from tracelab import plot
from tracelab.client import Lab
from tracelab.query import library

GEMM = {"name": "volta_sgemm_128x32_nt", "stream": 7}


@pytest.fixture
def panels(tmp_path: Path) -> list:
    kernels = [GEMM | {"device": 0, "start_ns": 0, "dur_ns": 30}, GEMM | {"device": 1, "start_ns": 20, "dur_ns": 20}]
    answer = Lab(build_store(tmp_path / "lab", {"kernels": kernels})).run_query(library.find("timeline"), {"bins": 4})
    return plot.figure(answer, library.find("timeline")).axes


def steps(axes) -> list[list[float]]:
    return [list(patch.get_data().values) for patch in axes.patches if isinstance(patch, StepPatch)]


def test_each_device_has_a_panel_with_an_edge_at_every_bin(panels):
    assert [axes.get_title(loc="left") for axes in panels] == ["GPU 0", "GPU 1"]
    assert [list(axes.patches[0].get_data().edges) for axes in panels] == [[0, 10, 20, 30, 40]] * 2


def test_parts_are_shares_of_the_bin_and_what_was_not_recorded_stays_white(panels):
    assert steps(panels[0])[0] == [1, 1, 1, 0]  # computing
    assert steps(panels[0])[-1] == [1, 1, 1, 0]  # with idle on top
    assert steps(panels[1])[0] == [0, 0, 1, 1]
