"""What kernels and counters tell is told of each machine apart, and its words change with the figures."""

import pytest

from tests.study.literal_rows import K80, P40, RUN, Rows, Run, Tables, evaluate, join


def shares(run: Run, name: str, dur_ns: int, rest_ns: int) -> Rows:
    """A step with one kernel of that name, and another one."""
    gpu = {"run": run["run"], "device": 0, "stream": 7}
    return {
        "runs": [dict(run)],
        "kernels": [
            gpu | {"name": name, "start_ns": 0, "dur_ns": dur_ns},
            gpu | {"name": "gemm", "start_ns": dur_ns, "dur_ns": rest_ns},
        ],
        "memcpys": [gpu | {"direction": "HtoD", "size_bytes": dur_ns + rest_ns, "start_ns": 0, "dur_ns": 0}],
        "annotations": [
            {"run": run["run"], "name": "ProfilerStep#0", "scope": "cpu", "tid": 1, "start_ns": 0, "dur_ns": 9000}
        ],
    }


def on_two_machines(name: str) -> Tables:
    """On the K80 batches 4 and 64 with shares of 10 and 40 %, on the P40 2 and 128 with 80 and 20 %."""
    cells = ((K80, 4, 100, 900), (K80, 64, 1600, 2400), (P40, 2, 800, 200), (P40, 128, 1280, 5120))
    return join(
        *(
            shares(RUN | machine | {"run": f"b{batch}", "batch_size": batch}, name, own, rest)
            for machine, batch, own, rest in cells
        ),
    )


def test_max_pooling_is_reported_for_each_machine() -> None:
    assert evaluate("S3-12", on_two_machines("max_pool_backward_nchw")).verdict == (
        "net, Tesla K80: from batch 4 to 64 the share goes from 10.00 % to 40.00 %, the time of a sample from 0.025 µs "
        "to 0.025 µs; net, Tesla P40: from batch 2 to 128 the share goes from 80.00 % to 20.00 %, the time of a sample "
        "from 0.4 µs to 0.01 µs."
    )


def test_winograd_is_reported_for_each_machine() -> None:
    tables = on_two_machines("maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt")
    assert evaluate("S3-08", tables).verdict == (
        "net, Tesla K80: Winograd takes 10.0 % at batch 4 and 40.0 % at 64, convolutions of all kinds 10.0 % and "
        "40.0 %; net, Tesla P40: Winograd takes 80.0 % at batch 2 and 20.0 % at 128, convolutions of all kinds "
        "80.0 % and 20.0 %."
    )


def test_broadcasts_are_reported_for_each_machine() -> None:
    assert evaluate("S3-07", on_two_machines("ncclKernel_Broadcast_RING_LL")).verdict == (
        "net, Tesla K80: from batch 4 to 64 broadcasts go from 10.0 % to 40.0 % of the activity, a step's take 16.00 "
        "times as long, and 4.0 times as much comes from the host; net, Tesla P40: from batch 2 to 128 broadcasts go "
        "from 80.0 % to 20.0 % of the activity, a step's take 1.60 times as long, and 6.4 times as much comes from the "
        "host. No recording has the bytes of a broadcast."
    )


def test_one_batch_size_a_machine_is_no_change_with_the_batch() -> None:
    cells = ((K80, 4, 100, 900), (P40, 64, 1600, 2400))
    tables = join(
        *(
            shares(RUN | machine | {"run": f"b{batch}", "batch_size": batch}, "max_pool_backward_nchw", own, rest)
            for machine, batch, own, rest in cells
        ),
    )
    assert evaluate("S3-12", tables).verdict == (
        "No two cells differ in the batch size alone; the share is 10.00 % to 40.00 %."
    )


def test_bytes_of_a_broadcast_count_where_the_recording_has_them() -> None:
    parts = []
    for batch, size in ((4, 4000), (64, 8000)):
        run = RUN | {"run": f"b{batch}", "batch_size": batch, "parameter_bytes": 4000}
        part = shares(run, "ncclKernel_Broadcast_RING_LL", 100, 900)
        own = {"run": run["run"], "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 100}
        part["collectives"] = [own | {"origin": "kernel", "collective": "broadcast", "size_bytes": size}]
        parts.append(part)
    assert evaluate("S3-07", join(*parts)).verdict == (
        "net: from batch 4 to 64 broadcasts go from 10.0 % to 10.0 % of the activity, a step's take 1.00 times as "
        "long, carry 2.00 times the bytes, and 1.0 times as much comes from the host. Of 2 recordings with the bytes "
        "of broadcasts, 1 has exactly the parameters', from GPU to GPU."
    )


@pytest.mark.parametrize(
    ("overlap_ns", "said", "words"),
    [
        (6_756_760_920, 0.0, "54.6 %, not the 0 % that it prints"),
        (6_756_760_920, 0.546, "54.6 %, as it prints"),
        (675_774, 0.0, "0.00546079 %, which it rounds to 0 %"),
    ],
)
def test_the_share_of_concurrency_is_held_against_what_is_published(overlap_ns: int, said: float, words: str) -> None:
    changes = (
        f"update figures set value = {overlap_ns} where row = 'S3-02' and quantity = 'time of two kernels'",
        f"update figures set value = {said} where row = 'S3-02' and quantity = 'kernel concurrency'",
    )
    assert evaluate("S3-02", changes=changes).verdict == f"The study's own terms give {words}."


def counted(run: str, gpu: str, model: str, mean: float) -> Rows:
    summary = {"kind": "gpu", "metric": "flop_count_dp", "device_name": gpu}
    return {
        "runs": [RUN | {"run": run, "gpu": gpu, "model": model, "batch_size": 32}],
        "summaries": [
            summary | {"run": run, "name": "conv", "calls": 10, "value": mean},
            summary | {"run": run, "name": "fill", "calls": 30, "value": 0.0},
        ],
    }


def test_a_log_of_zeros_is_reported_and_is_none_of_the_other_machine() -> None:
    answer = evaluate("S3-13", join(counted("p40", "Tesla P40", "alexnet", 0)))
    assert {cell["published"] for cell in answer.cells.to_pylist()} == {None}
    assert answer.verdict == (
        "1 log counts double precision in code of single precision, and finds none; a mean of nothing but zeros is the "
        "same over names and over invocations."
    )


def test_a_log_that_counts_is_reported_beside_one_of_zeros() -> None:
    runs = (counted("p40", "Tesla P40", "alexnet", 0), counted("k80", "Tesla K80", "alexnet", 1_428_376.96))
    answer = evaluate("S3-13", join(*runs))
    published = {cell["machine"]: cell["published"] for cell in answer.cells.to_pylist() if "mean" in cell["quantity"]}
    assert published == {"Tesla P40": None, "Tesla K80": 1030535.3}
    assert answer.verdict == (
        "2 logs count double precision in code of single precision, of which 1 finds none: all their invocations "
        "together hold 0 % to 0.031 % of the FLOPs of one batch's forward pass; weighted by invocations the mean of a "
        "kernel is 0.5 times that over names."
    )


def test_models_are_ordered_on_each_machine_apart() -> None:
    runs = [
        counted(f"{gpu}-{model}", gpu, model, mean)
        for gpu, model, mean in (
            ("K80", "vgg16", 500.0), ("K80", "alexnet", 90.0), ("P40", "vgg16", 0.0), ("P40", "alexnet", 0.0)
        )
    ]  # fmt: skip
    assert evaluate("S3-15", join(*runs)).verdict == (
        "vgg16 > resnet18 > alexnet by FLOPs, 22 times between the ends; by the study's counter at batch 32 on K80 "
        "vgg16 > alexnet; at batch 32 on P40 alexnet = vgg16."
    )
