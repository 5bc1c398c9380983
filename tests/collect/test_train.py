"""Every workload, in every way that a processor allows, ends in a run folder that can be asked and says what it did."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs_torch, torch
from tracelab.client import Lab
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings
from tracelab.collect.train import Result, train
from tracelab.collect.training import data_loading
from tracelab.collect.workloads import find_workload
from tracelab.ingest import pipeline

pytestmark = needs_torch

TINY = {
    "device": "cpu",
    "steps": 2,
    "warmup": 1,
    "profiler": "kineto",
    "shapes": True,
}
TRAINED = [
    (workload, parallel) for workload in ("image_classification", "transformer") for parallel in ("none", "ddp", "fsdp")
]
WINDOWS = {"none": "step", "ddp": "all", "fsdp": "forward"}
RANKS = {"none": 1, "ddp": 2, "fsdp": 2}

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, _forked_ranks: None) -> Run:
    """Runs of this module, each made once."""
    out, made = tmp_path_factory.mktemp("runs"), {}

    def once(workload: str, **options: Any) -> Result:
        key = json.dumps([workload, options], sort_keys=True, default=str)
        if key not in made:
            tiny = TINY | ({"batch_size": 2} if find_workload(workload).trains else {})
            made[key] = train(Settings(workload, **tiny | {"out": out, "run": f"run{len(made)}"} | options))
        return made[key]

    return once


def trained(run: Run, workload: str, parallel: str) -> Result:
    gpus = {} if parallel == "none" else {"gpus": RANKS[parallel]}
    return run(workload, parallel=parallel, window=WINDOWS[parallel], memory=parallel == "none", **gpus)


def described(result: Result) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((result.folder / "run.json").read_text())
    return content


def lines(result: Result, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (result.folder / name).read_text().splitlines()]


def events(result: Result, name: str = "rank0.pt.trace.json.gz") -> list[dict[str, Any]]:
    content = json.loads(gzip.decompress((result.folder / name).read_bytes()))
    return [event for event in content["traceEvents"] if event.get("ph") == "X"]


def names(result: Result, name: str = "rank0.pt.trace.json.gz") -> Counter[str]:
    return Counter(event["name"] for event in events(result, name))


@pytest.fixture(scope="module")
def asked(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Result], Lab]:
    """A store of one run folder."""

    def lab(result: Result) -> Lab:
        store = tmp_path_factory.mktemp("lab")
        report = pipeline.ingest([result.folder], store)
        assert report.exit_code == 0, [file.message for file in report.files]
        return Lab(store)

    return lab


@pytest.mark.parametrize(("workload", "parallel"), TRAINED)
def test_a_workload_trains_under_every_parallelism(run: Run, workload: str, parallel: str) -> None:
    result = trained(run, workload, parallel)
    content = described(result)
    assert (result.status, result.error) == ("ok", None)
    assert (content["status"], content["world_size"], content["gpus"]) == ("ok", RANKS[parallel], 0)
    assert not list(result.folder.glob(".*"))


@pytest.mark.parametrize(("workload", "parallel"), TRAINED)
def test_each_rank_writes_its_steps(run: Run, workload: str, parallel: str) -> None:
    result = trained(run, workload, parallel)
    for rank in range(RANKS[parallel]):
        header, *rows = lines(result, f"steps.rank{rank}.jsonl")
        assert header == {"tracelab": "steps/1", "run": result.folder.name, "rank": rank}
        told = [(row["phase"], row["epoch"], row["step"], row["samples"]) for row in rows]
        assert told == [("warmup", None, 0, 2), ("train", 0, 0, 2), ("train", 0, 1, 2), ("epoch", 0, None, 4)]
        assert all(row["dur_ns"] > row["data_wait_ns"] > 0 and row["loss"] > 0 for row in rows)
        assert rows[-1]["dur_ns"] >= rows[1]["dur_ns"] + rows[2]["dur_ns"]
        assert rows[-1]["loss"] == pytest.approx((rows[1]["loss"] + rows[2]["loss"]) / 2)


@pytest.mark.parametrize("workload", ["image_classification", "transformer"])
def test_a_window_of_steps_holds_them_and_not_the_warm_up(run: Run, workload: str) -> None:
    seen = names(trained(run, workload, "none"))
    steps = {name: count for name, count in seen.items() if name.startswith("ProfilerStep")}
    assert (steps, seen["forward"], seen["backward"], seen["optimizer"]) == (
        {"ProfilerStep#1": 1, "ProfilerStep#2": 1},
        2,
        2,
        2,
    )


def test_what_the_harness_writes_down_is_no_part_of_a_recorded_step(run: Run) -> None:
    seen = names(trained(run, "transformer", "none"))
    batches, blocks = 2 * 2, 2 * 2  # tokens and successors; backward passes of `unbind`: no losses to be fetched
    assert seen["aten::stack"] == batches + blocks


@pytest.mark.parametrize("workload", ["image_classification", "transformer"])
def test_a_window_of_the_whole_run_holds_its_beginning(run: Run, workload: str) -> None:
    seen = names(trained(run, workload, "ddp"), "rank1.pt.trace.json.gz")
    assert [seen[f"ProfilerStep#{number}"] for number in range(4)] == [1, 1, 1, 0]
    assert seen["gloo:all_reduce"] > 0


@pytest.mark.parametrize("workload", ["image_classification", "transformer"])
def test_a_window_of_forward_passes_is_a_file_each_without_a_backward_pass(run: Run, workload: str) -> None:
    result = trained(run, workload, "fsdp")
    files = sorted(path.name for path in result.folder.glob("rank0*.json.gz"))
    assert files == ["rank0.step1.pt.trace.json.gz", "rank0.step2.pt.trace.json.gz"]
    seen = names(result, files[0])
    assert (seen["ProfilerStep#1"], seen["forward"], seen["backward"], seen["optimizer"]) == (1, 1, 0, 0)


def test_a_run_folder_answers(run: Run, asked: Callable[[Result], Lab]) -> None:
    result = trained(run, "image_classification", "none")
    lab = asked(result)
    name = result.folder.name
    convolutions = [row for row in lab.query("op_summary").to_pylist() if row["op"] == "aten::conv2d"]
    assert [row["calls"] for row in convolutions] == [40]  # ResNet-18 has 20, and two steps were recorded
    assert {row["step"] for row in lab.query("step_breakdown").to_pylist()} == {1, 2}
    (peak,) = lab.query("memory_peak").to_pylist()
    assert (peak["run"], peak["peak_bytes"] > 44_726_568 // 4) == (name, True)


def test_a_run_folder_is_one_run_with_what_was_varied(run: Run, asked: Callable[[Result], Lab]) -> None:
    result = trained(run, "image_classification", "ddp")
    lab = asked(result)
    (row,) = lab.sql("select * from runs").to_pylist()
    known = {name: row[name] for name in ("run", "workload", "model", "batch_size", "global_batch_size", "parallelism")}
    assert known == {
        "run": result.folder.name,
        "workload": "image_classification",
        "model": "resnet18",
        "batch_size": 2,
        "global_batch_size": 4,
        "parallelism": "ddp",
    }
    assert (row["parameters"], row["parameter_bytes"], row["status"]) == (11_181_642, 44_726_568, "ok")
    steps = lab.sql(
        "select rank, count(*) as n from steps where phase = 'train' group by rank order by rank"
    ).to_pylist()
    assert steps == [{"rank": 0, "n": 2}, {"rank": 1, "n": 2}]


@pytest.mark.parametrize(
    ("workload", "set_", "classes"),
    [("image_classification", {}, 10), ("image_classification", {"classes": "100"}, 100),
     ("transformer", {"vocabulary": "64"}, 64)],
)  # fmt: skip
def test_a_run_states_among_how_many_classes_it_would_guess(
    run: Run, asked: Callable[[Result], Lab], workload: str, set_: dict[str, str], classes: int
) -> None:
    result = run(workload, profiler="none", shapes=False, set=set_)
    assert described(result)["classes"] == classes
    (row,) = asked(result).query("training_health").to_pylist()
    assert (row["classes"], row["guessing_loss"]) == (classes, pytest.approx(math.log(classes)))


def test_products_of_known_size_have_their_flops_in_the_answer(run: Run, asked: Callable[[Result], Lab]) -> None:
    result = run("gemm", flops=True, set={"size": "48", "repeats": "3"})
    truth = described(result)["truth"]
    (row,) = json.loads((result.folder / "ops.rank0.json").read_text())["ops"]
    assert truth == {"products": 3, "flop": 2 * 48**3 * 3}
    assert (row["name"], row["calls"], row["flop"]) == ("aten::mm", 6, 2 * truth["flop"])  # two steps
    lab = asked(result)
    summed = lab.sql("select kind, name, calls, flop from summaries").to_pylist()
    assert summed == [{"kind": "key_averages", "name": "aten::mm", "calls": 6, "flop": 2.0 * truth["flop"]}]
    products = [op for op in lab.query("op_summary").to_pylist() if op["op"] == "aten::mm"]
    assert [op["calls"] for op in products] == [2 * truth["products"]]


def test_a_triad_of_known_size_moves_its_bytes(run: Run) -> None:
    result = run("triad", set={"elements": "1000", "repeats": "5"})
    truth = described(result)["truth"]
    added = [event["args"] for event in events(result) if event["name"] == "aten::add"]
    shapes = [(each["Input Dims"][0], each["Input type"][0]) for each in added]
    assert truth == {"triads": 5, "flop": 10_000, "size_bytes": 120_000}
    assert shapes == [([1000], "double")] * 2 * truth["triads"]


def test_a_triad_of_known_size_has_its_flops_in_the_answer(run: Run, asked: Callable[[Result], Lab]) -> None:
    result = run("triad", flops=True, set={"elements": "1000", "repeats": "5"})
    flop = 2 * described(result)["truth"]["flop"]  # two steps
    lab = asked(result)
    assert flop == 2 * 5 * 1000 * 2  # a product and a sum an element
    assert lab.sql("select sum(flop) as flop from summaries").to_pylist() == [{"flop": flop}]
    assert [row["flop"] for row in lab.query("sweep_flop").to_pylist()] == [flop]


def test_a_sum_without_a_factor_is_one_operation_an_element(run: Run, tmp_path: Path) -> None:
    workload = tmp_path / "summed.py"
    workload.write_text("""
from dataclasses import dataclass
import torch
@dataclass(frozen=True)
class Settings:
    elements: int = 1000
def workload(settings):
    a = torch.ones(settings.elements)
    return lambda: torch.add(a, a)
""")
    result = run(str(workload), flops=True)
    (row,) = json.loads((result.folder / "ops.rank0.json").read_text())["ops"]
    assert (row["name"], row["calls"], row["flop"]) == ("aten::add", 2, 2000)


def test_copies_of_known_sizes_are_the_copies_of_the_trace(run: Run) -> None:
    result = run("copies", set={"sizes": "4096,65536", "repeats": "2"})
    truth = described(result)["truth"]
    sizes = [event["args"]["Input Dims"][0][0] for event in events(result) if event["name"] == "aten::copy_"]
    assert truth == {"copies": 4, "size_bytes": 139_264}
    assert (len(sizes), sum(sizes)) == (2 * 2 * truth["copies"], 2 * 2 * truth["size_bytes"])  # steps, directions


def test_collectives_of_known_size_are_those_of_the_trace(run: Run) -> None:
    result = run("collectives", parallel="ddp", gpus=2, set={"elements": "1024", "repeats": "3"})
    truth = described(result)["truth"]
    for rank in (0, 1):
        seen = events(result, f"rank{rank}.pt.trace.json.gz")
        broadcasts = [each["args"]["Input Dims"] for each in seen if each["name"] == "c10d::broadcast_"]
        assert (len(broadcasts), str(broadcasts[0]).count("1024")) == (2 * truth["calls"], 1)
        assert sum(each["name"] == "c10d::allreduce_" for each in seen) == 2 * truth["calls"]


@pytest.mark.parametrize(
    ("workload", "options", "sentence"),
    [
        ("streams", {}, "streams runs on cuda only; use --device cuda"),
        ("gemm", {"window": "backward"}, "gemm has no backward pass; use --window step"),
    ],
)
def test_what_a_workload_cannot_do_is_refused_with_a_reason(
    run: Run, workload: str, options: dict[str, str], sentence: str
) -> None:
    result = run(workload, **options)
    assert (result.status, result.error) == ("failed", sentence)


def test_a_damaged_data_set_is_answered_with_what_can_be_done(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"half")
    result = run("image_classification", profiler="none", shapes=False, data="cifar10", data_root=tmp_path)
    sentence = "ValueError: cifar-10-batches-py in --data-root is damaged or incomplete; unpack it again"
    assert (result.status, result.error) == ("failed", sentence)


@pytest.mark.parametrize("batch_size", [1, 2, 8, 32])
@pytest.mark.parametrize("held_out", [1, 2, 21])
def test_ranks_validate_every_sample_once_in_as_many_batches(held_out: int, batch_size: int) -> None:
    asked = Settings("transformer", batch_size=batch_size, device="cpu")
    jobs = [Job(rank=rank, local_rank=rank, world_size=2, local_world_size=2) for rank in (0, 1)]
    parts = [data_loading.validation_data(torch, list(range(held_out)), asked, job) for job in jobs]
    batches = [[batch.tolist() for batch in part.loader] for part in parts]
    counted = [batch for part, own in zip(parts, batches, strict=True) for batch in own[: part.batches]]
    seen = [sample for batch in counted for sample in batch]
    assert (sorted(seen), len(batches[0])) == (list(range(held_out)), len(batches[1]))


def test_every_held_out_sample_is_in_the_accuracy_of_several_ranks(run: Run, tmp_path: Path) -> None:
    workload = tmp_path / "held.py"
    workload.write_text("""
from dataclasses import dataclass
import torch
from torch.utils.data import TensorDataset
@dataclass(frozen=True)
class Settings:
    width: int = 1
def model(settings):
    return torch.nn.Linear(settings.width, 1)
def data(settings, *, train):
    place = torch.arange(8.0 if train else 21.0)
    return TensorDataset(place[:, None], place)
def workload(network):
    return lambda place, at: (network(place).square().mean(), (at == 20).float().mean())
""")
    result = run(str(workload), profiler="none", shapes=False, parallel="ddp", gpus=2, validate=True, steps=None)
    assert result.status == "ok", result.error
    written = [row for rank in (0, 1) for row in lines(result, f"steps.rank{rank}.jsonl")[1:]]
    rows = [row for row in written if row["phase"] == "validate"]
    assert sum(row["samples"] for row in rows) == 21
    assert sum(row["samples"] * row["accuracy"] for row in rows) == pytest.approx(1)  # the last one alone is right


def test_epochs_validation_and_loaders_at_work(run: Run) -> None:
    options = {"epochs": 2, "data_fraction": 0.0001, "validate": True, "workers": 1, "precision": "bf16"}
    result = run("image_classification", profiler="none", shapes=False, model="squeezenet1_1", **options)
    _, *rows = lines(result, "steps.rank0.jsonl")
    told = [(row["phase"], row["epoch"], row["step"], row["samples"]) for row in rows]
    epochs = [
        [("train", epoch, 0, 2), ("train", epoch, 1, 2), ("epoch", epoch, None, 4), ("validate", epoch, None, 4)]
        for epoch in (0, 1)
    ]
    assert (result.status, told) == ("ok", [("warmup", None, 0, 2), *epochs[0], *epochs[1]])
