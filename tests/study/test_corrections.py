"""What rows set right comes out of runs as their formulas say; each number here is worked out by hand."""

import json
from collections.abc import Mapping

import pytest

from tests.study.literal_rows import Tables, cells, evaluate, evaluate_example, join, row_state
from tracelab.resources import DATA


def test_a_gpu_that_only_copies_is_not_busy() -> None:
    kernel = {"name": "gemm", "device": 0, "stream": 7}
    tables: Tables = {
        "kernels": [kernel | {"start_ns": 0, "dur_ns": 100}, kernel | {"start_ns": 180, "dur_ns": 20}],
        "memcpys": [{"device": 0, "stream": 8, "start_ns": 90, "dur_ns": 60, "direction": "HtoD", "size_bytes": 1}],
    }
    (busy,) = cells(evaluate("S3-16", tables), run="r")
    assert (busy["corrected"], busy["claim"]) == (120 / 200, "of 200 ns; copies and memsets alone 50 ns")


def test_how_busy_the_generated_ranks_are_is_what_their_generator_counted() -> None:
    truth = json.loads((DATA / "generated" / "truth.json").read_text("utf-8"))["ranks"]
    busy = {
        str(cell["setting"]): cell["corrected"] for cell in cells(evaluate_example("S3-16"), run="generated-4rank-ddp")
    }
    assert busy == {
        f"rank {rank}, GPU {rank}": pytest.approx(each["busy_ns"] / each["window_ns"]) for rank, each in truth.items()
    }
    assert round(float(str(busy["rank 0, GPU 0"])), 4) == 0.9293


@pytest.mark.parametrize("parallelism", ["dp", "ddp"])
def test_a_broadcast_is_reported_of_one_gpu_whether_each_has_a_process_or_not(parallelism: str) -> None:
    ranks = {0: 0, 1: 0} if parallelism == "dp" else {0: 0, 1: 1}
    step = {"name": "ProfilerStep#0", "scope": "cpu", "tid": 1, "start_ns": 0, "dur_ns": 900}
    tables: Tables = {
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
            {"rank": rank, "device": device, "origin": "kernel", "collective": "broadcast", "size_bytes": 4000}
            for device, rank in ranks.items()
        ],
    }
    answer = evaluate("S3-07", tables)
    found = {cell["quantity"]: cell["corrected"] for cell in cells(answer, run="r")}
    assert found["time of a step's broadcasts, each GPU"] == 90
    assert found["bytes of a step, device to device, each GPU"] == 4000


@pytest.mark.parametrize(("row", "dataset", "epoch_min"), [("S1-04", "cifar10", 2.0), ("S1-07", "cifar100", 2.0)])
def test_a_table_takes_a_run_on_any_card_with_the_memory_that_nvml_saw(
    row: str, dataset: str, epoch_min: float
) -> None:
    run = {"model": "alexnet", "dataset": dataset, "gpu": "NVIDIA H200", "gpus": 1, "pretrained": True, "epochs": 1}
    step = {"epoch": 0, "start_ns": 0, "samples": 10}
    tables: Tables = {
        "runs": [run | {"sweep": "s", "batch_size": 10, "world_size": 1, "status": "ok"}],
        "steps": [
            step | {"phase": "train", "step": 0, "dur_ns": 60_000_000_000},
            step | {"phase": "epoch", "dur_ns": 120_000_000_000},
        ],
        "host_samples": [{"host": "h", "device": 0, "time_ns": 1, "used_bytes": 35, "total_bytes": 140}],
    }
    answer = evaluate(row, tables)
    found = {cell["quantity"]: (cell["machine"], cell["corrected"]) for cell in cells(answer, run="r")}
    assert found == {"time of an epoch": ("NVIDIA H200", epoch_min), "share of memory": ("NVIDIA H200", 0.25)}
    assert answer.verdict.endswith("; at hand an epoch takes 2 min in 1 run.")


def test_table_four_reports_the_memory_that_no_other_table_has() -> None:
    assert evaluate("S1-07", {"runs": [{}]}).verdict == (
        "No model is at chance; the shares of memory are right within 0.83 points (vgg16_bn: 90 % printed, 89.2 %); "
        "vgg16_bn takes 4.1 times the middle model's memory; resnet18 has 8.8 GB, where the other tables list 2.3 to "
        "2.7."
    )


TRAINED = {"sweep": "s", "model": "net", "batch_size": 8, "world_size": 1, "gpus": 1, "status": "ok"}


def trained(run: str, settings: Mapping[str, object], accuracy: float | None = None, dur_ns: int = 10) -> Tables:
    """The rows of a run of one step, with an accuracy after it where there is one."""
    step = {"run": run, "epoch": 0, "start_ns": 0, "samples": 8}
    steps = [step | {"phase": "train", "step": 0, "dur_ns": dur_ns, "data_wait_ns": 2}]
    if accuracy is not None:
        steps.append(step | {"phase": "validate", "step": 0, "dur_ns": 1, "accuracy": accuracy})
    return {"runs": [TRAINED | {"run": run} | dict(settings)], "steps": steps}


def test_rates_are_compared_within_an_optimizer_and_optimizers_at_one_rate() -> None:
    accuracies = {"sgd": (0.3, 0.6, 0.7), "adam": (0.9, 0.5, 0.2)}
    tables = join(
        *(
            trained(f"{optimizer}-{rate}", {"optimizer": optimizer, "learning_rate": rate}, accuracy)
            for optimizer, found in accuracies.items()
            for rate, accuracy in zip((0.001, 0.01, 0.1), found, strict=True)
        )
    )
    answer = evaluate("S1-12", tables)
    found = {cell["setting"]: (cell["study"], cell["corrected"]) for cell in cells(answer, quantity="best accuracy")}
    assert found == {
        "sgd, rate 0.001 → 0.01": (0.3, 0.6),
        "sgd, rate 0.001 → 0.1": (0.3, 0.7),
        "adam, rate 0.001 → 0.01": (0.9, 0.5),
        "adam, rate 0.001 → 0.1": (0.9, 0.2),
        "rate 0.001, sgd → adam": (0.3, 0.9),
        "rate 0.01, sgd → adam": (0.6, 0.5),
        "rate 0.1, sgd → adam": (0.7, 0.2),
    }


@pytest.mark.parametrize(
    ("row", "one", "other"),
    [
        ("S1-02", {"workers": 0}, {"workers": 2}),
        ("S1-12", {"learning_rate": 0.1}, {"learning_rate": 0.01}),
        ("S1-12", {"optimizer": "sgd"}, {"optimizer": "adam"}),
        ("S1-13", {"precision": "fp32"}, {"precision": "bf16"}),
    ],
)
def test_runs_fit_where_they_differ_in_that_setting_alone(
    row: str, one: dict[str, object], other: dict[str, object]
) -> None:
    paired = join(trained("a", one), trained("b", other))
    unlike = join(trained("a", one), trained("b", other | {"batch_size": 4}))
    assert row_state(row, paired) == ("answered", 2)
    assert row_state(row, unlike) == ("published", 0)


@pytest.mark.parametrize("row", ["S0-09", "S4-02"])
def test_a_run_that_is_named_is_taken_without_those_of_other_sweeps(row: str) -> None:
    line: dict[str, object] = {"optimizer": "sgd", "parallelism": "dp"}
    tables = join(
        *(
            trained(f"x-b{batch}-g{gpus}", line | {"batch_size": batch, "gpus": gpus}, dur_ns=10 * batch // gpus + gpus)
            for batch in (4, 8)
            for gpus in (1, 2)
        ),
        trained("y-g1", line | {"sweep": "B", "gpus": 1}),
    )
    assert {cell["model"] for cell in cells(evaluate(row, tables))} >= {"net"}
    alone = evaluate(row, tables, "y-g1")
    assert (alone.runs, [cell for cell in cells(alone) if cell["model"] == "net"]) == (("y-g1",), [])


@pytest.mark.parametrize(
    ("measured", "share", "peak"),
    [(None, 0.4, (10, "the fastest size of the run")), (40.0, 1, (40, "measured in limits"))],
)
def test_a_slow_copy_is_one_below_half_of_the_link_as_it_was_measured(
    measured: float | None, share: float, peak: tuple[float, str]
) -> None:
    copy = {"device": 0, "stream": 7, "direction": "HtoD"}
    limit = {"run": "limits", "uuid": "GPU-1", "metric": "h2d_pinned", "best": measured, "unit": "gb_per_s"}
    tables: Tables = {
        "devices": [{"rank": 0, "device": 0, "uuid": "GPU-1", "name": "Card"}],
        "ceilings": [limit] if measured else [],
        "memcpys": [
            copy | {"start_ns": 0, "dur_ns": 60, "size_bytes": 600},
            copy | {"start_ns": 90, "dur_ns": 40, "size_bytes": 100},
        ],
    }
    answer = evaluate("S3-04", tables)
    (slow,) = cells(answer, quantity="share of the time that is slow", run="r")
    (top,) = cells(answer, quantity="peak that slow is half of")
    assert (slow["corrected"], (top["corrected"], top["claim"])) == (share, peak)


def test_launches_stand_with_their_percentile_and_the_other_calls_of_their_window() -> None:
    call = {"api": "runtime", "tid": 1}
    launches = [{"name": "cudaLaunchKernel", "start_ns": 10 * at, "dur_ns": 2 if at else 200} for at in range(50)]
    rest = [
        {"name": name, "start_ns": 900, "dur_ns": dur}
        for name, dur in (("cudaEventDestroy", 60), ("cudaMemcpyAsync", 40), ("cudaFree", 2))
    ]
    tables: Tables = {
        "runs": [{"model": "net", "batch_size": 4, "gpus": 1, "tags": [("window", "backward")]}],
        "api_calls": [call | each for each in (*launches, *rest)],
    }
    answer = evaluate("S3-11", tables)
    found = {(cell["quantity"], cell["setting"]): cell["study"] or cell["corrected"] for cell in cells(answer, run="r")}
    assert found == {
        ("share of the calls' time", "1 GPU, window backward"): 298 / 400,
        ("share of another call", "1 GPU, window backward, cudaEventDestroy"): 60 / 400,
        ("share of another call", "1 GPU, window backward, cudaMemcpyAsync"): 40 / 400,
        ("time of a launch", "1 GPU, window backward, mean"): 298 / 50,
        ("time of a launch", "1 GPU, window backward, 99th percentile"): 200,
    }
    assert answer.verdict == (
        "1 run of the window backward: launch calls take 74.5 % of the calls' time, 0.00596 µs each on average, 99 "
        "of 100 at most 0.2 µs; most of the rest is cudaEventDestroy."
    )


def test_the_memory_of_a_host_is_none_of_a_card() -> None:
    host = {"host": "h", "time_ns": 1, "used_bytes": 5000, "total_bytes": 9000, "rss_bytes": 100}
    run = TRAINED | {"run": "cpu", "gpus": 0}
    assert row_state("S1-11", {"runs": [run], "host_samples": [host | {"run": "cpu"}]}) == (
        "needs capture",
        0,
    )
    card = {"device": 0, "epoch": 0, "step": 0, "allocated_bytes": 200, "reserved_bytes": 400, "used_bytes": 600}
    tables: Tables = {"runs": [TRAINED], "memory_peaks": [card], "host_samples": [host]}
    answer = evaluate("S1-11", tables)
    assert [(cell["quantity"], cell["study"], cell["corrected"]) for cell in cells(answer)] == [
        ("in use, and allocated", 600, 200),
        ("in use, and reserved", 600, 400),
    ]
    assert answer.verdict == (
        "What is in use on a card is 3 times what the framework allocated at its peak, 1.5 times what it reserved."
    )
