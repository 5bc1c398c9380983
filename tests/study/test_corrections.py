"""What rows set right comes out of runs as their formulas say; each number here is worked out by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.resources import DATA
from tracelab.study import desk, example, rows
from tracelab.study.answer import Answer, answered

Cell = Mapping[str, object]
Tables = Mapping[str, Sequence[Mapping[str, object]]]


def of_tables(row: str, folder: Path, tables: Tables, *runs: str) -> Answer:
    with desk.opened(build_store(folder / "lab", tables)) as con:
        return answered(con, rows.find(row), runs)


def of_example(row: str) -> Answer:
    with example.store_of([rows.find(row)]) as store, desk.opened(store) as con:
        return answered(con, rows.find(row))


def cells(answer: Answer, **wanted: object) -> list[Cell]:
    found = answer.cells.to_pylist()
    return [cell for cell in found if all(cell[name] == value for name, value in wanted.items())]


def test_a_gpu_that_only_copies_is_not_busy(tmp_path: Path) -> None:
    kernel = {"name": "gemm", "device": 0, "stream": 7}
    tables = {
        "kernels": [kernel | {"start_ns": 0, "dur_ns": 100}, kernel | {"start_ns": 180, "dur_ns": 20}],
        "memcpys": [{"device": 0, "stream": 8, "start_ns": 90, "dur_ns": 60, "direction": "HtoD", "size_bytes": 1}],
    }
    (busy,) = cells(of_tables("S3-16", tmp_path, tables), run="r")
    assert (busy["corrected"], busy["claim"]) == (120 / 200, "of 200 ns; copies and fills alone 50 ns")


def test_how_busy_the_generated_ranks_are_is_what_their_generator_counted() -> None:
    truth = json.loads((DATA / "generated" / "truth.json").read_text("utf-8"))["ranks"]
    busy = {str(cell["setting"]): cell["corrected"] for cell in cells(of_example("S3-16"), run="generated-4rank-ddp")}
    assert busy == {
        f"rank {rank}, GPU {rank}": pytest.approx(each["busy_ns"] / each["window_ns"]) for rank, each in truth.items()
    }
    assert round(float(str(busy["rank 0, GPU 0"])), 4) == 0.9293


@pytest.mark.parametrize("parallelism", ["dp", "ddp"])
def test_a_broadcast_is_told_of_one_gpu_whether_each_has_a_process_or_not(tmp_path: Path, parallelism: str) -> None:
    ranks = {0: 0, 1: 0} if parallelism == "dp" else {0: 0, 1: 1}
    step = {"name": "ProfilerStep#0", "scope": "cpu", "tid": 1, "start_ns": 0, "dur_ns": 900}
    tables = {
        "runs": [{"model": "net", "batch_size": 4, "gpus": 2, "parallelism": parallelism, "parameter_bytes": 4000}],
        "annotations": [step | {"rank": rank} for rank in set(ranks.values())],
        "kernels": [
            {
                "rank": rank,
                "device": device,
                "name": "ncclDevKernel_Broadcast",
                "stream": 7,
                "start_ns": 0,
                "dur_ns": 90,
            }
            for device, rank in ranks.items()
        ],
        "collectives": [
            {"rank": rank, "device": device, "on": "kernel", "collective": "broadcast", "size_bytes": 4000}
            for device, rank in ranks.items()
        ],
    }
    answer = of_tables("S3-07", tmp_path, tables)
    found = {cell["quantity"]: cell["corrected"] for cell in cells(answer, run="r")}
    assert found["time of a step's broadcasts, each GPU"] == 90
    assert found["bytes of a step, device to device, each GPU"] == 4000


@pytest.mark.parametrize(("row", "dataset", "epoch_min"), [("S1-04", "cifar10", 2.0), ("S1-07", "cifar100", 2.0)])
def test_a_table_takes_a_run_on_any_card_with_the_memory_that_nvml_saw(
    tmp_path: Path, row: str, dataset: str, epoch_min: float
) -> None:
    run = {"model": "alexnet", "dataset": dataset, "gpu": "NVIDIA H200", "gpus": 1, "pretrained": True, "epochs": 1}
    step = {"epoch": 0, "start_ns": 0, "samples": 10}
    tables = {
        "runs": [run | {"sweep": "s", "batch_size": 10, "world_size": 1, "status": "ok"}],
        "steps": [
            step | {"phase": "train", "step": 0, "dur_ns": 60_000_000_000},
            step | {"phase": "epoch", "dur_ns": 120_000_000_000},
        ],
        "host_samples": [{"host": "h", "device": 0, "time_ns": 1, "used_bytes": 35, "total_bytes": 140}],
    }
    answer = of_tables(row, tmp_path, tables)
    found = {cell["quantity"]: (cell["machine"], cell["corrected"]) for cell in cells(answer, run="r")}
    assert found == {"time of an epoch": ("NVIDIA H200", epoch_min), "share of memory": ("NVIDIA H200", 0.25)}
    assert answer.verdict.endswith("; at hand an epoch takes 2 to 2 min in 1 runs.")


def test_table_four_tells_of_the_memory_that_no_other_table_has(tmp_path: Path) -> None:
    assert of_tables("S1-07", tmp_path, {"runs": [{}]}).verdict == (
        "No model is at chance; the shares of memory are right within 0.83 points (vgg16_bn: 90 % printed, 89.2 %); "
        "vgg16_bn takes 4.1 times the middle model's memory; resnet18 has 8.8 GB, where the other tables say 2.3 to 2.7."
    )
