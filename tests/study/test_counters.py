"""Rows about counters: what ncu counted, beside timelines and measured ceilings."""

import pytest

from tests.study.literal_rows import Tables, cells, evaluate

OPERATIONS = [form + op for form in "dfh" for op in ("add", "mul", "fma")]


def counted(clocks: str | None, *timelines: str) -> Tables:
    """Two launches under ncu, 30 and 50 ns, and timelines that have the first alone, with 20 ns on average."""
    metric = {"run": "ncu", "device": 0, "metric": "gpu__time_duration.sum", "unit": "ns", "clock_control": clocks}
    shape = {f"{name}_{axis}": 1 for name in ("grid", "block") for axis in "xyz"}
    return {
        "runs": [{"run": run, "program": "train", "model": "net"} for run in ("ncu", *timelines)],
        "kernel_metrics": [
            metric | shape | {"launch": launch, "kernel": name, "value": value}
            for launch, (name, value) in enumerate((("f(int)", 30.0), ("g(int)", 50.0)))
        ],
        "kernels": [
            shape | {"run": run, "name": name, "device": 0, "stream": 7, "start_ns": start, "dur_ns": dur}
            for run in timelines
            for name, start, dur in (("void f(int)", 0, 10), ("void f(int)", 100, 30), ("void h(int)", 200, 500))
        ],
    }


def test_a_launch_under_ncu_stands_beside_the_same_kernel_of_one_timeline() -> None:
    answer = evaluate("S2-07", counted("none", "t1", "t2"))
    found = {cell["setting"]: (cell["study"], cell["corrected"], cell["claim"]) for cell in cells(answer, unit="ns")}
    assert found == {
        "clocks: none, against t1": (30, 20, "1 of 2 launches"),
        "clocks: none, against t2": (30, 20, "1 of 2 launches"),
    }
    assert answer.verdict == (
        "1 metrics a launch were taken; of net (clocks: none, against t1) 1 of 2 launches took 1.5 times the time of "
        "the same kernels; of net (clocks: none, against t2) 1 of 2 launches took 1.5 times the time of the same "
        "kernels."
    )


@pytest.mark.parametrize(
    ("clocks", "timelines", "setting", "told"),
    [
        (None, ["t1"], "clocks unknown", "their clocks are unknown, so their times compare with no timeline."),
        ("base", [], "clocks: base", "no timeline of the same program that has these kernels is at hand."),
    ],
)
def test_times_of_unknown_clocks_stand_beside_no_timeline(
    clocks: str | None, timelines: list[str], setting: str, told: str
) -> None:
    answer = evaluate("S2-07", counted(clocks, *timelines))
    found = [(cell["setting"], cell["study"], cell["corrected"]) for cell in cells(answer, unit="ns")]
    assert found == [(setting, 80, None)]
    assert answer.verdict == f"1 metrics a launch were taken; {told}"


@pytest.mark.parametrize(
    ("clocks", "share", "told"),
    [
        ("none", 0.25, ", at 10 GB/s, which is 25 % of what the card reaches."),
        ("base", None, ", at 10 GB/s and at clocks other than those of the measured 40 GB/s."),
    ],
)
def test_bytes_a_second_are_held_against_what_the_card_reaches(clocks: str, share: float | None, told: str) -> None:
    counts = {f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": 0 for op in OPERATIONS}
    values = counts | {
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 150,
        "sm__inst_executed_pipe_tensor.sum": 0,
        "gpu__time_duration.sum": 10,
        "dram__bytes.sum": 100,
    }
    launch = {"launch": 0, "device": 0, "kernel": "gemm", "clock_control": clocks}
    tables: Tables = {
        "runs": [{"model": "net"}],
        "devices": [{"rank": 0, "device": 0, "uuid": "GPU-1", "name": "Card", "compute_capability": "8.0"}],
        "kernel_metrics": [launch | {"metric": metric, "value": float(value)} for metric, value in values.items()],
        "ceilings": [{"run": "limits", "uuid": "GPU-1", "metric": "dram_copy", "best": 40.0, "unit": "gb_per_s"}],
    }
    answer = evaluate("S2-10", tables)
    (of_card,) = cells(answer, quantity="DRAM bandwidth / that of the card")
    (reached,) = cells(answer, quantity="bandwidth of the card")
    assert (of_card["corrected"], reached["corrected"], reached["claim"]) == (
        share,
        40,
        "corrected: measured in limits",
    )
    assert answer.verdict == f"net: 3.0 FLOP/byte in all, where the mean over kernels is 3.0{told}"
