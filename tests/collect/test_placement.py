"""Ranks as torchrun and srun tell them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelab.collect.machine import gpu_source
from tracelab.collect.process.launcher_env import first_host, read_launcher_env
from tracelab.collect.process.placement import place_ranks
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
}
SRUN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "gpu[003-004]",
    "SLURM_PROCID": "6",
    "SLURM_LOCALID": "2",
}


@pytest.fixture
def torch_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Return the environment of a node without NVML and nvidia-smi, whose torch sees this number of GPUs."""

    def node(gpus: int, *, driver: str | None) -> dict[str, str]:
        monkeypatch.setattr(gpu_source, "open_gpu_source", lambda _environment: None)
        monkeypatch.setattr(gpu_source, "NVIDIA_DRIVER", tmp_path / "nvidiactl")
        monkeypatch.setattr(gpu_source, "OTHER_DRIVERS", (tmp_path / "dxg",))
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        if driver:
            (tmp_path / driver).touch()
        (tmp_path / "torch.py").write_text(
            f"class cuda: is_available = lambda: {gpus > 0}; device_count = lambda: {gpus}"
        )
        return {"PYTHONPATH": str(tmp_path)}

    return node


@pytest.mark.parametrize("driver", ["nvidiactl", "dxg"])
def test_gpus_that_torch_alone_sees_are_used(torch_sees: Callable[..., dict[str, str]], driver: str) -> None:
    environment = torch_sees(3, driver=driver)
    placement = place_ranks(Settings("gemm", parallel="ddp"), environment)
    assert (placement.settings.device, placement.gpus) == ("cuda", 3)


@pytest.mark.parametrize("driver", ["dxg", None])
def test_a_node_without_a_gpu_trains_on_its_cpu(torch_sees: Callable[..., dict[str, str]], driver: str | None) -> None:
    assert place_ranks(Settings("gemm"), torch_sees(0, driver=driver)).settings.device == "cpu"


def test_a_gpu_that_torch_cannot_use_is_an_error_and_no_silent_run_on_the_cpu(
    torch_sees: Callable[..., dict[str, str]],
) -> None:
    environment = torch_sees(0, driver="nvidiactl")
    with pytest.raises(UsageError, match="this node has NVIDIA's driver, but torch sees no GPU"):
        place_ranks(Settings("gemm"), environment)
    assert place_ranks(Settings("gemm", device="cpu"), environment).settings.device == "cpu"
    hidden = environment | {"CUDA_VISIBLE_DEVICES": ""}
    assert place_ranks(Settings("gemm"), hidden).settings.device == "cpu"


def test_without_a_launcher_there_is_no_job() -> None:
    assert read_launcher_env({"RANK": "1", "WORLD_SIZE": "2"}) is None


def test_torchrun_reports_the_rank() -> None:
    job = read_launcher_env(TORCHRUN)
    assert job is not None
    assert (job.rank, job.local_rank, job.world_size, job.host_index, job.rendezvous_env) == (5, 1, 8, 1, ())


def test_srun_reports_the_rank_and_where_to_meet() -> None:
    job = read_launcher_env(SRUN)
    assert job is not None
    assert (job.rank, job.local_rank, job.world_size, job.local_world_size, job.host_index) == (6, 2, 8, 4, 1)
    assert dict(job.rendezvous_env) == {"MASTER_ADDR": "gpu003", "MASTER_PORT": str(20_000 + 4711 * 7 % 10_000)}


def test_a_batch_script_is_no_rank() -> None:
    assert read_launcher_env({name: value for name, value in SRUN.items() if not name.startswith("SLURM_STEP")}) is None


def test_an_interactive_shell_is_no_rank() -> None:
    assert read_launcher_env(SRUN | {"SLURM_STEP_ID": "4294967290"}) is None


def test_all_ranks_of_a_launch_share_a_token_and_the_next_launch_has_another() -> None:
    tokens = {read_launcher_env(each).token for each in (TORCHRUN, TORCHRUN | {"RANK": "0", "LOCAL_RANK": "0"})}  # type: ignore[union-attr]
    again = read_launcher_env(TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "1"})
    assert (len(tokens), again is not None and again.token in tokens) == (1, False)


def test_two_launches_by_the_same_port_have_two_tokens() -> None:
    one = TORCHRUN | {"WORLD_SIZE": "4", "RANK": "1"}
    files = ("/logs/torchelastic_a/none_x/attempt_0/1/error.json", "/logs/torchelastic_a/none_x/attempt_0/3/error.json")
    ranks = [read_launcher_env(one | {"TORCHELASTIC_ERROR_FILE": file}) for file in files]
    later = read_launcher_env(one | {"TORCHELASTIC_ERROR_FILE": "/logs/torchelastic_b/none_y/attempt_0/1/error.json"})
    assert ranks[0] is not None and ranks[1] is not None and later is not None
    assert (ranks[0].token == ranks[1].token, ranks[0].token == later.token) == (True, False)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("gpu[003-007,9],cpu1", "gpu003"), ("node1", "node1"), ("a1,a2", "a1"), ("r[2,4]-n1", "r2-n1")],
)
def test_the_first_of_slurms_hosts(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_tasks_that_do_not_divide_evenly_are_refused() -> None:
    with pytest.raises(UsageError, match="--ntasks-per-node"):
        read_launcher_env(SRUN | {"SLURM_STEP_NUM_TASKS": "7"})


def test_a_launched_process_starts_its_own_rank_alone() -> None:
    decided = place_ranks(Settings("transformer", device="cpu", parallel="ddp"), TORCHRUN)
    assert (decided.ranks, decided.world_size, decided.rank_job(5).local_rank, decided.gpus) == ((5,), 8, 1, 0)


def test_ranks_without_parallelism_are_refused() -> None:
    with pytest.raises(UsageError, match="torchrun started 8 processes, but --parallel none runs in one"):
        place_ranks(Settings("transformer", device="cpu"), TORCHRUN)


def test_local_ranks_are_as_many_as_requested() -> None:
    decided = place_ranks(Settings("transformer", device="cpu", parallel="fsdp", gpus=3), {})
    assert (decided.ranks, [decided.rank_job(rank).local_rank for rank in decided.ranks]) == ((0, 1, 2), [0, 1, 2])


def test_on_a_processor_ddp_has_one_rank_by_default() -> None:
    assert place_ranks(Settings("transformer", device="cpu", parallel="ddp"), {}).world_size == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Settings("gemm", device="cpu", parallel="dp"), "--parallel dp splits a batch over GPUs"),
        (Settings("gemm", device="cpu", gpus=2), "--gpus above 1 needs --parallel"),
        (Settings("gemm", device="cpu", precision="tf32"), "--precision tf32 needs an NVIDIA GPU"),
        (Settings("gemm", device="cpu", profiler="ncu"), "ncu measures GPU kernels"),
        (Settings("gemm", device="cpu", shapes=True), "need --profiler kineto"),
        (Settings("gemm", device="cpu", profiler="kineto", window="all", cycles=2), "--window all records the whole"),
        (Settings("gemm", device="cpu", data="cifar10"), "needs --data-root"),
        (Settings("gemm", device="cpu", data_fraction=0.0), "--data-fraction must be above 0"),
        (Settings("gemm", device="cpu", profiler="kineto", steps=2, wait=2), "nothing would be recorded"),
        (Settings("gemm", device="cpu", run="a/b"), "'a/b' is not a valid run name .* try 'a-b'"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_runs(settings: Settings, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        place_ranks(settings, {})
