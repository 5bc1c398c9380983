"""Runs of `collect train` on a node with GPUs, under the fake CUDA: what each feature asks of the device, in order."""

import pytest

from tests.collect import fake_cuda, gpu_node
from tests.needs import needs_torch
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.training import worker
from tracelab.errors import UsageError

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_ranks")]


@pytest.fixture
def node(tmp_path, monkeypatch):
    return gpu_node.open_node(tmp_path, monkeypatch)


def test_each_rank_computes_on_its_own_gpu(node):
    run = node.train(parallel="ddp", gpus=2)
    assert (run.status, run.json["gpus"], run.json["gpu"]) == ("ok", 2, "NVIDIA H100 80GB HBM3")
    assert [run.json["ranks"][str(rank)]["gpus"] for rank in (0, 1)] == [
        [{"device": rank, "uuid": f"GPU-aaaaaaaa-0000-0000-0000-00000000000{rank}", "bus_id": f"00000000:4{rank}:00.0"}]
        for rank in (0, 1)
    ]
    assert [run.calls(rank)[0] for rank in (0, 1)] == ["cuda.set_device 0", "cuda.set_device 1"]


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_replicas_of_data_parallel_compute_in_the_precision_of_the_run(node, precision):
    run = node.train(parallel="dp", gpus=2, precision=precision)
    assert (run.status, run.error) == ("ok", None)
    dtypes = {line.partition(" ")[2] for line in run.calls() if line.startswith("autocast")}
    assert dtypes == {"fp32": set(), "fp16": {"float16"}, "bf16": {"bfloat16"}}[precision]


def test_channels_last_weights_are_not_sharded(node):
    with pytest.raises(UsageError, match="--channels-last and --parallel fsdp exclude each other"):
        node.train("image_classification", parallel="fsdp", gpus=2, channels_last=True)


@pytest.mark.parametrize("parallel", ["none", "ddp"])
def test_a_graph_without_a_whole_batch_is_refused(node, parallel):
    run = node.train(
        cuda_graphs=True,
        batch_size=8,
        data_fraction=0.005,
        parallel=parallel,
        gpus=None if parallel == "none" else 2,
        timeout_s=20,
    )
    share = {"none": 5, "ddp": 3}[parallel]  # of 1,024 sequences
    assert run.status == "failed"
    assert f"a rank's share of the data is {share} samples, fewer than --batch-size 8" in run.error


def test_an_epoch_of_fewer_steps_than_requested_is_noted(node):
    run = node.train(batch_size=2, data_fraction=0.005, steps=10, profiler="kineto", active=5)
    assert (run.status, len([row for row in run.rows("steps") if row["phase"] == "train"])) == ("ok", 3)
    assert run.json["short_epoch"] == "an epoch has 3 steps, fewer than --steps 10: a rank has 5 samples"
    assert (run.json["ranks"]["0"]["steps"], run.json["ranks"]["0"]["recorded_steps"]) == (3, 3)
    assert run.json["ranks"]["0"]["note"] == "only 3 of 5 steps were recorded before the run ended"
    assert node.train(steps=10).json.get("short_epoch") is None


def test_a_run_that_ends_before_its_window_is_an_error(node):
    run = node.train(batch_size=2, data_fraction=0.005, steps=10, profiler="kineto", wait=3)
    reason = "the run ended after 4 steps, warm-up included, before the window opened at step 4; "
    assert (run.status, run.error) == ("profiler_error", f"{reason}lower --wait, or use more data")


def test_more_ranks_than_gpus_are_refused(node, monkeypatch):
    monkeypatch.setenv(fake_cuda.GPUS, "1")
    run = node.train("gemm", parallel="ddp", gpus=2)
    assert run.status == "failed"
    assert "2 processes on this node, and each sees 1 GPU; start one process per GPU" in run.error


@pytest.mark.parametrize(
    ("launcher", "ranks", "visible", "ordinals"),
    [
        (None, 2, 2, [0, 1]),
        ("torchrun", 2, 4, [0, 1]),
        ("srun", 4, 1, [0, 0, 0, 0]),
        ("srun", 4, 4, [0, 1, 2, 3]),
    ],
)
def test_a_rank_uses_the_gpu_of_its_local_rank_or_the_one_it_sees(launcher, ranks, visible, ordinals):
    jobs = [Job(rank, rank, ranks, ranks, launcher) for rank in range(ranks)]
    assert [worker._choose_gpu(job, visible) for job in jobs] == ordinals


@pytest.mark.parametrize(("launcher", "ranks", "visible"), [("torchrun", 2, 1), ("srun", 4, 2), (None, 3, 2)])
def test_a_gpu_is_not_shared_by_ranks(launcher, ranks, visible):
    with pytest.raises(UsageError, match="start one process per GPU"):
        worker._choose_gpu(Job(0, 0, ranks, ranks, launcher), visible)


DIES = """import os, signal
from dataclasses import dataclass
import torch
from torch import distributed


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"


def workload(settings):
    tensor = torch.ones(4, device=settings.device)
    steps = []

    def step():
        steps.append(1)
        if distributed.get_rank() == 1 and len(steps) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        distributed.all_reduce(tensor)

    return step
"""


def test_a_killed_rank_is_named_and_not_the_one_that_lost_it(node, tmp_path):
    (tmp_path / "dies.py").write_text(DIES)
    run = node.train(str(tmp_path / "dies.py"), parallel="ddp", gpus=2, steps=5)
    assert (run.status, run.error) == ("failed", "rank 1: killed by SIGKILL")
    assert "peer" in run.json["ranks"]["0"]["error"]


def marks(run):
    """Return the ranges and logged ends of the steps of a run, and what the profiler did between them."""
    kept = ("mark ProfilerStep", "kineto.", "profiler.", "host-wait", _END)
    lines = [line for line in run.calls() if line.startswith(kept)]
    return ["end" if line == _END else line.removeprefix("mark Profiler") for line in lines]


_LAST_STOP = "kineto.stop_trace detaches CUPTI"
_END = "cuda.reset_peak_memory_stats"
"""Call with which each step is logged."""


@pytest.mark.parametrize(
    ("options", "order"),
    [
        (
            {"warmup": 2, "active": 2},
            ["end", "kineto.prepare_trace", "end", "host-wait synchronize", "kineto.start_trace", "Step#2",
             "end", "Step#3", "host-wait synchronize", _LAST_STOP, "end"],
        ),
        (
            {"warmup": 1, "active": 1, "steps": 2},
            ["kineto.prepare_trace", "end", "host-wait synchronize", "kineto.start_trace", "Step#1",
             "host-wait synchronize", _LAST_STOP, "end", "end"],
        ),
        (
            {"warmup": 0, "active": 1, "wait": 1, "cycles": 2, "steps": 4},
            ["kineto.prepare_trace", "end", "host-wait synchronize", "kineto.start_trace", "Step#1",
             "host-wait synchronize", "kineto.stop_trace", "end", "kineto.prepare_trace", "end",
             "host-wait synchronize", "kineto.start_trace", "Step#3", "host-wait synchronize", _LAST_STOP,
             "end"],
        ),
    ],
)  # fmt: skip
def test_a_step_passes_between_preparing_kineto_and_recording(node, options, order):
    run = node.train(profiler="kineto", **options)
    assert (run.status, run.error) == ("ok", None)
    assert marks(run) == order


def test_kineto_is_prepared_at_once_where_no_step_precedes_the_window(node):
    run = node.train(profiler="kineto", warmup=0, active=1, steps=1)
    assert marks(run)[:3] == ["kineto.prepare_trace", "host-wait synchronize", "kineto.start_trace"]


def test_each_step_is_marked_with_what_the_profiler_did(node):
    options = {"profiler": "kineto", "warmup": 2, "active": 1, "wait": 1, "steps": 4}
    recorded, attached = node.train(**options), node.train(**options, keep_attached=True, run="attached")
    states = [(row["phase"], row["step"], row["profiler_state"]) for row in recorded.rows("steps")]
    assert states == [
        ("warmup", 0, "off"),
        ("warmup", 1, "off"),
        ("train", 0, "attached"),
        ("train", 1, "recording"),
        ("train", 2, "off"),
        ("train", 3, "off"),
        ("epoch", None, None),
    ]
    assert [row["profiler_state"] for row in attached.rows("steps")[4:6]] == ["attached"] * 2
    alone = node.train()
    assert {row["profiler_state"] for row in alone.rows("steps") if row["step"] is not None} == {"off"}


LOADS = """import time
from dataclasses import dataclass
import torch
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.ones(4), 0


def model(settings):
    return torch.nn.Linear(4, 2)


def data(settings, *, train):
    return Slow()


def workload(network):
    def step(inputs, labels):
        scores = network(inputs)
        for _ in range(80):
            scores = scores + 0
        return cross_entropy(scores, labels), scores.argmax(1).eq(labels).float().mean()

    return step
"""


@pytest.mark.parametrize(("work_ms", "waits"), [(0.0, True), (1.0, False)])
def test_a_gpu_waits_for_data_only_while_it_has_nothing_else_to_do(node, tmp_path, monkeypatch, work_ms, waits):
    monkeypatch.setenv(fake_cuda.WORK_MS, str(work_ms))
    (tmp_path / "loads.py").write_text(LOADS)
    run = node.train(str(tmp_path / "loads.py"), batch_size=1, warmup=0, steps=4)
    steps = [row for row in run.rows("steps") if row["phase"] == "train"]
    assert all(0 <= row["data_wait_ns"] <= row["dur_ns"] for row in steps)
    assert [row["data_wait_ns"] > 15_000_000 for row in steps[1:]] == [waits] * 3
    assert [row["dur_ns"] > 80_000_000 for row in steps[1:]] == [not waits] * 3


def test_steps_and_the_gaps_between_them_add_up_to_the_epoch(node):
    *steps, epoch = node.train(warmup=0, steps=4).rows("steps")
    assert (steps[0]["gap_ns"], min(row["gap_ns"] for row in steps[1:]) > 0) == (None, True)
    assert epoch["gap_ns"] == sum(row["gap_ns"] for row in steps[1:])
    covered_ns = sum(row["dur_ns"] for row in steps) + epoch["gap_ns"]
    assert 0 <= epoch["dur_ns"] - covered_ns < 0.2 * epoch["dur_ns"]


def test_a_gap_is_without_what_the_profiler_took(node):
    run = node.train(profiler="kineto", warmup=0, active=1, steps=3)
    epoch = run.rows("steps")[-1]
    assert epoch["gap_ns"] < epoch["dur_ns"]
    assert all(0 <= (row["gap_ns"] or 0) < 50_000_000 for row in run.rows("steps"))


def test_the_calls_of_a_step_are_events_around_it_and_reads_of_memory_after_it(node):
    run = node.train(steps=1, warmup=0)
    begin = run.calls().index("Event.record")
    assert run.calls()[begin:] == [
        "Event.record",  # the step begins
        "Event.record",  # it has its data
        "Event.record",  # it ends
        "cuda.max_memory_allocated",
        "cuda.max_memory_reserved",
        "cuda.mem_get_info",
        "cuda.reset_peak_memory_stats",
        "pinned",  # loss and accuracy
        "Event.record",
        "Event.elapsed_time",
        "Event.elapsed_time",
    ]


def test_the_memory_of_a_replayed_graph_counts_the_pool_that_it_writes_to(node):
    peaks = node.train(cuda_graphs=True, warmup=0, steps=3).rows("memory_peaks")
    held = fake_cuda.ALLOCATED_BYTES + fake_cuda.POOL_BYTES  # and what is allocated outside of the graph
    assert all(held <= row["allocated_bytes"] < held + 100_000 for row in peaks[1:])
    (without,) = {row["reserved_bytes"] for row in node.train().rows("memory_peaks")}
    assert without == fake_cuda.RESERVED_BYTES


SEES = """from dataclasses import dataclass
import torch
from torch.nn.functional import linear, mse_loss


@dataclass(frozen=True)
class Settings:
    gathered: str = "float32"
    computed: str = "float32"


class Sees(torch.nn.Linear):
    def __init__(self, settings):
        super().__init__(4, 4)
        self.expected = (settings.gathered, settings.computed)

    def forward(self, x):
        product = linear(x, self.weight)
        seen = tuple(str(each.dtype).removeprefix("torch.") for each in (self.weight, product))
        assert seen == self.expected, seen
        return product


def model(settings):
    return Sees(settings)


def data(settings, *, train):
    return torch.utils.data.TensorDataset(torch.ones(64, 4), torch.ones(64, 4))


def workload(network):
    def step(inputs, targets):
        scores = network(inputs)
        assert scores.dtype == (torch.bfloat16 if torch.is_autocast_enabled("cuda") else torch.float32), scores.dtype
        loss = mse_loss(scores.float(), targets)
        return loss, loss.detach()

    return step
"""


@pytest.mark.parametrize(("fsdp_precision", "gathered"), [("autocast", "float32"), ("policy", "bfloat16")])
def test_fsdp_gathers_weights_in_fp32_or_by_its_policy_in_the_lower_precision(node, tmp_path, fsdp_precision, gathered):
    (tmp_path / "sees.py").write_text(SEES)
    seen = {"gathered": gathered, "computed": "bfloat16"}
    options = {"parallel": "fsdp", "gpus": 2, "precision": "bf16", "fsdp_precision": fsdp_precision}
    run = node.train(str(tmp_path / "sees.py"), set=seen, **options)
    assert (run.status, run.error) == ("ok", None)


@pytest.mark.parametrize("options", [{"parallel": "ddp", "precision": "bf16"}, {"parallel": "fsdp"}])
def test_a_policy_of_fsdp_needs_fsdp_and_a_lower_precision(node, options):
    with pytest.raises(UsageError, match="--fsdp-precision policy needs --parallel fsdp and --precision fp16 or bf16"):
        node.train(gpus=2, fsdp_precision="policy", **options)


def test_a_batch_that_leaves_a_replica_without_work_is_refused(node):
    with pytest.raises(UsageError, match="--batch-size 1 leaves some without work"):
        node.train(parallel="dp", gpus=2, batch_size=1)


def test_collectives_of_one_process_are_refused(node):
    run = node.train("collectives", parallel="none")
    assert (run.status, run.error) == ("failed", "collectives needs several ranks; use --parallel ddp --gpus 2")


def calls_of(run, *names, rank=0):
    """Return the calls of a rank whose names begin so, in order."""
    return [line for line in run.calls(rank) if line.startswith(names)]


def test_a_graph_is_captured_once_and_replayed_in_each_step(node):
    run = node.train(cuda_graphs=True, warmup=1, steps=2, validate=True)
    assert calls_of(run, "cuda.make_graphed", "graph.replay", "cuda.memory_snapshot") == [
        "cuda.make_graphed_callables",
        "graph.replay",
        "cuda.memory_snapshot",
        "graph.replay",
        "graph.replay",
    ]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_chooses_its_gpu_before_it_joins_the_others(node, rank):
    run = node.train(parallel="ddp", gpus=2)
    assert calls_of(run, "cuda.set_device", "nccl.init", rank=rank) == [
        f"cuda.set_device {rank}",
        "nccl.init with a device",
    ]


@pytest.mark.parametrize("memory", [False, True])
def test_a_recorded_window_holds_no_call_of_the_collector_but_events_and_peaks(node, memory):
    calls = node.train(profiler="kineto", warmup=1, active=2, steps=3, memory=memory).calls()
    window = calls[calls.index("kineto.start_trace") + 1 : calls.index(_LAST_STOP)]
    step = ["mark forward", "mark backward", "mark optimizer"]
    events = ["Event.record", "Event.record", *step, "Event.record"]
    peaks = ["cuda.max_memory_allocated", "cuda.max_memory_reserved", "cuda.reset_peak_memory_stats"]
    assert window == [
        *("mark ProfilerStep#1", *events, *peaks),
        *("mark ProfilerStep#2", *events),
        *("cuda.synchronize", "host-wait synchronize"),
    ]
