"""The real nsys and ncu, where they are installed: they need no GPU to take our options and to export reports."""

import contextlib
import csv
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tracelab.collect import nvidia
from tracelab.collect.nvidia.metrics import parse_metric_list, roofline_metrics
from tracelab.collect.nvidia.tool import find_tool

NSYS = pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
NCU = pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not installed")
EXAMPLE = Path("/usr/share/doc/nsight-compute/examples/uncoalescedGlobalAccesses/addConstDouble.ncu-rep")
WORK = "import time\nfor _ in range(20): time.sleep(0.1)\nprint('done')\n"


def run(capture, argv):
    line = nvidia.profile_command(capture, argv)
    return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=240)


@NSYS
def test_nsys_records_and_exports_a_whole_program_on_a_processor(tmp_path):
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", os.environ, cuda=False)
    done = run(capture, [sys.executable, "-c", WORK])
    export = nvidia.export_reports(capture, os.environ)
    assert nvidia.capture_status(capture, done.returncode, done.stdout, export) == ("ok", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.nsys-rep", "rank0.sqlite"]
    with contextlib.closing(sqlite3.connect(tmp_path / "rank0.sqlite")) as base:
        calls = base.execute("select count(*) from OSRT_API where end - start >= 100000000").fetchone()[0]
    assert calls >= 20


@NSYS
def test_nsys_takes_every_option_for_a_gpu_and_the_window_never_opens_without_one(tmp_path):
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", os.environ)
    done = run(capture, [sys.executable, "-c", WORK])
    assert "done" in done.stdout
    status, _ = nvidia.capture_status(capture, done.returncode, done.stdout, nvidia.export_reports(capture, os.environ))
    assert status == "no_kernels"


@NSYS
def test_nsys_refuses_an_option_of_another_version_in_words_that_are_understood(tmp_path):
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", os.environ, cuda=False)
    done = run(capture, ["--no-such-option=true", sys.executable, "-c", WORK])
    status, sentence = nvidia.capture_status(
        capture, done.returncode, done.stdout, nvidia.export_reports(capture, os.environ)
    )
    assert status == "profiler_error"
    assert sentence.endswith("this version does not support an option; install a newer one")


@NCU
def test_ncu_takes_every_option_and_profiles_no_kernel_without_a_gpu(tmp_path):
    capture = nvidia.Capture(find_tool("ncu", os.environ), tmp_path / "rank0", metrics=("gpu__time_duration.sum",))
    done = run(capture, [sys.executable, "-c", "print('done')"])
    assert "done" in done.stdout
    status, _ = nvidia.capture_status(capture, done.returncode, done.stdout, nvidia.export_reports(capture, os.environ))
    assert status == "no_kernels"


@NCU
@pytest.mark.parametrize("chip", ["gv100", "tu102", "ga100", "ad102", "gh100"])
def test_ncu_knows_every_metric_of_the_roofline_that_it_is_requested(chip):
    ncu = shutil.which("ncu")
    asked = [ncu, "--query-metrics", "--chips", chip]
    known = parse_metric_list(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    wanted = [name for name in roofline_metrics(known) if not name.startswith(("launch__", "device__"))]
    bases = ",".join(dict.fromkeys(name.partition(".")[0] for name in wanted))
    suffixed = [ncu, "--query-metrics-mode", "suffix", "--metrics", bases, "--chips", chip]
    listing = subprocess.run(suffixed, capture_output=True, text=True, check=True).stdout
    assert set(wanted) - {line.split()[0] for line in listing.splitlines() if line.strip()} == set()
    assert len(wanted) >= 24


@NCU
@pytest.mark.skipif(not EXAMPLE.is_file(), reason="this ncu comes without its examples")
def test_ncu_exports_a_report_with_a_row_a_launch_in_base_units(tmp_path):
    (tmp_path / "rank0.ncu-rep").write_bytes(EXAMPLE.read_bytes())
    capture = nvidia.Capture(find_tool("ncu", os.environ), tmp_path / "rank0", clock_control="base")
    export = nvidia.export_reports(capture, os.environ)
    assert (export.error, export.kernels) == (None, 1)
    _, page = (tmp_path / "rank0.ncu.csv").read_text().split("\n\n")
    header, units, launch = csv.reader(page.splitlines())
    assert launch[header.index("Kernel Name")].startswith("addConstDouble(")
    assert units[header.index("dram__bytes.sum.per_second")] == "byte/second"
