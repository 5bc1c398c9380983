"""The seven verdicts come out of queries on data; each number here is worked out by hand, or by other code."""

import csv
from decimal import Decimal

import pytest

from tests.study.literal_rows import cells, evaluate, evaluate_example
from tracelab.resources import DATA
from tracelab.study.evaluate import Answer

RUN = {"sweep": "s", "model": "net", "world_size": 1, "status": "ok"}
STEP = {"name": "ProfilerStep#0", "scope": "cpu", "tid": 1, "start_ns": 0, "dur_ns": 900}


def test_fadd_alone_is_a_four_hundredth_and_a_hundredth_of_the_flops() -> None:
    answer = evaluate_example("S2-03")
    found = [(cell["model"], cell["published"], cell["study"], cell["corrected"]) for cell in answer.cells.to_pylist()]
    assert found == [
        ("alexnet", 3_566_912, 3_566_912, 1_431_966_400),
        ("resnet18", 36_347_700, 36_347_700, 3_681_880_884),
    ]
    assert answer.verdict == (
        "alexnet: FADD alone is 0.25 % of the FLOPs, 401 times too few; "
        "resnet18: FADD alone is 0.99 % of the FLOPs, 101 times too few."
    )


def test_a_double_precision_counter_misses_nearly_all_and_names_are_no_weights() -> None:
    answer = evaluate_example("S3-13")
    means = {
        (cell["model"], cell["batch_size"]): (cell["study"], cell["corrected"])
        for cell in cells(answer, quantity="mean count of a kernel")
    }
    by_hand = {  # of every log: kernels that counted, names in all, invocations in all
        ("alexnet", 32): ([(802, 3_091_606)], 3, 817),
        ("alexnet", 64): ([(630, 6_173_801)], 3, 645),
        ("resnet18", 16): ([(8, 2_210_816), (5, 253_132)], 5, 1_273),
        ("resnet18", 32): ([(357, 6_503_013)], 4, 1_252),
        ("resnet18", 64): ([(10, 4_821_811), (1, 811_008)], 6, 1_224),
        ("vgg16", 16): ([(8, 12_042_240), (1, 811_008)], 5, 36),
        ("vgg16", 64): ([(9, 43_173_660)], 4, 36),
    }
    assert means == {
        key: (
            round(Decimal(sum(mean for _, mean in kernels)) / names),
            round(Decimal(sum(calls * mean for calls, mean in kernels)) / invocations),
        )
        for key, (kernels, names, invocations) in by_hand.items()
    }
    (alexnet,) = cells(answer, quantity="FLOPs of a batch, forward", model="alexnet", batch_size=32)
    assert (alexnet["study"], alexnet["corrected"]) == (802 * 3_091_606, 32 * 1_428_376_960)
    assert answer.verdict == (
        "7 logs count double precision in code of single precision: all their invocations together hold 0.02 % to "
        "5.4 % of the FLOPs of one batch's forward pass; weighted by invocations the mean of a kernel is 0.0302 to "
        "2.94 times that over names."
    )


def test_the_memory_experiment_recorded_the_start_of_the_process_alone() -> None:
    answer = evaluate_example("S3-09")
    shares = {
        str(cell["setting"]): (cell["published"], round(float(str(cell["study"])), 6))
        for cell in cells(answer, quantity="share of the calls' time")
    }
    assert (len(shares), shares["cuDeviceGetAttribute"]) == (11, (0.34590301, 0.345903))
    assert all(abs(published - study) < 1e-6 for published, study in shares.values())
    assert answer.verdict == (
        "1 of 1 runs at hand recorded the start of the process alone: no kernel, and no call that allocates, copies or "
        "launches (34.6 % of the calls' time is cuDeviceGetAttribute)."
    )


def test_calls_that_launch_make_the_profile_more_than_a_start() -> None:
    call = {"api": "runtime", "tid": 1, "start_ns": 0}
    calls = [call | {"name": "cudaLaunchKernel", "dur_ns": 30}, call | {"name": "cuDeviceGetAttribute", "dur_ns": 70}]
    answer = evaluate("S3-09", ({"api_calls": calls}))
    (launch,) = cells(answer, setting="cudaLaunchKernel")
    assert (launch["study"], launch["corrected"], answer.verdict[:6]) == (0.3, 0.3, "0 of 1")


def test_kernels_of_two_devices_at_once_are_no_concurrency_of_a_device() -> None:
    kernel = {"name": "gemm", "stream": 7, "dur_ns": 100}
    kernels = [
        kernel | {"device": 0, "start_ns": 0},
        kernel | {"device": 0, "start_ns": 90, "stream": 8},
        kernel | {"device": 1, "start_ns": 0, "dur_ns": 190},
    ]
    answer = evaluate("S3-02", ({"kernels": kernels}))
    found = [(cell["setting"], cell["study"], cell["corrected"]) for cell in cells(answer, run="r")]
    assert found == [("rank 0, GPU 0", 1, 10 / 190), ("rank 0, GPU 1", 1, 0)]
    assert answer.verdict == (
        "The study's own terms give 0.00546079 %, which it rounds to 0 %; of 2 devices at hand the most that runs at "
        "once is 5.26316 %, where all devices taken together reach up to 100 %."
    )


def test_the_study_of_concurrency_needs_no_run_for_its_own_terms() -> None:
    answer = evaluate("S3-02")
    (own,) = answer.cells.to_pylist()
    assert (own["published"], own["corrected"]) == (0, 675_774 / 12_375_020_000)
    assert answer.verdict == "The study's own terms give 0.00546079 %, which it rounds to 0 %."


def test_a_broadcast_carries_the_parameters_whatever_the_batch() -> None:
    tables: dict[str, list[dict[str, object]]] = {"runs": [], "kernels": [], "memcpys": [], "annotations": []}
    for batch in (4, 64):
        run = {"run": f"b{batch}"}
        gpu = run | {"start_ns": 0, "stream": 7}
        tables["runs"].append(
            run | RUN | {"batch_size": batch, "gpus": 2, "parallelism": "dp", "parameter_bytes": 4000}
        )
        tables["annotations"].append(run | STEP)
        tables["memcpys"].append(
            gpu | {"device": 0, "direction": "HtoD", "size_bytes": 10 * batch, "dur_ns": 0, "start_ns": 50}
        )
        tables["kernels"] += [
            gpu | {"device": device, "name": name, "dur_ns": dur, "start_ns": start}
            for device in (0, 1)
            for name, start, dur in (("ncclKernel_Broadcast_RING_LL", 0, 90), ("gemm", 100, 10 * batch))
        ]
    answer = evaluate("S3-07", (tables))
    found = {
        (cell["quantity"], cell["batch_size"]): cell["corrected"]
        if "share" not in str(cell["quantity"])
        else cell["study"]
        for cell in cells(answer)
        if cell["run"]
    }
    assert found == {
        ("share of the GPU activity", 4): 90 / 130,
        ("share of the GPU activity", 64): 90 / 730,
        ("time of a step's broadcasts, each GPU", 4): 90,
        ("time of a step's broadcasts, each GPU", 64): 90,
        ("bytes of a step, device to device, each GPU", 4): 4000,
        ("bytes of a step, device to device, each GPU", 64): 4000,
        ("bytes of a step, from the host", 4): 40,
        ("bytes of a step, from the host", 64): 640,
    }
    assert answer.verdict == (
        "net: from batch 4 to 64 broadcasts go from 69.2 % to 12.3 % of the activity, a step's take 1.00 times as "
        "long, and 16.0 times as much comes from the host. No recording has the bytes of a broadcast."
    )


def test_forty_percent_is_one_fifth() -> None:
    answer = evaluate("S1-08")
    times: dict[str, list[tuple[Decimal, Decimal]]] = {"cifar10": [], "cifar100": []}
    with (DATA / "studies" / "S1.csv").open(newline="") as file:
        listed = {
            (each["row"], each["model"]): Decimal(each["value"])
            for each in csv.DictReader(file)
            if each["quantity"] == "time of an epoch" and each["model"]
        }
    for (row, model), slow in listed.items():
        if row in ("S1-04", "S1-06"):
            times["cifar10" if row == "S1-04" else "cifar100"].append((slow, listed[f"S1-0{int(row[-1]) + 1}", model]))
    for setting, pairs in times.items():
        (means,) = cells(answer, quantity="ratio of means", setting=setting)
        (ratios,) = cells(answer, quantity="mean of ratios", setting=setting)
        assert len(pairs) == 5
        assert means["corrected"] == pytest.approx(float(sum(s for s, _ in pairs) / sum(f for _, f in pairs)))
        assert ratios["corrected"] == pytest.approx(float(sum(s / f for s, f in pairs) / 5))
    assert answer.verdict == (
        "The study's tables give 1.205 and 1.243 times (ratio of means) or 1.254 and 1.285 (mean of ratios): 17 % to "
        "20 % less time, not 40 % faster; 1.4 times and more holds for 5 of 10 pairs."
    )


def test_summed_memory_falls_where_the_peak_rises() -> None:
    names = ("runs", "steps", "annotations", "ops", "memory_events", "memory_peaks")
    tables: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    for batch, sizes, peak in ((10, (40, 60), 100), (100, (90, 160), 400)):
        run = {"run": f"b{batch}"}
        tables["runs"].append(run | RUN | {"batch_size": batch, "gpus": 1, "tags": [("dataset_size", "1000")]})
        tables["steps"].append(
            run | {"phase": "train", "epoch": 0, "step": 0, "start_ns": 0, "dur_ns": 9, "samples": batch}
        )
        tables["annotations"].append(run | STEP)
        tables["ops"].append(run | {"name": "aten::add", "tid": 1, "start_ns": 0, "dur_ns": 5})
        tables["memory_events"] += [
            run | {"device": 0, "time_ns": time, "size_bytes": size, "tid": 1}
            for time, size in enumerate((*sizes, -sum(sizes)), 1)
        ]
        tables["memory_peaks"].append(run | {"device": 0, "epoch": 0, "step": 0, "allocated_bytes": peak})
    answer = evaluate("S0-07", (tables))
    found = [(cell["batch_size"], cell["study"], cell["corrected"]) for cell in answer.cells.to_pylist()]
    assert found == [(10, 100 * 1000 // 10, 100), (100, 250 * 1000 // 100, 400)]  # bytes of a step × steps of an epoch
    assert answer.verdict == (
        "From the smallest to the largest batch of each layout the sum over an epoch changes 0.25 to 0.25 times, "
        "the peak of a device 4 to 4 times."
    )


PEAKS = {
    ("net", "cpu", 4): 3, ("net", "gpu", 4): 100, ("net", "gpu", 8): 150,
    ("big", "gpu", 4): 400, ("big", "gpu", 8): 900,
}  # fmt: skip


def of_peaks(row: str) -> Answer:
    """Peaks in MB of two models on a GPU and a CPU; the largest is of a run that ran out of memory."""
    tables: dict[str, list[dict[str, object]]] = {"runs": [], "memory_peaks": []}
    for (model, device, batch), peak in PEAKS.items():
        run: dict[str, object] = {"run": f"{model}-{device}-{batch}"}
        asked = {"model": model, "batch_size": batch, "gpus": int(device == "gpu")}
        tables["runs"].append(RUN | run | asked | {"status": "oom" if peak == 900 else "ok"})
        place: dict[str, object] = {"device": 0} if device == "gpu" else {}
        tables["memory_peaks"].append(run | place | {"epoch": 0, "step": 0, "allocated_bytes": peak * 1_000_000})
    return evaluate(row, (tables))


def test_peaks_are_compared_within_one_model_and_layout_and_failed_runs_with_none() -> None:
    assert of_peaks("S3-14").verdict == (
        "Between batch sizes of one model on one layout peaks differ up to 1.5 times (net on 1 GPU: 100 MB at batch 4, "
        "150 MB at 8); between models at one batch size and layout up to 4 times (batch 4 on 1 GPU: net 100 MB, big "
        "400 MB); 1 of 5 peaks are of runs that failed, and compared with none."
    )


@pytest.mark.parametrize("row", ["S0-07", "S3-14"])
def test_a_peak_at_the_failure_stands_beside_the_status_of_its_run(row: str) -> None:
    found = {cell["run"]: (cell["status"], cell["corrected"]) for cell in cells(of_peaks(row), model="big")}
    assert found == {"big-gpu-4": (None, 400_000_000), "big-gpu-8": ("oom", 900_000_000)}


def test_the_verdict_on_memory_states_which_peaks_are_those_at_a_failure() -> None:
    assert of_peaks("S0-07").verdict == (
        "Peaks go from 3 MB to 400 MB; allocations were not recorded, so the study's sum is not at hand; 1 of 5 runs "
        "failed: the peak beside their status, up to 0.9 GB, is the one until then."
    )
