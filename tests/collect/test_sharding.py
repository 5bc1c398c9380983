"""Models that are sharded over ranks, whole weights or matrices, compute what one process does."""

import contextlib
import gzip
import json
import re
import sys
from collections import Counter

import pytest

from tests.needs import needs_torch, torch
from tracelab.client import Lab
from tracelab.collect.machine.host import Host
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings, validate_settings
from tracelab.collect.train import train
from tracelab.collect.training import materialize
from tracelab.collect.training.model_cost import ModelCost
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.parallelism import parallelize
from tracelab.collect.workloads import find_workload, load_module
from tracelab.errors import UsageError
from tracelab.ingest import pipeline

pytestmark = needs_torch

FOUR = {"data_fraction": 4 / 1024, "epochs": 3, "steps": 1, "warmup": 0, "learning_rate": 0.5}
"""Each step trains on the same four samples."""
LARGE = {"context": "8", "hidden": "1024", "vocabulary": "2048"}
"""Blocks and tied embeddings of more than 100,000 parameters."""
LARGE_SIZES = {name: int(value) for name, value in LARGE.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory, _forked_ranks):
    """Runs of this module, each made once."""
    out, made = tmp_path_factory.mktemp("runs"), {}

    def once(name, workload="decoder", **options):
        if name not in made:
            common = {"device": "cpu", "out": out, "run": name, "sample_s": 0.0}
            result = train(Settings(workload, **common | options))
            assert result.status == "ok", result.error
            made[name] = result.folder
        return made[name]

    return once


def read_rows(folder, rank=0):
    return [json.loads(line) for line in (folder / f"steps.rank{rank}.jsonl").read_text().splitlines()[1:]]


def losses(folder, rank=0):
    return [row["loss"] for row in read_rows(folder, rank) if row["phase"] == "train"]


def alone(run):
    return run("alone", batch_size=4, set=LARGE, **FOUR)


def tensor_parallel(run):
    options = {"parallel": "tp", "gpus": 2, "validate": True, "profiler": "kineto", "active": 1, "accumulate": 2}
    return run("tp", batch_size=2, set=LARGE, **FOUR, **options)


def test_tensor_parallel_ranks_compute_what_one_process_does(run):
    folder, expected = tensor_parallel(run), losses(alone(run))
    assert losses(folder) == pytest.approx(expected, rel=1e-4)
    assert losses(folder, 1) == losses(folder)
    assert expected[-1] < 0.9 * expected[0]


def test_tensor_parallel_ranks_read_the_same_samples_and_count_them_once(run, tmp_path):
    folder = tensor_parallel(run)
    samples = [[row["samples"] for row in read_rows(folder, rank)] for rank in (0, 1)]
    assert samples == [[4, 4, 2] * 3, [0, 0, 0] * 3]  # a step, its epoch, its validation
    content = json.loads((folder / "run.json").read_text())
    known = {name: content[name] for name in ("parallelism", "world_size", "batch_size", "global_batch_size")}
    assert known == {"parallelism": "tp", "world_size": 2, "batch_size": 2, "global_batch_size": 4}
    assert pipeline.ingest([folder], tmp_path / "lab").exit_code == 0
    (row,) = Lab(tmp_path / "lab").sql("select samples, train_ns from run_speeds").to_pylist()
    assert row["samples"] == 4 * 2  # the recorded step does not count


def test_tensor_parallel_ranks_reduce_twice_a_block(run):
    content = json.loads(gzip.decompress((tensor_parallel(run) / "rank1.pt.trace.json.gz").read_bytes()))
    names = Counter(event["name"] for event in content["traceEvents"] if event.get("ph") == "X")
    forward = 1 + 2 * 2  # the embedding; of two blocks attention and MLP
    backward = 2 * 2 + 1  # of two blocks the inputs of attention and MLP; the scores
    assert names["gloo:all_reduce"] == 2 * (forward + backward)  # two batches


@pytest.mark.parametrize(
    ("policy", "options"),
    [("parts", {}), ("model", {"fsdp_wrap": "model", "fsdp_reshard": "never"})],
)
def test_sharded_ranks_compute_what_one_process_does(run, policy, options):
    folder = run(f"fsdp-{policy}", batch_size=2, parallel="fsdp", gpus=2, set=LARGE, **FOUR, **options)
    means = [sum(pair) / 2 for pair in zip(losses(folder), losses(folder, 1), strict=True)]
    assert means == pytest.approx(losses(alone(run)), rel=1e-4)


@pytest.mark.parametrize("parallel", ["none", "tp"])
def test_inference_decodes_on_ranks_that_share_a_model(run, parallel):
    gpus = {} if parallel == "none" else {"gpus": 2}
    own = {"prompt": "4", "output": "3"}
    folder = run(f"served-{parallel}", "inference", steps=1, warmup=1, batch_size=2, parallel=parallel, set=own, **gpus)
    counted = Counter((row["phase"], row["samples"]) for row in read_rows(folder) if row["phase"] != "warmup")
    assert counted == {("prefill", 2): 1, ("decode", 2): 2, ("train", 2): 1, ("epoch", 2): 1}


@pytest.fixture
def two_ranks(monkeypatch):
    """The first of two ranks whose collectives do nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    monkeypatch.setattr(sys, "path", [*sys.path])
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield load_module(find_workload("decoder"))
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the hooks of CommDebugMode
@pytest.mark.parametrize(
    ("wrap", "reshard", "gathers", "reductions"),
    [
        ("parts", "auto", 5, 3),  # two blocks twice, the rest once
        ("parts", "always", 6, 3),
        ("parts", "never", 3, 3),
        ("model", "auto", 1, 1),
        ("model", "always", 2, 1),
        ("model", "never", 1, 1),
    ],
)
def test_a_policy_decides_how_often_weights_are_gathered(two_ranks, wrap, reshard, gathers, reductions):
    from torch.distributed.tensor.debug import CommDebugMode

    settings = Settings("decoder", device="cpu", parallel="fsdp", fsdp_wrap=wrap, fsdp_reshard=reshard)
    context = RankContext(torch, settings, Job(world_size=2), torch.device("cpu"))
    network = two_ranks.model(two_ranks.Settings(**LARGE_SIZES))
    network = parallelize(context, network, list)
    with CommDebugMode() as counted:
        network(torch.zeros(2, 8, dtype=torch.long)).sum().backward()
    counts = {str(name).rpartition(".")[2]: count for name, count in counted.get_comm_counts().items()}
    assert counts == {"_allgather_base_": gathers, "_reduce_scatter_base_": reductions}


def decoder_context(**options):
    return RankContext(torch, Settings("decoder", device="cpu", **options), Job(world_size=2), torch.device("cpu"))


def create(decoder, own, **options):
    """Return a decoder whose weights were created where they are used."""
    with torch.device("meta"):
        network = decoder.model(decoder.Settings(**own))
    return parallelize(decoder_context(**options), network, list, decoder.tensor_parallel, decoder.initialize)


@pytest.mark.parametrize(
    ("own", "options"),
    [
        ({"vocabulary": 513, "hidden": 193}, {"parallel": "fsdp"}),  # of 513 rows one rank has 257, the other 256
        ({"embeddings": "untied"}, {"parallel": "fsdp", "fsdp_wrap": "model"}),
        ({}, {"parallel": "tp"}),
    ],
)
def test_a_rank_creates_its_part_of_the_weights_that_one_process_has(two_ranks, own, options):
    whole, part = create(two_ranks, own), create(two_ranks, own, **options)
    assert (part.scores.weight is part.tokens.weight) == (whole.scores.weight is whole.tokens.weight)
    expected = dict(whole.named_parameters())
    for name, weight in part.named_parameters():
        local = weight.to_local() if hasattr(weight, "to_local") else weight
        first = expected[name]
        for dim, (count, of) in enumerate(zip(local.shape, first.shape, strict=True)):
            assert count in (of, -(-of // 2))
            first = first.narrow(dim, 0, count)
        assert torch.equal(local, first), name
    held = sum(each.to_local().numel() for each in part.parameters() if hasattr(each, "to_local"))
    assert held < 0.51 * sum(each.numel() for each in whole.parameters())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_policy_in_a_lower_precision_reduces_gradients_in_fp32(two_ranks):
    from torch.utils._python_dispatch import TorchDispatchMode

    dtypes = []

    class Reductions(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "reduce_scatter" in func.__name__:
                dtypes.extend(each.dtype for each in args if isinstance(each, torch.Tensor))
            return func(*args, **kwargs or {})

    network = create(two_ranks, LARGE_SIZES, parallel="fsdp", precision="bf16", fsdp_precision="policy")
    with Reductions():
        network(torch.zeros(2, 8, dtype=torch.long)).sum().backward()
    assert dtypes == [torch.float32] * 2 * 3  # of two blocks and the rest: what comes in, and what goes out


def test_a_model_with_buffers_is_not_created_in_place():
    with torch.device("meta"):
        network = torch.nn.BatchNorm1d(2)
    with pytest.raises(UsageError, match="this model also has the buffer running_mean; remove initialize"):
        parallelize(decoder_context(), network, list, initialize=lambda name, weight: weight.fill_(1))


GB_282 = ModelCost(70_553_706_496, 4 * 70_553_706_496, None)


@pytest.mark.parametrize(
    ("options", "is_created_in_place", "device", "refusal"),
    [
        ({}, True, "cpu", "282 GB, take 564 GB in the memory of this node, which has 64 GB, with 2 of the ranks"),
        ({"parallel": "fsdp"}, True, "cpu", "take 282 GB"),
        ({"parallel": "fsdp"}, False, "cpu", "choose a smaller model, or define initialize(name, weight)"),
        ({"parallel": "ddp"}, False, "cuda", "take 564 GB"),
        ({"parallel": "fsdp"}, True, "cuda", None),
    ],
)
def test_weights_beyond_the_memory_of_the_node_are_refused(monkeypatch, options, is_created_in_place, device, refusal):
    monkeypatch.setattr(materialize, "read_host", lambda: Host("node", total_bytes=64 * 10**9))
    settings = Settings("decoder", device=device, **options)
    context = RankContext(torch, settings, Job(world_size=2, local_world_size=2), torch.device(device))
    refused = pytest.raises(UsageError, match=re.escape(refusal)) if refusal else contextlib.nullcontext()
    with refused:
        materialize.check_host_memory(context, GB_282, is_created_in_place=is_created_in_place)


def test_matrices_that_do_not_split_evenly_are_refused(two_ranks):
    mesh = torch.distributed.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    network = two_ranks.model(two_ranks.Settings(heads=3, kv_heads=1, width=48))
    with pytest.raises(ValueError, match="1 kv_heads, 192 hidden units and a vocabulary of 512 do not split over 2"):
        two_ranks.tensor_parallel(network, mesh)


def test_a_workload_without_tensor_parallelism_is_refused(tmp_path, _forked_ranks):
    result = train(Settings("transformer", out=tmp_path, device="cpu", parallel="tp", gpus=2, sample_s=0.0))
    sentence = "transformer defines no tensor_parallel(network, mesh); use --parallel ddp or fsdp"
    assert result.status == "failed"
    assert sentence in result.error  # behind the rank that met it first


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"parallel": "tp", "precision": "fp16"}, "ranks would scale their gradients apart; use bf16"),
        ({"parallel": "tp", "cuda_graphs": True}, "--cuda-graphs works with --parallel none or ddp only"),
        ({"parallel": "ddp", "fsdp_wrap": "model"}, "--fsdp-wrap and --fsdp-reshard need --parallel fsdp"),
        ({"fsdp_reshard": "never"}, "--fsdp-wrap and --fsdp-reshard need --parallel fsdp"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        validate_settings(Settings("decoder", device="cuda", **options))
