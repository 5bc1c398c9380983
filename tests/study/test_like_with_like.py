"""A verdict compares cells that differ in the one thing asked about, and its words change with the figures."""

from collections.abc import Mapping

import pytest

from tests.study.literal_rows import RUN, Rows, Run, evaluate, join, trained


def of_accuracy(accuracies: Mapping[str, float], **runs: Run) -> list[Rows]:
    return [trained(RUN | {"run": name} | run, accuracy=accuracies[name]) for name, run in runs.items()]


def test_accuracies_of_two_data_sets_do_not_differ_between_gpus() -> None:
    two = {"gpus": 2, "parallelism": "dp"}
    runs = of_accuracy(
        {"a1": 0.8, "a2": 0.8, "b1": 0.3, "b2": 0.3},
        a1={"dataset": "cifar10", "parallelism": "none"},
        a2={"dataset": "cifar10"} | two,
        b1={"dataset": "cifar100", "parallelism": "none"},
        b2={"dataset": "cifar100"} | two,
    )
    assert evaluate("S4-01", join(*runs)).verdict == (
        "4 runs have an accuracy; between cells that differ in GPUs alone it differs by up to 0 points, no two in the "
        "batch size alone, and no cell is repeated."
    )


def test_repeats_are_averaged_before_gpus_are_compared() -> None:
    two = {"gpus": 2, "parallelism": "dp"}
    runs = of_accuracy(
        {"a": 0.4, "b": 0.6, "c": 0.4, "d": 0.6, "e": 0.75},
        a={"repeat": 0, "parallelism": "none"},
        b={"repeat": 1, "parallelism": "none"},
        c={"repeat": 0} | two,
        d={"repeat": 1} | two,
        e={"batch_size": 128, "parallelism": "none"},
    )
    assert evaluate("S4-01", join(*runs)).verdict == (
        "5 runs have an accuracy; between cells that differ in GPUs alone it differs by up to 0 points, between cells "
        "that differ in the batch size alone by up to 25 points, between repeats of one cell by up to 20 points."
    )


def test_what_a_larger_batch_brings_is_reported_of_each_model() -> None:
    times = {("alexnet", 64): 1000, ("alexnet", 128): 1000, ("vgg16", 64): 1000, ("vgg16", 128): 2000}
    runs = [
        trained(RUN | {"run": f"{model}-{batch}", "model": model, "batch_size": batch}, step_ns)
        for (model, batch), step_ns in times.items()
    ]
    assert evaluate("S0-09", join(*runs)).verdict == (
        "alexnet on GPUs: a larger batch gives 1 at the smallest and 1 at the largest batch sizes; vgg16 on GPUs: a "
        "larger batch gives 0 at the smallest and 0 at the largest batch sizes (1: proportional, 0: none)."
    )


def test_whether_batch_or_gpus_bring_more_is_counted_layout_by_layout() -> None:
    two = {"gpus": 2, "parallelism": "dp"}
    cells: list[tuple[Run, int, int]] = [
        ({"parallelism": "none"}, 32, 1000), ({"parallelism": "none"}, 64, 1500), ({"parallelism": "none"}, 128, 2800),
        (two, 32, 1250), (two, 64, 1250), (two, 128, 1500),
    ]  # fmt: skip
    runs = [
        trained(RUN | more | {"run": f"g{more.get('gpus', 1)}-{batch}", "batch_size": batch}, step_ns)
        for more, batch, step_ns in cells
    ]
    assert evaluate("S0-09", join(*runs)).verdict == (  # log2(2 * 1250 / 1500) is 0.737, of 2800 / 1500 0.9
        "net on GPUs: a larger batch gives 0.415 to 1 at the smallest and 0.0995 to 0.737 at the largest batch sizes, "
        "more GPUs give -0.322 and 0.9 (1: proportional, 0: none); of 1 layouts with both effects the batch brings "
        "more at the smallest sizes in 1, the GPUs at the largest in 1."
    )


def of_calls(run: Run, calls: int) -> Rows:
    """An epoch of two steps, of which one is recorded with so many ops."""
    own = {"run": run["run"]}
    op = own | {"name": "aten::add", "tid": 1, "dur_ns": 5}
    return trained(run) | {
        "annotations": [
            own | {"name": "ProfilerStep#0", "scope": "cpu", "tid": 1, "start_ns": 0, "dur_ns": 900},
        ],
        "ops": [op | {"start_ns": 10 * place} for place in range(calls)],
    }


@pytest.mark.parametrize(("largest", "said"), [(4, "1"), (12, "3")])
def test_calls_are_compared_where_the_batch_size_alone_differs(largest: int, said: str) -> None:
    processor = {"gpus": 0, "parallelism": "none", "host": "h"}
    tables = join(
        of_calls(RUN | {"run": "b16", "batch_size": 16}, 4),
        of_calls(RUN | {"run": "b64", "batch_size": 64}, largest),
        of_calls(RUN | processor | {"run": "cpu", "batch_size": 4}, 95),
    )
    assert evaluate("S0-04", tables).verdict == (
        f"A larger batch makes {said} times the calls of an epoch and {said} times those of a step (1 line of cells "
        "that differ in the batch size alone)."
    )


def test_the_fastest_batch_is_one_of_its_own_line() -> None:
    cells = [({}, 64, 1000), ({}, 128, 4000), ({"model": "small"}, 256, 10)]
    tables = join(
        *(trained(RUN | more | {"run": f"b{batch}", "batch_size": batch}, step_ns) for more, batch, step_ns in cells),
    )
    verdict = evaluate("S1-03", tables).verdict
    assert verdict == (
        "An epoch of 14 in 3 min takes 0.21 min, 1/25 of table I's 5.3; at hand, net: of batches 64 to 128, 64 is the "
        "fastest with 6.4e+07 samples/s."
    )
    changed = "update figures set value = 6 where row = 'S1-03' and quantity = 'time of 14 epochs'"
    assert evaluate("S1-03", tables, changes=[changed]).verdict == verdict.replace(
        "in 3 min takes 0.21 min, 1/25", "in 6 min takes 0.43 min, 1/12"
    )


def pinned(name: str, unpinned_ns: int, pinned_ns: int, **more: object) -> list[Rows]:
    return [
        trained(RUN | more | {"run": f"{name}-{pin}", "pin_memory": pin}, step_ns)
        for pin, step_ns in ((False, unpinned_ns), (True, pinned_ns))
    ]


def test_pinning_is_reported_for_gpus_and_cpus_separately() -> None:
    gpu = pinned("gpu", 2000, 1000, gpu="Tesla K80", parallelism="none")
    cpu = pinned("cpu", 1000, 1000, gpus=0, parallelism="none")
    assert evaluate("S1-01", join(*gpu, *cpu)).verdict == (
        "At hand on Tesla K80 steps take 2 times as long unpinned, 2 times on average of 1 pair, and nothing is copied "
        "to a GPU; on a processor steps take 1 times as long unpinned, 1 times on average of 1 pair, and nothing is "
        "copied to a GPU; the study reports 1.4 times on average."
    )


def test_forty_percent_holds_where_the_tables_say_so() -> None:
    changed = "update figures set value = 3.5 where row in ('S1-05', 'S1-07') and quantity = 'time of an epoch'"
    assert evaluate("S1-08", changes=[changed]).verdict == (
        "The study's tables give 1.543 and 1.577 times (ratio of means) or 1.543 and 1.577 (mean of ratios): 35 % to "
        "37 % less time, 40 % faster and more; 1.4 times and more holds for 10 of 10 pairs."
    )
    claimed = "update figures set value = 1.25 where row = 'S1-08'"
    assert "25 % faster by some of these averages alone; 1.25 times" in evaluate("S1-08", changes=[claimed]).verdict


def test_machines_at_hand_are_part_of_the_verdict() -> None:
    runs = [
        trained(RUN | {"run": gpu, "gpu": gpu, "dataset": "cifar10"}, step_ns)
        for gpu, step_ns in (("K80", 3000), ("P40", 1500))
    ]
    assert evaluate("S1-08", join(*runs)).verdict.endswith(
        "5 of 10 pairs; at hand P40, cifar10, by step, against K80, is 2 times as fast, and it holds for 1 of 1 pairs."
    )


def test_first_epochs_at_hand_are_reported_against_the_processor_and_one_gpu() -> None:
    parts = []
    for name, more, step_ns in (
        ("cpu", {"gpus": 0, "parallelism": "none"}, 40_000_000),
        ("g1", {"gpus": 1, "parallelism": "none"}, 10_000_000),
        ("g2", {"gpus": 2, "parallelism": "dp"}, 8_000_000),
    ):
        tags = [("dataset_size", "128")]
        part = trained(RUN | {"run": name, "sweep": "S2", "model": "alexnet", "tags": tags} | more, step_ns)
        part["steps"].append({"run": name, "phase": "epoch", "epoch": 0, "start_ns": 0, "dur_ns": 2 * step_ns})
        parts.append(part)
    answer = evaluate("S2-01", join(*parts))
    ours = {(cell["quantity"], cell["run"]): cell["study"] for cell in answer.cells.to_pylist() if cell["run"]}
    assert ours == {
        ("first epoch", "cpu"): 0.08, ("first epoch", "g1"): 0.02, ("first epoch", "g2"): 0.016,
        ("speed-up over the processor", "g1"): 4, ("speed-up over the processor", "g2"): 5,
        ("speed-up", "g2"): 1.25, ("efficiency", "g2"): None,
    }  # fmt: skip
    assert answer.verdict.endswith(
        ". At hand alexnet, batch 64, 1 GPU: 4 times as fast as the processor; alexnet, batch 64, 2 GPUs dp: 5 times "
        "as fast as the processor, 1.25 times as fast as the fewest, an efficiency of 62 %."
    )


def test_a_loss_that_rises_is_no_guess() -> None:
    run = trained(RUN | {"run": "r", "dataset": "cifar10"}, accuracy=0.9)
    run["steps"][0]["loss"], run["steps"][1]["loss"] = 1.0, 50.0
    assert evaluate("S4-06", join(run)).verdict == (
        "2.1 is 0.91 of the loss of guessing among ten classes; at hand: 1 with a loss that rises (r)."
    )


def test_a_loss_that_ends_above_a_guess_is_no_learning_however_far_it_fell() -> None:
    run = trained(RUN | {"run": "r", "workload": "image_classification", "dataset": "synthetic"}, accuracy=1 / 16)
    run["steps"][0]["loss"], run["steps"][1]["loss"] = 1.09e10, 68.8
    assert evaluate("S4-06", join(run)).verdict == (
        "2.1 is 0.91 of the loss of guessing among ten classes; at hand: 1 with a loss above that of guessing (r)."
    )


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [
        (0.1, "0 of 1 runs at hand converge; 1 stays at chance, which is no convergence; the study reports 100."),
        (0.9, "1 of 1 runs at hand converge, after 1 epochs; the study reports 100."),
    ],
)
def test_a_run_at_chance_has_not_converged(accuracy: float, verdict: str) -> None:
    own = {"run": "r", "phase": "train", "step": 0, "start_ns": 0, "dur_ns": 9, "samples": 64, "accuracy": accuracy}
    tables = join(
        {
            "runs": [RUN | {"run": "r", "dataset": "cifar10", "epochs": 5}],
            "steps": [own | {"epoch": e} for e in range(5)],
        },
    )
    assert evaluate("S1-10", tables).verdict == verdict


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (128, "1 took as many as the formula predicts."),
        (640, "0 took as many as the formula predicts, 1 fewer: an epoch cut short."),
        (
            64,
            "0 took as many as the formula predicts, 1 more: the data set has another size than recorded, or an "
            "epoch passes over it more than once.",
        ),
    ],
)
def test_iterations_are_as_many_as_expected_or_fewer_or_more(size: int, words: str) -> None:
    tables = join(trained(RUN | {"run": "r", "tags": [("dataset_size", str(size))]}))
    assert evaluate("S0-08", tables).verdict.endswith(f"; of 1 runs at hand {words}")
