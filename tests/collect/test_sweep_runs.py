"""A sweep goes on whatever a run does, and goes on from where it stopped; nothing half-written is taken for whole."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.needs import needs_torch
from tests.readers.small import ingest_paths
from tracelab.cli import main
from tracelab.collect.run_folder import claim_run_folder, read_run_json
from tracelab.collect.settings import Settings
from tracelab.collect.sweep import runner, state
from tracelab.collect.sweep.matrix import Sweep, load_sweep
from tracelab.collect.sweep.runner import CellResult, RunnerOptions
from tracelab.errors import TracelabError

CHECKOUT = Path(__file__).parents[2]
FAKE = (sys.executable, str(Path(__file__).with_name("fake_train.py")))
FILE = 'name = "S"\nworkload = "gemm"\n[axes]\nseed = [0, 1, 2, 3]\n'


class Lab:
    """A sweep of four cells, run by a stand-in for training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "S.toml").write_text(FILE)
        self.plan = folder / "plan.json"

    @property
    def sweep(self) -> Sweep:
        return load_sweep(self.folder / "S.toml", self.folder / "runs")

    @property
    def states(self) -> list[str]:
        return [state.cell_state(cell) for cell in self.sweep.cells]

    @property
    def begun(self) -> list[str]:
        """Every run that was started, in order."""
        return self.plan.with_suffix(".log").read_text().splitlines()

    def run(self, redo: tuple[str, ...] = (), **plan: str) -> list[CellResult]:
        """Run the cells, seed0 and so on doing what the plan says."""
        self.plan.write_text(json.dumps({f"S-{name}": deed for name, deed in plan.items()}))
        cells = self.sweep.cells
        state.write_planned_runs(self.sweep, self.folder / "S.toml")
        results: list[CellResult] = []
        todo = runner.select_cells(cells, {cell.run: state.cell_state(cell) for cell in cells}, (), redo)
        runner.run_cells(todo, RunnerOptions(train=FAKE), results.append)
        return results


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("FAKE_TRAIN_PLAN", str(tmp_path / "plan.json"))
    yield Lab(tmp_path)


def test_run_that_is_killed_or_crashes_is_a_status_and_the_next_one_runs(lab: Lab) -> None:
    results = lab.run(seed0="killed", seed1="crash", seed2="oom")
    assert [(result.cell.run, result.status, result.error) for result in results] == [
        ("S-seed0", "failed", "killed by SIGKILL"),
        ("S-seed1", "failed", "ended with exit code 3: RuntimeError: no such kernel"),
        ("S-seed2", "oom", None),
        ("S-seed3", "ok", None),
    ]
    assert lab.states == ["failed", "failed", "oom", "ok"]


def test_same_command_again_runs_nothing_and_redo_runs_what_is_requested(lab: Lab) -> None:
    lab.run(seed1="oom")
    assert lab.run() == []
    assert [result.cell.run for result in lab.run(redo=("oom",))] == ["S-seed1"]
    assert lab.states == ["ok", "ok", "ok", "ok"]


def test_cells_that_never_run_are_seen_in_the_store(lab: Lab, tmp_path: Path) -> None:
    state.write_planned_runs(lab.sweep, tmp_path / "S.toml")
    stored = ingest_paths(tmp_path, [tmp_path / "runs"], run=None)
    assert [(row["run"], row["status"], row["sweep"], row["repeat"]) for row in stored.rows("runs")] == [
        (f"S-seed{seed}", "not_run", "S", 0) for seed in range(4)
    ]
    record = json.loads((tmp_path / "runs" / "S" / "sweep.json").read_text())
    assert (record["tracelab"], [cell["options"] for cell in record["cells"]][:2]) == (
        "sweep/1",
        [{"seed": 0}, {"seed": 1}],
    )


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"device": "cuda"}, (1, 1, 8)),
        ({"device": "cuda", "gpus": 4, "parallel": "ddp"}, (4, 4, 32)),
        ({"device": "cuda", "gpus": 4, "parallel": "dp"}, (4, 1, 8)),
        ({"device": "cuda", "parallel": "ddp"}, (None, None, None)),
        ({"device": "cpu", "gpus": 2, "parallel": "ddp"}, (0, 2, 16)),
        ({"device": "auto"}, (None, 1, 8)),
    ],
)
def test_a_cell_that_never_ran_states_how_large_it_was_to_be(
    options: dict[str, Any], size: tuple[int | None, ...]
) -> None:
    said = state.planned_run_json(Settings("image_classification", **options))
    assert (said["gpus"], said["world_size"], said["global_batch_size"]) == size


def test_a_path_of_the_user_s_own_is_written_down_nowhere(tmp_path: Path) -> None:
    own = tmp_path / "alone"
    own.mkdir()
    for name in ("mine", "yours"):
        (own / f"{name}.py").write_text(
            "class Settings:\n    data_root: str = ''\ndef model(settings): ...\ndef workload(network): ...\n"
        )
    workloads, weights = [f"{own}/mine.py", f"{own}/yours.py"], [f"{own}/a.pt", f"{own}/b.pt"]
    (tmp_path / "S.toml").write_text(
        f"[axes]\nworkload = {workloads}\nweights = {weights}\n[fixed]\ndata_root = '{own}'\n"
    )
    sweep = load_sweep(tmp_path / "S.toml", tmp_path / "runs")
    state.write_planned_runs(sweep, tmp_path / "S.toml")
    written = [path.read_text() for path in (tmp_path / "runs").rglob("*.json")]
    assert (len(written), [text for text in written if str(own) in text]) == (5, [])
    assert [cell.run for cell in sweep.cells] == [
        f"S-{name}-weights-{weight}" for name in ("mine", "yours") for weight in ("a", "b")
    ]
    assert (read_run_json(tmp_path / "runs" / "S" / "S-mine-weights-a") or {})["workload"] == "mine"


def test_half_written_run_runs_again_and_leaves_nothing_of_itself(lab: Lab) -> None:
    state.write_planned_runs(lab.sweep, lab.folder / "S.toml")
    folder = lab.folder / "runs" / "S" / "S-seed0"
    (folder / "rank0.pt.trace.json.gz").write_bytes(b"half")
    assert lab.states[0] == "not_run"
    lab.run()
    assert (lab.states[0], (folder / "rank0.pt.trace.json.gz").exists()) == ("ok", False)


def test_damaged_run_json_counts_as_not_run(lab: Lab) -> None:
    lab.run()
    path = lab.folder / "runs" / "S" / "S-seed2" / "run.json"
    path.write_bytes(path.read_bytes()[:20])
    assert lab.states == ["ok", "ok", "not_run", "ok"]


def test_run_that_another_process_is_at_is_left_alone(lab: Lab) -> None:
    state.write_planned_runs(lab.sweep, lab.folder / "S.toml")
    with claim_run_folder(lab.folder / "runs" / "S" / "S-seed1", force=False):
        results = lab.run()
        assert lab.states[1] == "running"
    assert [result.cell.run for result in results] == ["S-seed0", "S-seed2", "S-seed3"]


def test_cell_that_another_process_took_first_has_not_run(lab: Lab) -> None:
    first, *_ = lab.run(seed0="lost")
    assert (first.status, first.error) == ("not_run", None)


def test_run_is_no_rank_of_the_job_that_the_sweep_is_in_unless_a_launcher_starts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert {"SLURM_STEP_ID", "SLURM_JOB_ID"} & set(runner.cell_environment(RunnerOptions())) == {"SLURM_JOB_ID"}
    assert "SLURM_STEP_ID" in runner.cell_environment(RunnerOptions(launcher=("srun",)))


def test_full_disk_stops_the_sweep_before_the_next_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LEAST_FREE_BYTES", 1 << 70)
    with pytest.raises(TracelabError, match="the disk is full; free space, and run the command again"):
        lab.run()
    assert lab.states == ["not_run"] * 4


def test_interrupted_sweep_sets_its_run_back_and_goes_on_from_there(lab: Lab) -> None:
    lab.plan.write_text(json.dumps({"S-seed1": "hang"}))
    code = (
        "import sys; from pathlib import Path; from tracelab.collect.sweep import runner, state, matrix\n"
        "from tracelab.collect.process.launch import Interrupted\n"
        f"s = matrix.load_sweep(Path({str(lab.folder / 'S.toml')!r}), Path({str(lab.folder / 'runs')!r}))\n"
        f"state.write_planned_runs(s, Path('S.toml'))\n"
        f"try: runner.run_cells(s.cells, runner.RunnerOptions(train={FAKE!r}), lambda done: None)\n"
        "except Interrupted as signal: sys.exit(128 + signal.number)\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    until = time.monotonic() + 120
    while (
        "S-seed1 hang" not in lab.plan.with_suffix(".log").read_text()
        if lab.plan.with_suffix(".log").exists()
        else True
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 128 + signal.SIGINT
    assert lab.states == ["ok", "not_run", "not_run", "not_run"]
    assert (read_run_json(lab.folder / "runs" / "S" / "S-seed1") or {})["error"] is None
    lab.run()
    assert lab.states == ["ok"] * 4
    assert [line.split()[0] for line in lab.begun] == ["S-seed0", "S-seed1", "S-seed1", "S-seed2", "S-seed3"]


TRAINED = "workload = 'gemm'\ntimeout_s = 200\n[axes]\nseed = [0, 1]\n[fixed]\ndevice = 'cpu'\nsteps = 2\nwarmup = 0\n"


@dataclass(frozen=True)
class Trained:
    """A sweep of two real runs that two processes ran at once."""

    folder: Path
    codes: tuple[int, int]
    told: list[str]

    def again(self, *options: str) -> Result:
        """Run the same file again."""
        given = ["collect", "sweep", str(self.folder / "S.toml"), "--out", str(self.folder / "runs"), *options]
        return CliRunner().invoke(main, given)

    @property
    def steps_asked_for(self) -> list[int]:
        """What the runs state of their number of steps."""
        folders = sorted((self.folder / "runs" / "S").glob("S-seed*"))
        return [(read_run_json(folder) or {})["axes"]["steps"] for folder in folders]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "S.toml").write_text(TRAINED)
    command = [sys.executable, "-m", "tracelab", "collect", "sweep", "S.toml"]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT / "src")}
    first = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not state.is_running(folder / "runs" / "S" / "S-seed0") and time.monotonic() < until:
        time.sleep(0.02)
    second = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    told = [first.communicate(timeout=240)[1].splitlines()[-1], second.stderr.splitlines()[-1]]
    return Trained(folder, (first.returncode, second.returncode), told)


@needs_torch
def test_last_word_of_a_shared_sweep_counts_what_the_other_process_did(trained: Trained) -> None:
    assert trained.codes == (0, 0)
    assert set(trained.told) <= {"2 cells: 2 ok", "2 cells: 1 ok, 1 running"}
    assert "2 cells: 2 ok" in trained.told


@needs_torch
def test_real_runs_of_a_sweep_ingest_with_what_was_varied(trained: Trained, tmp_path: Path) -> None:
    record = json.loads((trained.folder / "runs" / "S" / "sweep.json").read_text())
    assert [cell["run"] for cell in record["cells"]] == ["S-seed0", "S-seed1"]
    stored = ingest_paths(tmp_path, [trained.folder / "runs"], run=None)
    runs = sorted(stored.rows("runs"), key=lambda row: str(row["run"]))
    assert [(row["run"], row["sweep"], row["status"], dict(row["tags"])["seed"]) for row in runs] == [
        ("S-seed0", "S", "ok", "0"),
        ("S-seed1", "S", "ok", "1"),
    ]
    steps = Counter(row["run"] for row in stored.rows("steps") if row["step"] is not None)
    assert steps == {"S-seed0": 2, "S-seed1": 2}


@needs_torch
def test_runs_of_other_settings_are_no_cells_of_a_sweep(trained: Trained) -> None:
    assert trained.again("--fixed", "timeout_s=600").stderr == "2 cells: 2 ok\n"
    refused, shown = trained.again("--fixed", "steps=7"), trained.again("--fixed", "steps=7", "--dry-run")
    sentence = (
        f"{trained.folder}/runs/S: 2 cells ran with other settings: steps was 2, is 7 (S-seed0, S-seed1); "
        "choose another --out or name of the sweep, or rerun them with --force\n"
    )
    assert (refused.exit_code, refused.stderr, trained.steps_asked_for) == (2, f"tracelab: {sentence}", [2, 2])
    assert (shown.exit_code, shown.stderr.partition("\n")[0]) == (2, "2 cells: 2 other_settings")
    assert shown.stdout.splitlines()[1].split() == ["S-seed0", "0", "0", "other_settings"]


@needs_torch
def test_a_run_of_other_settings_is_run_again_by_force(trained: Trained, tmp_path: Path) -> None:
    copied = Trained(tmp_path / "copied", (0, 0), [])
    shutil.copytree(trained.folder, copied.folder)
    options = ["--fixed", "steps=7", "--match", "S-seed1"]
    assert copied.again(*options).exit_code == 2
    again = copied.again(*options, "--force")
    assert (again.exit_code, again.stderr.splitlines()[-1], copied.steps_asked_for) == (0, "1 cell: 1 ok", [2, 7])
    assert copied.again(*options, "--fixed", "timeout_s=600").stderr == "1 cell: 1 ok\n"
