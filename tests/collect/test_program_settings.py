"""What is to be recorded of a program: its command, windows, and ranks, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collect.program_recordings import described, record
from tests.needs import needs_torch
from tracelab.collect.program import run as program_run
from tracelab.collect.program.process import RECORDING, STARTUP
from tracelab.collect.program.run import run_program
from tracelab.collect.program.settings import ProgramSettings, shown_words, validate_program
from tracelab.collect.recording.hook import find_program
from tracelab.collect.recording.profilers import KinetoOptions
from tracelab.collect.recording.ranks import Rank, find_rank
from tracelab.collect.recording.window import Window
from tracelab.errors import TracelabError, UsageError

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]


def test_run_json_has_the_window_that_the_profiler_records(tmp_path: Path) -> None:
    def window(profiler: str, **options: float) -> str | None:
        chosen: str | None = program_run._describe_window(
            ProgramSettings(("true",), window=Window(**options)), profiler
        )
        return chosen

    assert window("kineto") == "the first 20 optimizer steps or 30 s"
    assert window("kineto", wait=1, active=1) == "1 optimizer step after 1 optimizer step"
    assert (window("nsys"), window("nsys", for_s=2)) == ("the whole program", "the first 2 s")
    assert (window("ncu"), window("none")) == ("the first 1000 kernel launches", None)
    result = record(tmp_path, "true", profiler="none")
    assert described(result)["capture"]["window"] is None


def test_a_missing_profiler_is_refused_before_the_first_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACELAB_NSYS", str(tmp_path / "nsys"))
    with pytest.raises(TracelabError, match="nsys cannot be started: No such file or directory"):
        run_program(ProgramSettings(("true",), ("none", "nsys"), out=tmp_path / "runs", run="r", sample_s=0))
    assert not (tmp_path / "runs").exists()


def test_a_process_without_torch_runs_its_own_sitecustomize_and_imports_nothing_of_tracelab(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = 'own'")
    look = "import sys, importlib.util; importlib.util.find_spec('torch')"
    look += "; print(sys.own, [name for name in sys.modules if name.startswith(('torch', 'tracelab'))])"
    path = os.pathsep.join([str(STARTUP), str(tmp_path)])
    environment = os.environ | {"PYTHONPATH": path, RECORDING: str(tmp_path / "task.json")}
    done = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("own []\n", "")
    assert (tmp_path / "python-started").exists()


def test_run_json_has_neither_folders_nor_secrets_of_the_command() -> None:
    words = [
        "/opt/venv/bin/python",
        "/home/me/train.py",
        "--data=/data/x",
        "--api-key",
        "abc",
        "--token=abc",
        "--lr",
        "1",
    ]
    assert shown_words(words) == ["python", "train.py", "--data=x", "--api-key", "***", "--token=***", "--lr", "1"]
    assert ProgramSettings(tuple(words)).program == "python train.py --data=x --api-key *** --token=*** --lr 1"


def test_the_program_keeps_the_quotes_that_a_shell_needs() -> None:
    command = ("bash", "-c", "python acc.py && python infer.py")
    assert ProgramSettings(command).program == "bash -c 'python acc.py && python infer.py'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ()}, "no command to run"),
        ({"command": ("no-such-program",)}, "no such program on PATH"),
        ({"profilers": ("nsys", "nsys")}, "names one profiler twice"),
        ({"profilers": ("nsys",), "kineto": KinetoOptions(shapes=True)}, "need --profiler kineto"),
        ({"window": Window(cycles=2)}, "--cycles needs --wait or --after-s"),
        ({"window": Window(on_demand=True, cycles=2)}, "remove --cycles"),
        ({"window": Window(active=0)}, "must be above 0"),
        ({"profilers": ("kineto", "ncu"), "window": Window(for_s=2)}, "ncu cannot record by seconds; choose --wait"),
        ({"profilers": ("none",), "window": Window(wait=3)}, "--profiler none records no window; remove the options"),
    ],
)
def test_an_impossible_request_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate_program(ProgramSettings(**{"command": ("true",)} | options))


def test_a_recording_inside_of_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAB_RECORDING", "/run/task.json")
    with pytest.raises(UsageError, match="recorded by another tracelab collect run"):
        validate_program(ProgramSettings(("true",)))


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, Rank(3, 4, 1, known=True)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(1, 2, 0, known=True)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, Rank(1, 2, 1, known=True)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_ID": "0"}, Rank(5, 8, 0, known=True)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "4294967291"}, Rank()),
        ({"RANK": "x", "WORLD_SIZE": "4"}, Rank()),
    ],
)
def test_a_rank_is_that_of_its_launcher(environment: dict[str, str], rank: Rank) -> None:
    assert find_rank(environment) == rank


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("python train.py accelerate", "train.py"),
        ("python -u -X dev -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -W error /opt/bin/torchrun -m train", "/opt/bin/torchrun"),
        ("python", ""),
        ("python -", ""),
    ],
)
def test_the_program_of_python_is_its_first_word_that_is_no_option(words: str, program: str) -> None:
    assert find_program(words.split()) == program
