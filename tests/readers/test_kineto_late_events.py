"""Ops as pairs of a begin and an end, and metrics of CUPTI's range profiler."""

from pathlib import Path

import pytest

from tests.readers.small import args_of, event, given, ingest_bytes, op, trace


def begin(name: str | None, ts: int, category: str | None = "cpu_op", tid: int = 101, **args: object) -> dict:
    return mark("B", name, ts, category, tid, args)


def end(ts: int, category: str | None = None, tid: int = 101, **args: object) -> dict:
    """The end of the innermost open range: it needs neither name nor category."""
    return mark("E", None, ts, category, tid, args)


def mark(phase: str, name: str | None, ts: int, category: str | None, tid: int, args: dict) -> dict:
    row = {"ph": phase, "cat": category, "name": name, "pid": 100, "tid": tid, "ts": ts, "args": args or None}
    return {key: value for key, value in row.items() if value is not None}


def ops(folder: Path, *events: dict) -> list[tuple[object, ...]]:
    """Ops as (name, start, duration), in µs."""
    rows = ingest_bytes(folder, trace(*events)).rows("ops")
    return [(row["name"], row["start_ns"] // 1000, row["dur_ns"] // 1000) for row in rows]


def test_begin_and_end_make_an_op_with_the_arguments_of_both(tmp_path: Path) -> None:
    first = {"External id": 7, "Input Dims": [[2, 3]], "a": 1}
    lab = ingest_bytes(tmp_path, trace(begin("aten::mm", 1000, **first), end(1010, b=2)))
    expected = {
        "name": "aten::mm",
        "pid": 100,
        "tid": 101,
        "start_ns": 1_000_000,
        "dur_ns": 10_000,
        "external_id": 7,
        "input_shapes": "[[2,3]]",
    }
    assert given(lab.one("ops"), expected) == expected
    assert args_of(lab.one("ops")) == {"a": 1, "b": 2}
    assert (lab.rows("other_events"), lab.counts, lab.diagnostics()) == ([], (2, 2, 0), set())


def test_arguments_of_the_end_alone_are_kept(tmp_path: Path) -> None:
    assert args_of(ingest_bytes(tmp_path, trace(begin("a", 10), end(20, b=2))).one("ops")) == {"b": 2}


def test_a_pair_longer_than_64_bits_of_nanoseconds_has_no_duration(tmp_path: Path) -> None:
    limit_us = 9_000_000_000_000_000
    row = ingest_bytes(tmp_path, trace(begin("a", -limit_us), end(limit_us))).one("ops")
    assert (row["name"], row["dur_ns"]) == ("a", None)


def test_an_end_closes_the_innermost_begin_of_its_thread(tmp_path: Path) -> None:
    events = (
        begin("a", 10),
        begin("b", 20),
        begin("c", 25, tid=5),
        end(30),
        end(40),
        end(45, tid=5),
        begin("d", 50),
        end(60),
    )
    assert ops(tmp_path, *events) == [("a", 10, 30), ("b", 20, 10), ("c", 25, 20), ("d", 50, 10)]


def test_ranges_of_other_categories_stay_and_hold_ops(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(begin("outer", 10, "job"), begin("op", 20), end(30), end(40)))
    assert (lab.one("ops")["name"], lab.one("ops")["dur_ns"]) == ("op", 10_000)
    assert [(row["phase"], row["name"]) for row in lab.rows("other_events")] == [("B", "outer"), ("E", None)]


def test_marks_without_counterpart_are_counted_and_stay(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(end(5, "cpu_op"), begin("a", 10), begin("b", 20), end(30), op("aten::add")))
    assert {row["name"] for row in lab.rows("ops")} == {"b", "aten::add"}
    assert [(row["phase"], row["name"]) for row in lab.rows("other_events")] == [("E", None), ("B", "a")]
    (note,) = (row for row in lab.rows("diagnostics") if row["code"] == "op_unpaired")
    assert note["count"] == 2


def test_times_counted_from_a_base_behind_the_events_shift_pairs_too(tmp_path: Path) -> None:
    text = trace(begin("a", 10), end(20)).rstrip()[:-1] + ', "baseTimeNanoseconds": 1000000000000000000}'
    assert ingest_bytes(tmp_path, text).one("ops")["start_ns"] == 10**18 + 10_000


ADD, MUL = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"


def metrics(name: str, ts: int, device: int = 0, **values: object) -> dict:
    return event("cuda_profiler_range", name, pid=device, tid=0, ts=ts, args=values)


def test_metrics_of_the_range_profiler_are_kernel_metrics_in_the_order_of_launches(tmp_path: Path) -> None:
    events = (metrics("relu", 1010, **{ADD: 0, MUL: 2.5}), metrics("gemm", 1000, **{ADD: 64, MUL: 8}))
    lab = ingest_bytes(tmp_path, trace(op(), *events))
    rows = sorted(
        (row["launch"], row["kernel"], row["metric"], row["value"], row["device"]) for row in lab.rows("kernel_metrics")
    )
    assert rows == [(0, "gemm", ADD, 64, 0), (0, "gemm", MUL, 8, 0), (1, "relu", ADD, 0, 0), (1, "relu", MUL, 2.5, 0)]
    assert (lab.rows("other_events"), lab.counts) == ([], (3, 3, 0))


@pytest.mark.parametrize(("value", "text"), [("n/a", "n/a"), (1e300, None)])
def test_a_metric_that_is_no_number_is_text(tmp_path: Path, value: object, text: str | None) -> None:
    row = ingest_bytes(tmp_path, trace(op(), metrics("gemm", 1000, **{ADD: value}))).one("kernel_metrics")
    assert (row["text"], row["pid"], row["args"]) == (text, 100, None)


def test_a_range_without_metrics_stays(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), metrics("gemm", 1000, note="none")))
    assert (lab.rows("kernel_metrics"), lab.one("other_events")["name"]) == ([], "gemm")
