"""Which variables of the environment a run folder records."""

import pytest

from tests.collect import gpu_node
from tests.needs import needs_torch
from tracelab.collect import train
from tracelab.collect.machine import recorded_environment
from tracelab.collect.process.placement import place_ranks
from tracelab.collect.program.description import describe_program
from tracelab.collect.program.settings import ProgramSettings
from tracelab.collect.run_json import initial_run_json
from tracelab.collect.settings import Settings
from tracelab.collect.workloads import find_workload


def test_variables_that_change_a_run_are_recorded():
    known = {
        "NVIDIA_TF32_OVERRIDE": "0",
        "CUDA_LAUNCH_BLOCKING": "1",
        "NCCL_ALGO": "Ring",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "PYTORCH_ALLOC_CONF": "max_split_size_mb:128",
        "CUDA_VISIBLE_DEVICES": "0,GPU-3",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OMP_NUM_THREADS": "4",
        "UCX_TLS": "rc,cuda_copy",
    }
    assert recorded_environment(known) == known


@pytest.mark.parametrize(
    "name",
    ["HOME", "USER", "PATH", "HF_TOKEN", "NCCL_COMM_ID", "NCCL_API_KEY", "MASTER_ADDR", "SLURM_JOB_USER", "XNCCL_ALGO",
     "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "FI_PASSWORD"],
)  # fmt: skip
def test_no_other_variable_is_recorded(name):
    assert recorded_environment({name: "x"}) == {}


def test_of_a_path_its_last_part_is_recorded():
    paths = {
        "NCCL_TOPO_FILE": "/home/ada/topology/node7.xml",
        "NCCL_DEBUG_FILE": "~/logs/nccl.%h.%p",
        "TORCHINDUCTOR_CACHE_DIR": "../ada/cache",
        "NCCL_NET_PLUGIN": "/opt/a/libnccl-a.so,/opt/b/libnccl-b.so",
    }
    assert recorded_environment(paths) == {
        "NCCL_DEBUG_FILE": "nccl.%h.%p",
        "NCCL_NET_PLUGIN": "libnccl-a.so,libnccl-b.so",
        "NCCL_TOPO_FILE": "node7.xml",
        "TORCHINDUCTOR_CACHE_DIR": "cache",
    }


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_a_run_folder_has_those_of_its_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    environment_of_ranks = train._environment
    monkeypatch.setattr(train, "_environment", lambda *words: environment_of_ranks(*words) | {"NCCL_PROTO": "LL"})
    run = gpu_node.open_node(tmp_path, monkeypatch).train("gemm")
    assert (run.json["environment"]["NCCL_ALGO"], run.json["environment"]["NCCL_PROTO"]) == ("Tree", "LL")
    assert "hf_secret" not in (run.folder / "run.json").read_text()


def test_they_are_in_run_json_before_a_run_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    settings = Settings("gemm", device="cpu")
    of_workload = initial_run_json(settings, find_workload("gemm"), place_ranks(settings, {}), "r")
    of_program = describe_program(ProgramSettings(("python", "train.py")), "none", "r")
    assert [each["environment"]["NCCL_ALGO"] for each in (of_workload, of_program)] == ["Tree", "Tree"]
