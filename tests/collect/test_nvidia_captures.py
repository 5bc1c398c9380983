"""Captures from the command line to the status, around programs of nsys and ncu that fail as the real ones do."""

import csv
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tracelab.collect import nvidia
from tracelab.errors import UsageError

FAKES = Path(__file__).parent / "fakes"
PROGRAM = Path(__file__).parent / "gpu_program.py"
STEP = (
    "kernel warm_up",
    "start",
    "kernel gemm",
    "kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "stop",
    "kernel late",
)


def environ(fault=""):
    return {**os.environ, "PATH": f"{FAKES}{os.pathsep}{os.environ['PATH']}", "FAKE": fault}


def captured(tmp_path, profiler, *events, fault="", **asked):
    """Prepare, run, export and judge one capture."""
    surroundings = environ(fault)
    capture = nvidia.prepare_capture(profiler, tmp_path / "rank0", surroundings, **asked)
    line = nvidia.profile_command(capture, [sys.executable, str(PROGRAM), *events])
    done = subprocess.run(
        line, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    export = nvidia.export_reports(capture, surroundings)
    return capture, export, nvidia.capture_status(capture, done.returncode, done.stdout, export)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def kernels_of(path):
    with sqlite3.connect(path) as base:
        return [
            name
            for (name,) in base.execute(
                "select value from CUPTI_ACTIVITY_KIND_KERNEL join StringIds on id = demangledName order by start"
            )
        ]


def test_nsys_records_the_window_alone_and_exports_it_at_once(tmp_path):
    _, export, verdict = captured(tmp_path, "nsys", *STEP)
    assert verdict == ("ok", None)
    assert export.kernels == 2
    assert names(tmp_path) == ["rank0.nsys-rep", "rank0.sqlite"]
    assert kernels_of(tmp_path / "rank0.sqlite") == ["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]


def test_nsys_makes_a_file_of_every_window(tmp_path):
    events = ("start", "kernel a", "stop", "kernel between", "start", "kernel b", "kernel c", "stop", "start", "stop")
    _, export, verdict = captured(tmp_path, "nsys", *events, ranges=2)
    assert verdict == ("ok", None)
    assert export.kernels == 3
    assert [path.name for path in export.files] == ["rank0.1.sqlite", "rank0.2.sqlite"]
    assert kernels_of(tmp_path / "rank0.2.sqlite") == ["b", "c"]


def test_nsys_without_a_window_records_the_whole_program(tmp_path):
    _, export, _ = captured(tmp_path, "nsys", *STEP, ranges=0)
    assert export.kernels == 4


def test_nsys_on_a_processor_expects_no_kernels(tmp_path):
    _, export, verdict = captured(tmp_path, "nsys", cuda=False)
    assert (verdict, export.kernels, len(export.files)) == (("ok", None), 0, 1)


def test_nsys_on_a_processor_without_a_report_failed_and_misses_no_gpu(tmp_path):
    _, export, (status, sentence) = captured(tmp_path, "nsys", fault="silent", cuda=False)
    assert (status, export.reports) == ("profiler_error", ())
    assert sentence.endswith(
        "wrote no report; check `nsys status --environment`, or use --profiler kineto, which records a CPU without nsys"
    )


def test_ncu_profiles_the_window_without_communication_and_exports_base_units(tmp_path):
    capture, export, verdict = captured(tmp_path, "ncu", *STEP)
    assert verdict == ("ok", None)
    assert names(tmp_path) == ["rank0.ncu-repz", "rank0.ncu.csv"]
    _, page = (tmp_path / "rank0.ncu.csv").read_text().split("\n\n")
    header, units, *launches = csv.reader(page.splitlines())
    assert [row[header.index("Kernel Name")] for row in launches] == ["gemm"]
    assert units[header.index("dram__bytes.sum")] == "byte"
    assert header[-len(capture.metrics) :] == list(capture.metrics)
    assert export.kernels == 1


@pytest.mark.parametrize("profiler", ["nsys", "ncu"])
def test_a_window_that_never_opens_is_no_kernels(tmp_path, profiler):
    _, export, (status, sentence) = captured(tmp_path, profiler, "kernel outside")
    assert (status, export.reports) == ("no_kernels", ())
    assert sentence.startswith(f"{profiler} ")


@pytest.mark.parametrize("profiler", ["nsys", "ncu"])
def test_a_window_without_work_is_no_kernels(tmp_path, profiler):
    _, export, (status, sentence) = captured(tmp_path, profiler, "start", "stop", "kernel outside")
    assert (status, export.kernels) == ("no_kernels", 0)
    assert sentence.endswith("; check the window")  # of collect train or of collect run, whose options differ


def test_a_window_of_copies_alone_is_work_for_nsys(tmp_path):
    _, export, verdict = captured(tmp_path, "nsys", "start", "copy 4096", "copy 4096", "stop")
    assert (verdict, export.kernels, export.copies) == (("ok", None), 0, 2)


def test_a_window_of_communication_alone_is_no_kernels_for_ncu(tmp_path):
    _, _, (status, sentence) = captured(tmp_path, "ncu", "start", "kernel ncclKernel_Broadcast_RING_LL", "stop")
    assert status == "no_kernels"
    assert "communication" in sentence


@pytest.mark.parametrize("profiler", ["nsys", "ncu"])
def test_how_the_program_fares_is_not_the_capture_s_status(tmp_path, profiler):
    _, export, verdict = captured(tmp_path, profiler, *STEP, "exit=3")
    assert (verdict, bool(export.files)) == (("ok", None), True)


def test_counters_that_are_not_permitted_are_reported_plainly(tmp_path):
    _, _, (status, sentence) = captured(tmp_path, "ncu", *STEP, fault="permission")
    assert status == "permission_denied"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in sentence
    assert "--cap-add=SYS_ADMIN" in sentence


@pytest.mark.parametrize(
    ("profiler", "fault", "said"),
    [
        ("ncu", "dcgm", "dcgmi profile --pause"),
        ("ncu", "lock", "set TMPDIR to a folder of your own"),
        ("ncu", "no_report", "ncu wrote no report"),
        ("ncu", "export_fails", "rank0.ncu-repz could not be exported: Could not open report file"),
        ("nsys", "no_report", "nsys: Importer error status"),
        ("nsys", "export_fails", "rank0.nsys-rep could not be exported: Error: the report is damaged"),
    ],
)
def test_a_failure_of_the_tool_is_reported_with_what_to_do(tmp_path, profiler, fault, said):
    _, export, (status, sentence) = captured(tmp_path, profiler, *STEP, fault=fault)
    assert said in sentence
    assert (status, export.files) == ("profiler_error", ())


def test_an_export_that_fails_leaves_the_report_and_no_half_file(tmp_path):
    captured(tmp_path, "nsys", *STEP, fault="export_fails")
    assert names(tmp_path) == ["rank0.nsys-rep"]


def test_an_export_that_does_not_end_is_given_up(tmp_path):
    capture, export, _ = captured(tmp_path, "nsys", *STEP)
    export.files[0].unlink()
    slow = tmp_path / "bin" / "nsys"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    again = nvidia.export_reports(
        replace(capture, tool=replace(capture.tool, path=str(slow))), environ(), timeout_s=0.3
    )
    assert again.error == "rank0.nsys-rep could not be exported: no end after 0 s"


def test_the_tool_that_hangs_still_has_its_report_when_it_is_killed(tmp_path):
    surroundings = environ("hang,no_report")
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", surroundings)
    process = subprocess.Popen(nvidia.profile_command(capture, [sys.executable, str(PROGRAM), *STEP]), env=surroundings)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    code = process.wait()
    export = nvidia.export_reports(capture, surroundings)
    status, sentence = nvidia.capture_status(capture, code, "", export)
    assert (status, sentence) == (
        "profiler_error",
        "nsys wrote no report (killed by signal 9); see its output in the log of the rank",
    )


def test_a_recording_that_nsys_could_not_import_is_imported_where_its_importer_is(tmp_path):
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", environ())
    (tmp_path / "rank0.qdstrm").write_text('["gemm"]')
    said = "rank0.qdstrm is no report yet; make one with NVIDIA's QdstrmImporter -i rank0.qdstrm"
    assert nvidia.export_reports(capture, environ()).error == said
    home = tmp_path / "nsight"
    importer = home / "host-linux-x64" / "QdstrmImporter"
    importer.parent.mkdir(parents=True)
    importer.write_text('#!/bin/sh\ncp "$2" "$4"\n')
    importer.chmod(0o755)
    (home / "bin").mkdir()
    (home / "bin" / "nsys").symlink_to(FAKES / "nsys")
    (tmp_path / "nsys").symlink_to(home / "bin" / "nsys")
    export = nvidia.export_reports(replace(capture, tool=replace(capture.tool, path=str(tmp_path / "nsys"))), environ())
    assert (export.error, export.kernels) == (None, 1)
    assert [name for name in names(tmp_path) if "rank0" in name] == ["rank0.nsys-rep", "rank0.sqlite"]


def test_reports_of_other_ranks_are_left_alone(tmp_path):
    (tmp_path / "rank01.nsys-rep").write_text("[]")
    (tmp_path / "rank0.x.nsys-rep").write_text("[]")
    _, export, _ = captured(tmp_path, "nsys", *STEP)
    assert [path.name for path in export.reports] == ["rank0.nsys-rep"]


def test_a_tool_that_is_missing_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(nvidia.CaptureError, match=r"Nsight Systems \(nsys\) is not installed") as refused:
        nvidia.prepare_capture("nsys", tmp_path / "rank0", {"PATH": str(tmp_path)})
    assert refused.value.status == "profiler_error"
    assert "TRACELAB_NSYS" in str(refused.value)


def test_a_tool_can_be_named(tmp_path):
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", {**os.environ, "TRACELAB_NSYS": str(FAKES / "nsys")})
    assert (capture.tool.version, capture.tool.path) == ("2025.3.1.90", str(FAKES / "nsys"))


def test_a_tool_that_is_no_tool_is_refused(tmp_path):
    with pytest.raises(nvidia.CaptureError, match="printed no version"):
        nvidia.prepare_capture("ncu", tmp_path / "rank0", {**os.environ, "TRACELAB_NCU": "/bin/echo"})
    with pytest.raises(nvidia.CaptureError, match="cannot be started"):
        nvidia.prepare_capture("ncu", tmp_path / "rank0", {**os.environ, "TRACELAB_NCU": str(tmp_path)})


def test_a_machine_without_a_driver_is_refused_in_ncu_s_words(tmp_path):
    with pytest.raises(
        nvidia.CaptureError, match="lists no metrics of a GPU on this machine: Driver could not be loaded"
    ):
        nvidia.prepare_capture("ncu", tmp_path / "rank0", environ("no_driver"))


def test_a_metric_that_ncu_does_not_know_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(
        UsageError, match=r"no metric 'dram__read_bytes.sum' of this GPU; did you mean 'dram__bytes_read.sum'"
    ):
        nvidia.prepare_capture("ncu", tmp_path / "rank0", environ(), metrics=["dram__read_bytes.sum"])


def test_old_versions_are_queried_for_what_they_know(tmp_path):
    _, export, verdict = captured(tmp_path, "nsys", *STEP, fault="old")
    assert (verdict, export.kernels) == (("ok", None), 2)
    _, export, verdict = captured(tmp_path, "ncu", *STEP, fault="old")
    assert (verdict, export.reports[0].suffix) == (("ok", None), ".ncu-rep")
    with pytest.raises(nvidia.CaptureError, match=r"ncu 2022.3.0.0 does not support --clock-control boost"):
        nvidia.prepare_capture("ncu", tmp_path / "rank0", environ("old"), clock_control="boost")


def test_the_record_reports_the_capture_without_a_path(tmp_path):
    capture = nvidia.prepare_capture("nsys", tmp_path / "rank0", environ("old"))
    told = nvidia.capture_record(capture)
    assert told["tool_version"] == "2020.3.1.72"
    assert told["tool_command"][:2] == ["nsys", "profile"]
    assert told["tool_command"][-2:] == ["--output=rank0", "PROGRAM"]
    assert told["left_out"] == [
        "nsys 2020.3.1.72 has no --cuda-graph-trace: kernels inside CUDA graphs are recorded as whole graphs",
        "nsys 2020.3.1.72 has no --capture-range-end: recording ends with the program, not with the window",
    ]
    assert str(tmp_path) not in json.dumps(told)
    told = nvidia.capture_record(nvidia.prepare_capture("ncu", tmp_path / "rank0", environ()))
    assert (told["clock_control"], told["cache_control"], told["left_out"]) == ("none", "all", [])
    assert str(FAKES) not in json.dumps(told)
