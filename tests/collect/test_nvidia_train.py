"""`collect train` under nsys and ncu: what the profiler does ends in the run's status, and in files that are whole."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.collect.test_nvidia_captures import FAKES, PROGRAM, STEP, environ
from tests.needs import needs_torch
from tracelab.cli import main
from tracelab.collect import nvidia
from tracelab.collect.process.launch import ProcessExit
from tracelab.collect.profiling.external import ExternalProfiler

WORDS = ["collect", "train", "gemm", "--device", "cpu", "--steps", "1", "--warmup", "0", "--sample-s", "0"]
WORDS += ["--profiler", "nsys", "--run", "r", "--out"]


def read_run(folder):
    """Return run.json of the run, and the names of its files."""
    return json.loads((folder / "r/run.json").read_text()), sorted(path.name for path in (folder / "r").iterdir())


def train(tmp_path, patch, fault="", **variables):
    """Train one step on the processor under the fake nsys, and return run.json and the names of the files."""
    for name, value in (environ(fault) | variables).items():
        patch.setenv(name, value)
    CliRunner().invoke(main, [*WORDS, str(tmp_path)])
    return read_run(tmp_path)


@needs_torch
def test_a_run_under_nsys_is_exported_and_states_what_it_was_made_with(tmp_path):
    command = [sys.executable, "-m", "tracelab", *WORDS, str(tmp_path)]  # each process as on a node
    subprocess.run(command, env=environ(), check=False, timeout=300)
    told, files = read_run(tmp_path)
    assert (told["status"], told["profiler"]) == ("ok", "nsys")
    assert {"rank0.nsys-rep", "rank0.sqlite"} < set(files)
    assert told["capture"]["tool_version"] == "2025.3.1.90"
    assert str(tmp_path) not in json.dumps(told["capture"])


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_a_failure_of_nsys_is_the_run_s_status(tmp_path, monkeypatch):
    told, files = train(tmp_path, monkeypatch, "export_fails")
    assert told["status"] == "profiler_error"
    assert "could not be exported" in told["error"]
    assert "rank0.sqlite" not in files
    assert "steps.rank0.jsonl" in files


def test_a_report_that_nsys_does_not_write_is_the_run_s_status(tmp_path, monkeypatch):
    surroundings = environ("no_report")
    monkeypatch.setattr(os, "environ", surroundings)
    around = ExternalProfiler(nvidia.prepare_capture("nsys", tmp_path / "rank0", surroundings), tmp_path)
    line = nvidia.profile_command(around.rank_capture(0), [sys.executable, str(PROGRAM), *STEP])
    done = subprocess.run(
        line, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    found = around.export_reports(ProcessExit(0, done.returncode, "itself", done.stdout), {"status": "ok"})
    assert found["status"] == "profiler_error"
    assert "nsys: Importer error status" in found["error"]
    assert "rank0.sqlite" not in {path.name for path in tmp_path.iterdir()}


@needs_torch
def test_a_run_without_the_tool_is_refused_with_a_status(tmp_path, monkeypatch):
    told, _ = train(tmp_path, monkeypatch, TRACELAB_NSYS=str(tmp_path / "none"))
    assert told["status"] == "profiler_error"
    assert "cannot be started" in told["error"]


@pytest.mark.parametrize(
    ("fault", "events", "status"),
    [
        ("", STEP, "ok"),
        ("", ("kernel outside",), "no_kernels"),
        ("permission", STEP, "permission_denied"),
        ("dcgm", STEP, "profiler_error"),
    ],
)
def test_a_rank_under_ncu_takes_the_status_of_its_capture(tmp_path, monkeypatch, fault, events, status):
    surroundings = environ(fault)
    monkeypatch.setattr(os, "environ", surroundings)
    around = ExternalProfiler(nvidia.prepare_capture("ncu", tmp_path / "rank0", surroundings), tmp_path)
    line = nvidia.profile_command(around.rank_capture(0), [sys.executable, str(PROGRAM), *events])
    done = subprocess.run(line, env=surroundings, stdout=subprocess.PIPE, text=True, check=False)
    found = around.export_reports(ProcessExit(0, done.returncode, "itself", done.stdout), {"status": "ok"})
    assert found["status"] == status
    assert [each["file"] for each in found["files"]] == (["rank0.ncu.csv"] if status == "ok" else [])


def test_a_profiler_that_hangs_is_the_time_limit_s_and_no_error_of_its_own(tmp_path):
    around = ExternalProfiler(nvidia.prepare_capture("nsys", tmp_path / "rank0", environ()), tmp_path)
    found = around.export_reports(ProcessExit(0, -9, "timeout", ""), {"status": "ok"})
    assert (found["status"], found["error"]) == ("timeout", "the time limit ended nsys before it wrote its report")
    assert "status" not in around.export_reports(ProcessExit(0, -9, "timeout", ""), {"status": "timeout"})


def test_what_a_rank_ran_into_stays_its_status_and_its_report_is_exported_all_the_same(tmp_path, monkeypatch):
    surroundings = environ()
    monkeypatch.setattr(os, "environ", surroundings)
    around = ExternalProfiler(nvidia.prepare_capture("nsys", tmp_path / "rank0", surroundings), tmp_path)
    line = nvidia.profile_command(around.rank_capture(0), [sys.executable, str(PROGRAM), *STEP, "exit=1"])
    done = subprocess.run(line, env=surroundings, stdout=subprocess.PIPE, text=True, check=False)
    found = around.export_reports(ProcessExit(0, done.returncode, "itself", done.stdout), {"status": "oom"})
    assert "status" not in found
    assert found["kernels"] == 2


def test_every_rank_is_captured_by_nsys_into_a_file_of_its_own(tmp_path):
    capture = nvidia.Capture(nvidia.Tool("nsys", "nsys", "2025.3", {}), Path("rank0"))
    around = ExternalProfiler(capture, tmp_path)
    assert around.rank_capture(3) == replace(capture, base=tmp_path / "rank3")
    assert around.command(3, tmp_path)[:2] == ["nsys", "profile"]
    assert str(FAKES) not in " ".join(around.command(3, tmp_path))
