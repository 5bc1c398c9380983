"""Command lines of nsys and ncu as pure functions, and the filter that keeps ncu from waiting for other processes."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelab.collect.nvidia import Capture, Tool, extra_environment, profile_command
from tracelab.collect.nvidia.command import (
    ncu_import_command,
    not_beginning,
    nsys_export_command,
    unsupported_options,
)

DOCUMENTED = Path(__file__).parents[2] / "docs" / "guides" / "nsight.md"
NSYS = Tool(
    "nsys",
    "/opt/nsys",
    "2026.2.1",
    {
        "profile": "--sample= --cpuctxsw= --stats= --cuda-graph-trace=<granularity>[:<origin>] --cuda-event-trace="
        " --capture-range= --capture-range-end=",
        "export": "--type= --include-json=",
    },
)
NCU = Tool("ncu", "/opt/ncu", "2026.1.0", {"profile": "  --config-file arg\n  --print-metric-name arg\n"})
PROGRAM = ["python", "train.py", "--metrics", "mine"]


def test_nsys_traces_the_window_with_the_nodes_of_graphs_and_nothing_that_slows_it_down():
    assert profile_command(Capture(NSYS, Path("runs/a/rank0")), PROGRAM) == [
        *("/opt/nsys", "profile", "--trace=cuda,nvtx,cudnn,cublas"),
        *("--sample=none", "--cpuctxsw=none", "--stats=false"),
        *("--cuda-graph-trace=node", "--cuda-event-trace=false"),
        *("--capture-range=cudaProfilerApi", "--capture-range-end=stop"),
        *("--force-overwrite=true", "--output=runs/a/rank0", *PROGRAM),
    ]


def test_nsys_repeats_for_several_windows_and_has_none_for_a_whole_program():
    assert "--capture-range-end=repeat:6" in profile_command(Capture(NSYS, Path("rank0"), ranges=6), PROGRAM)
    assert not any("capture-range" in word for word in profile_command(Capture(NSYS, Path("rank0"), ranges=0), PROGRAM))


def test_nsys_on_a_processor_traces_ranges_and_system_calls():
    assert profile_command(Capture(NSYS, Path("rank0"), cuda=False), ["p"]) == [
        *("/opt/nsys", "profile", "--trace=nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--stats=false"),
        *("--force-overwrite=true", "--output=rank0", "p"),
    ]


def test_what_a_version_does_not_know_is_left_out_and_reported():
    old = Tool("nsys", "nsys", "2020.3", {"profile": "--sample= --capture-range=", "export": ""})
    line = profile_command(Capture(old, Path("rank0")), ["p"])
    assert line == [
        *("nsys", "profile", "--trace=cuda,nvtx,cudnn,cublas", "--sample=none", "--capture-range=cudaProfilerApi"),
        *("--force-overwrite=true", "--output=rank0", "p"),
    ]
    assert [sentence.split(":")[0] for sentence in unsupported_options(Capture(old, Path()))] == [
        "nsys 2020.3 has no --cuda-graph-trace",
        "nsys 2020.3 has no --capture-range-end",
    ]
    assert unsupported_options(Capture(NSYS, Path())) == []
    assert unsupported_options(Capture(NSYS, Path(), cuda=False)) == [
        "without a GPU nsys cannot see the window: it records the whole program"
    ]
    assert "--include-json=true" not in nsys_export_command(old, Path("a.nsys-rep"), Path("a.sqlite"))


def test_nsys_exports_payloads_too():
    assert nsys_export_command(NSYS, Path("a.nsys-rep"), Path(".a.sqlite")) == [
        *("/opt/nsys", "export", "--type=sqlite", "--force-overwrite=true", "--include-json=true"),
        *("--output=.a.sqlite", "a.nsys-rep"),
    ]


def test_ncu_profiles_all_processes_within_the_window_at_free_clocks():
    capture = Capture(NCU, Path("rank0"), metrics=("gpu__time_duration.sum", "dram__bytes.sum"), not_profiled=("nccl",))
    assert profile_command(capture, PROGRAM) == [
        *("/opt/ncu", "--config-file", "off", "--target-processes", "all", "--profile-from-start", "off"),
        *("--kernel-name-base", "function", "--kernel-name", "regex:^([^n]|$|n([^c]|$|c([^c]|$|c([^l]|$))))"),
        *("--clock-control", "none", "--cache-control", "all"),
        *("--metrics", "gpu__time_duration.sum,dram__bytes.sum", "--force-overwrite", "--export", "rank0", *PROGRAM),
    ]


def test_ncu_prints_launches_in_base_units_under_the_names_of_metrics():
    assert ncu_import_command(NCU, Path("rank0.ncu-repz")) == [
        *("/opt/ncu", "--config-file", "off", "--import", "rank0.ncu-repz", "--csv", "--page", "raw"),
        *("--print-units", "base"),
    ]
    old = Tool("ncu", "ncu", "2022.3", {"profile": ""})
    assert ncu_import_command(old, Path("a.ncu-rep")) == [
        *("ncu", "--import", "a.ncu-rep", "--csv", "--page", "raw", "--print-units", "base"),
    ]


def test_percent_signs_of_a_folder_are_no_patterns_of_the_tools():
    assert "--output=100%%/rank0" in profile_command(Capture(NSYS, Path("100%/rank0")), ["p"])
    assert "100%%/rank0" in profile_command(Capture(NCU, Path("100%/rank0")), ["p"])


@pytest.mark.parametrize(
    ("name", "is_profiled"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", False),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", False),
        ("nccl", False),
        ("nvshmemi_barrier", False),
        ("ncc", True),
        ("n", True),
        ("nchwToNhwcKernel", True),
        ("nvjet_hsh_128x256", True),
        ("my_nccl_like_gemm", True),
        ("ampere_sgemm_128x64_nn", True),
    ],
)
def test_kernels_that_wait_for_other_processes_are_not_profiled(name, is_profiled):
    assert bool(re.search(not_beginning(("nccl", "nvshmem")), name)) == is_profiled


@given(
    st.lists(st.text("abn", min_size=1, max_size=4), min_size=1, max_size=4, unique=True),
    st.text("abnx", min_size=1, max_size=7),
)
def test_the_filter_takes_exactly_the_names_that_begin_otherwise(prefixes, name):
    assert bool(re.search(not_beginning(prefixes), name)) == (not name.startswith(tuple(prefixes)))


def test_ncu_gets_a_folder_of_its_own_where_the_lock_is_another_user_s(tmp_path, monkeypatch):
    capture = Capture(NCU, tmp_path / "rank0")
    surroundings = {"TMPDIR": str(tmp_path)}
    assert extra_environment(capture, surroundings) == {}
    (tmp_path / "nsight-compute-lock").touch()
    assert extra_environment(capture, surroundings) == {}
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    own = tmp_path / f"tracelab-ncu-{user + 1}"
    assert extra_environment(capture, surroundings) == {"TMPDIR": str(own)}
    assert (own.is_dir(), own.stat().st_mode & 0o777) == (True, 0o700)
    assert extra_environment(Capture(NSYS, tmp_path / "rank0"), surroundings) == {}


def test_the_values_of_an_option_are_read_from_its_own_help_alone():
    text = "  --cache-control arg\n   boost\n  --clock-control arg (=base)\n   base\n   none\n  --set arg\n   boosted\n"
    tool = Tool("ncu", "ncu", "2022.3", {"profile": text})
    assert tool.offers("--clock-control", "none")
    assert not tool.offers("--clock-control", "boost")
    assert tool.offers("--cache-control", "boost")
    assert not tool.offers("--set", "boost")
    assert not tool.knows("--clock")


def test_the_documented_command_lines_are_those_that_are_run():
    text = " ".join(DOCUMENTED.read_text().replace("\\\n", " ").replace("'", "").split())
    nsys, ncu, base = replace(NSYS, path="nsys"), replace(NCU, path="ncu"), Path("runs/RUN/rank0")
    for line in (
        profile_command(Capture(nsys, base), ["PROGRAM"]),
        nsys_export_command(nsys, base.with_suffix(".nsys-rep"), base.with_suffix(".sqlite")),
        profile_command(Capture(ncu, base, metrics=("METRICS",)), ["PROGRAM"]),
        ncu_import_command(ncu, base.with_suffix(".ncu-rep")),
    ):
        assert " ".join(line) in text
