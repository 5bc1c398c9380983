"""What goes wrong in a run becomes its status; what it did until then is kept, and nothing half-written is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs_torch
from tracelab.collect.settings import Settings
from tracelab.collect.train import Result, train

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_ranks")]

WORKLOAD = '''"""A workload with a fault."""
from dataclasses import dataclass

import os, resource, signal, time
import torch


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"


def workload(settings):
    done = []

    def step():
        done.append(torch.ones(3).sum())
        if len(done) == 3:
            {fault}

    return step
'''


def faulty(folder: Path, fault: str, **options: Any) -> Result:
    path = folder / "faulty.py"
    path.write_text(WORKLOAD.format(fault=fault))
    return train(Settings(str(path), device="cpu", warmup=1, steps=5, sample_s=0, out=folder, run="r", **options))


def described(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


def steps(folder: Path) -> int:
    return sum('"train"' in line for line in (folder / "steps.rank0.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ("raise MemoryError", "oom", "memory ran out"),
        ("torch.empty(1 << 46)", "oom", "DefaultCPUAllocator: can't allocate memory"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "failed", "killed by SIGKILL"),
        ('raise KeyError("height")', "failed", "KeyError: 'height'"),
    ],
)
def test_a_fault_is_a_status_and_the_steps_before_it_are_kept(
    tmp_path: Path, fault: str, status: str, said: str
) -> None:
    result = faulty(tmp_path, fault)
    content = described(result.folder)
    assert (result.status, content["status"]) == (status, status)
    assert said in content["error"]
    assert steps(result.folder) == 1


def test_what_a_failed_rank_printed_names_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = faulty(tmp_path, "raise ValueError(__file__)")
    printed = (result.folder / "rank0.log").read_text()
    assert (str(tmp_path) in printed, "ValueError: ~/" in printed) == (False, True)


def test_the_time_limit_ends_a_run_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    for limit_s in (6.0, 20.0, 60.0, 240.0):  # a busy machine may take longer to begin
        result = faulty(tmp_path, "time.sleep(600)", timeout_s=limit_s, profiler="kineto", active=5, force=True)
        if (result.folder / "steps.rank0.jsonl").exists() and steps(result.folder):
            break
    content = described(result.folder)
    assert (result.status, content["error"]) == (
        "timeout",
        "reached the time limit; what was recorded before it is kept",
    )
    (file,) = content["capture"]["files"]
    assert (steps(result.folder), file["file"], file["events"] > 0) == (1, "rank0.pt.trace.json.gz", True)


def test_a_disk_that_fills_up_leaves_no_half_trace(tmp_path: Path) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))"
    result = faulty(tmp_path, limit, profiler="kineto", shapes=True, active=5)
    content = described(result.folder)
    assert (content["status"], content["error"]) == (
        "failed",
        "a file in the scratch folder (TMPDIR) reached the file size limit; raise it (ulimit -f) and run again",
    )
    assert [path.name for path in result.folder.iterdir() if "trace" in path.name] == []


@pytest.mark.usefixtures("_ranks_in_new_processes")
def test_a_rank_that_cannot_be_started_is_a_run_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "nowhere/python")
    result = faulty(tmp_path, "pass")
    content = described(result.folder)
    assert (content["status"], content["error"]) == (
        "failed",
        "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere/python'",
    )


def test_names_that_break_torchs_exporter_are_exported_again(tmp_path: Path) -> None:
    quoted = "torch.profiler.record_function('a \"b\"').__enter__().__exit__(None, None, None)"
    result = faulty(tmp_path, quoted, profiler="kineto", active=5)
    (file,) = described(result.folder)["capture"]["files"]
    assert (result.status, file["exporter"].startswith("python (native was invalid JSON: ")) == ("ok", True)


def test_a_scheduler_that_ends_the_run_is_named(tmp_path: Path) -> None:
    result = faulty(tmp_path, f"time.sleep(0.3); os.kill({os.getpid()}, signal.SIGTERM); time.sleep(60)")
    assert (result.status, result.error, result.interrupted) == ("failed", "interrupted by SIGTERM", signal.SIGTERM)
    assert result.describe() == f"{result.folder}: failed; interrupted by SIGTERM; 1 step taken"


def test_one_rank_that_fails_ends_the_run_and_is_named(tmp_path: Path) -> None:
    fault = "if torch.distributed.get_rank(): raise ValueError('odd')\n            torch.distributed.barrier()"
    result = faulty(tmp_path, fault, parallel="ddp", gpus=2)
    assert (result.status, result.error) == ("failed", "rank 1: ValueError: odd")


def test_ranks_that_srun_started_write_one_folder_and_name_the_cause(tmp_path: Path) -> None:
    fault = "if torch.distributed.get_rank(): raise MemoryError('no room')\n            torch.distributed.barrier()"
    codes = [process.wait(240) for process in of_srun(tmp_path, fault)]
    content = described(tmp_path / "r")
    assert (codes, content["status"], content["error"]) == ([1, 1], "oom", "rank 1: no room")
    assert (content["world_size"], sorted(content["ranks"])) == (2, ["0", "1"])
    assert not list((tmp_path / "r").glob(".*"))


def test_a_launcher_that_ends_rank_0_while_it_waits_for_another_s_word_costs_no_cause(tmp_path: Path) -> None:
    both = of_srun(tmp_path, "time.sleep(5 * torch.distributed.get_rank()); raise ValueError('odd')")
    until = time.monotonic() + 240
    while not (tmp_path / "r" / "rank0.log").exists() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(1)
    both[0].send_signal(signal.SIGTERM)
    assert [process.wait(240) for process in both] == [1, 1]
    assert described(tmp_path / "r")["error"] == "rank 0: ValueError: odd"
    assert not list((tmp_path / "r").glob(".*"))


def of_srun(folder: Path, fault: str) -> list["subprocess.Popen[bytes]"]:
    """Two ranks as srun starts them."""
    path = folder / "faulty.py"
    path.write_text(WORKLOAD.format(fault=fault))
    slurm = {"JOB_ID": str(os.getpid()), "STEP_ID": "0", "STEP_NUM_TASKS": "2", "STEP_NODELIST": "localhost"}
    ranks = [{f"SLURM_{name}": value for name, value in slurm.items()} | ranked for ranked in map(of_slurm, range(2))]
    options = ["--device", "cpu", "--warmup", "1", "--parallel", "ddp", "--out", str(folder), "--run", "r"]
    command = [sys.executable, "-m", "tracelab", "collect", "train", str(path), *options]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}
    return [subprocess.Popen(command, env=environment | rank, stderr=subprocess.DEVNULL) for rank in ranks]


def of_slurm(rank: int) -> dict[str, str]:
    return {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}


def test_ctrl_c_ends_a_run_and_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "faulty.py"
    path.write_text(WORKLOAD.format(fault="time.sleep(600)"))
    options = ["--device", "cpu", "--warmup", "1", "--steps", "5", "--out", str(tmp_path), "--run", "r"]
    command = [sys.executable, "-m", "tracelab", "collect", "train", str(path), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    written = tmp_path / "r" / "steps.rank0.jsonl"
    until = time.monotonic() + 240
    while not (written.exists() and '"train"' in written.read_text()) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, described(tmp_path / "r")["error"]) == (130, "interrupted")
    assert "r: failed; interrupted; " in said
