"""Accumulated batches train as one large batch does, and count as one step."""

import json
import math
import sys

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.process.cancellation import Cancellation
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.profiling.capture import NoProfiler, StepCapture
from tracelab.collect.profiling.schedule import build_schedule
from tracelab.collect.settings import Settings, validate_settings
from tracelab.collect.train import train
from tracelab.collect.training import data_loading
from tracelab.collect.training.loop import PreparedWorkload, TrainingLoop
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.step_log import StepLog
from tracelab.collect.workloads import find_workload, load_module
from tracelab.errors import UsageError

pytestmark = needs_torch


def read_rows(folder, rank=0):
    return [json.loads(line) for line in (folder / f"steps.rank{rank}.jsonl").read_text().splitlines()[1:]]


def trained(folder, monkeypatch, samples=1024, **options):
    """Train a decoder in this process, and return its weights and the rows of its steps."""
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path])
    settings = Settings("decoder", **{"device": "cpu", "warmup": 0, "learning_rate": 0.5} | options)
    module = load_module(find_workload("decoder"))
    own = module.Settings(context=8)
    torch.manual_seed(0)
    network = module.model(own)
    data = torch.utils.data.Subset(module.data(own, train=True), range(samples))
    context = RankContext(torch, settings, Job(), torch.device("cpu"))
    work = PreparedWorkload(
        module.workload(network),
        network,
        torch.optim.SGD(network.parameters(), lr=settings.learning_rate),
        torch.amp.GradScaler("cpu", enabled=False),
        data_loading.training_loader(torch, data, settings, Job()),
    )
    log = StepLog(context, folder)
    TrainingLoop(context, work, StepCapture(build_schedule(settings), NoProfiler(), Cancellation()), log).run()
    log.close()
    return [each.detach().clone() for each in network.parameters()], read_rows(folder)


def test_four_batches_of_two_train_as_one_of_eight(tmp_path, monkeypatch):
    weights, rows = trained(tmp_path / "a", monkeypatch, batch_size=2, accumulate=4, steps=3)
    expected, whole = trained(tmp_path / "b", monkeypatch, batch_size=8, steps=3)
    for each, other in zip(weights, expected, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-4, atol=1e-6)
    figures = [(row["phase"], row["step"], row["samples"]) for row in rows]
    assert figures == [("train", 0, 8), ("train", 1, 8), ("train", 2, 8), ("epoch", None, 24)]
    assert figures == [(row["phase"], row["step"], row["samples"]) for row in whole]
    for name in ("loss", "accuracy"):
        assert [row[name] for row in rows] == pytest.approx([row[name] for row in whole], rel=1e-4)
    assert all(row["dur_ns"] > row["data_wait_ns"] > 0 for row in rows)


def test_the_rest_of_an_epoch_weighs_each_sample_alike(tmp_path, monkeypatch):
    """Of 11 samples in batches of 2, two of which make a step, the last step has batches of 2 and 1."""
    options = {"samples": 11, "epochs": 2}
    weights, rows = trained(tmp_path / "a", monkeypatch, batch_size=2, accumulate=2, **options)
    expected, _ = trained(tmp_path / "b", monkeypatch, batch_size=4, **options)
    for each, other in zip(weights, expected, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-4, atol=1e-6)
    assert [row["samples"] for row in rows] == [4, 4, 3, 11, 4, 4, 3, 11]


def test_a_warm_up_longer_than_the_data_starts_it_again(tmp_path, monkeypatch):
    _, rows = trained(tmp_path / "a", monkeypatch, batch_size=2, accumulate=2, samples=5, warmup=5, steps=1)
    assert [row["samples"] for row in rows if row["phase"] == "warmup"] == [4, 1, 4, 1, 4]


def test_ranks_average_gradients_once_per_step(tmp_path, _forked_ranks):
    losses = {}
    for accumulate, batch_size in ((1, 4), (2, 2)):
        result = train(
            Settings(
                "decoder", out=tmp_path, run=f"a{accumulate}", device="cpu", parallel="ddp", gpus=2, steps=3, warmup=0,
                batch_size=batch_size, accumulate=accumulate, set={"context": "8"}, learning_rate=0.5, active=3,
                profiler="kineto", sample_s=0.0,
            )
        )  # fmt: skip
        assert result.status == "ok", result.error
        run = json.loads((result.folder / "run.json").read_text())
        assert (run["batch_size"], run["global_batch_size"], run["axes"]["accumulate"]) == (batch_size, 8, accumulate)
        losses[accumulate] = [row["loss"] for rank in (0, 1) for row in read_rows(result.folder, rank)]
        losses[accumulate, "reduced"] = count_all_reduces(result.folder)
    assert losses[2] == pytest.approx(losses[1], rel=1e-4)
    assert losses[2, "reduced"] == losses[1, "reduced"] > 0


def count_all_reduces(folder):
    import gzip

    content = json.loads(gzip.decompress((folder / "rank0.pt.trace.json.gz").read_bytes()))
    return sum(event.get("name") == "gloo:all_reduce" for event in content["traceEvents"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cuda_graphs": True}, "a replay overwrites the gradients of the batch before it"),
        ({"window": "forward"}, "record one pass per step and --accumulate runs several"),
        ({"window": "backward"}, "record one pass per step and --accumulate runs several"),
    ],
)
def test_accumulation_is_refused_where_it_has_no_meaning(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        validate_settings(Settings("decoder", accumulate=2, **options))


@pytest.mark.parametrize("accumulate", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("samples", [1, 2, 11, 12])
def test_sizes_of_batches_are_those_of_the_loader(samples, accumulate):
    settings = Settings("decoder", batch_size=2, accumulate=accumulate, device="cpu")
    loader = data_loading.training_loader(torch, list(range(samples)), settings, Job())
    steps = data_loading.count_steps(loader, settings)
    sizes = [data_loading.batch_sizes(loader, settings, number) for number in range(2 * steps)]
    assert steps == math.ceil(math.ceil(samples / 2) / accumulate)
    assert [size for step in sizes[:steps] for size in step] == [len(batch) for batch in loader]
    assert sizes[steps:] == sizes[:steps]
    assert data_loading.count_batches(loader, settings, 2 * steps - 1) == sum(map(len, sizes[: 2 * steps - 1]))
