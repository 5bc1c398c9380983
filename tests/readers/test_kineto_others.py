"""Events that no table has columns for are kept in other_events, whatever their category and phase."""

import json
from pathlib import Path

import pytest

from tests.readers.damaged import FIRST, LAST
from tests.readers.small import TIMES, args_of, event, given, ingest_bytes, kernel, op, trace

# ---------------------------------------------------------------------------------------------- everything else is kept


UNMAPPED = ("overhead", "Trace", "cuda_event", "external_correlation", "hardware_counters", "ac2g")


@pytest.mark.parametrize("cat", [*UNMAPPED, "hpu_op", "xpu_something", "privateuse1_thing", "never seen"])
def test_category_without_a_table_is_kept_among_the_others(tmp_path: Path, cat: str) -> None:
    lab = ingest_bytes(tmp_path, trace(event(cat, "thing", args={"a": 1})))
    expected = TIMES | {"category": cat, "phase": "X", "name": "thing", "pid": 100, "tid": 101}
    row = lab.one("other_events")
    assert given(row, expected) == expected
    assert args_of(row) == {"a": 1}


@pytest.mark.parametrize("cat", ["ac2g", "async_cpu_to_gpu", "async_gpu", "async", "fwdbwd", "forward_backward"])
@pytest.mark.parametrize("phase", ["s", "f"])
def test_flows_are_no_work(tmp_path: Path, cat: str, phase: str) -> None:
    arrow = {"ph": phase, "id": 15, "pid": 0, "tid": 7, "ts": 1000, "cat": cat, "name": "launch", "bp": "e"}
    lab = ingest_bytes(tmp_path, trace(arrow))
    expected = {"phase": phase, "start_ns": 1_000_000, "dur_ns": None}
    assert given(lab.one("other_events"), expected) == expected


def test_spans_of_the_profiler_are_no_work(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "Trace", "ts": 1000, "dur": 50, "pid": "Spans", "tid": "PyTorch Profiler", "name": "P (0)"},
        {"ph": "i", "s": "g", "name": "Iteration Start: P", "pid": "Traces", "tid": "Trace P", "ts": 1000},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1050},
    ]
    lab = ingest_bytes(tmp_path, trace(*events))
    assert (len(lab.rows("other_events")), lab.counts) == (3, (3, 3, 0))


def test_recording_window_is_kept_with_the_source(tmp_path: Path) -> None:
    span = event("Trace", "PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", dur=50)
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1050}
    lab = ingest_bytes(tmp_path, trace(span, end))
    assert given(lab.source, {"window_start_ns": 0, "window_dur_ns": 0}) == {
        "window_start_ns": 1_000_000,
        "window_dur_ns": 50_000,
    }


@pytest.mark.parametrize("tid", ["PyTorch Profiler", "Trace PyTorch Profiler", "main thread"])
def test_track_that_is_no_thread_id_is_kept_in_words(tmp_path: Path, tid: str) -> None:
    row = ingest_bytes(tmp_path, trace(event("Trace", "span", pid="Spans", tid=tid))).one("other_events")
    assert (row["tid"], row["pid"]) == (None, None)
    assert tid in row["track"]


@pytest.mark.parametrize(("tid", "number"), [(7, 7), ("7", 7), ("-7", -7), ("007", 7), (" 7", 7), ("0x7", 7)])
def test_thread_id_written_as_text_is_a_number(tmp_path: Path, tid: object, number: int) -> None:
    words = event("Trace", "span", pid="Spans", tid="PyTorch Profiler")
    lab = ingest_bytes(tmp_path, trace(words, event("cpu_op", "op", pid="3", tid=tid), event("cpu_op", "op", tid=5)))
    assert [row["tid"] for row in lab.rows("ops")] == [number, 5]


def test_process_that_is_no_number_is_kept_in_words(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(event("Trace", "span", pid="Spans of P", tid=4)))
    assert "Spans of P" in lab.texts()


def test_metadata_events_are_kept(tmp_path: Path) -> None:
    label = {"name": "process_labels", "ph": "M", "ts": 5, "pid": 3, "tid": 0, "args": {"labels": "GPU 3"}}
    lab = ingest_bytes(tmp_path, trace(label))
    expected = {"phase": "M", "name": "process_labels", "pid": 3}
    row = lab.one("other_events")
    assert given(row, expected) == expected
    assert args_of(row) == {"labels": "GPU 3"}


def test_array_of_another_tool_is_chrome_and_kept(tmp_path: Path) -> None:
    events = [
        {"name": "process_name", "ph": "M", "pid": 4, "args": {"name": "Adam_Allreduce"}},
        {"name": "NEGOTIATE_ALLREDUCE", "pid": 1, "ph": "B", "ts": 8440608},
        {"name": "", "pid": 14, "ph": "E", "ts": 8781513},
        {"name": "4", "pid": 5, "ph": "X", "ts": 8461066, "dur": 812355451642},
        {},
    ]
    lab = ingest_bytes(tmp_path, json.dumps(events))
    assert (len(lab.rows("other_events")), lab.counts, lab.source["format"]) == (5, (5, 5, 0), "chrome")


def test_format_of_a_torch_trace_is_kineto(tmp_path: Path) -> None:
    assert ingest_bytes(tmp_path, trace(kernel(), op())).source["format"] == "kineto"


# ------------------------------------------------------------------------------------------------ phases of other tools


def test_phases_of_other_tools_are_kept_among_the_others(tmp_path: Path) -> None:
    phases = ("B", "E", "b", "n", "e", "s", "t", "f", "i", "I", "M", "N", "D", "P", "v", "R", "O")
    events = [event("tool", f"event {phase}", ph=phase, ts=index) for index, phase in enumerate(phases)]
    lab = ingest_bytes(tmp_path, trace(*events))
    assert [(row["phase"], row["name"]) for row in lab.rows("other_events")] == [
        (phase, f"event {phase}") for phase in phases
    ]


def test_counter_events_are_kept(tmp_path: Path) -> None:
    sample = event("hw", "occupied slots", ph="C", args={"value": 42.5})
    lab = ingest_bytes(tmp_path, trace(FIRST, sample, LAST))
    kept = [*lab.rows("counters"), *lab.rows("other_events")]
    assert (lab.counts, len(kept)) == ((3, 3, 0), 1)
    assert "42.5" in lab.texts()
    assert "occupied slots" in lab.texts()


@pytest.mark.parametrize(("key", "name"), [("", "c"), ('a"b', 'c.a"b'), ("c", "c"), ("value", "c"), ("$x", "c.$x")])
def test_series_of_a_counter_may_have_any_name(tmp_path: Path, key: str, name: str) -> None:
    row = ingest_bytes(tmp_path, trace(event(None, "c", ph="C", args={key: 42.5}))).one("counters")
    assert (row["name"], row["value"]) == (name, 42.5)


def test_flow_id_is_kept_beside_an_argument_of_that_name(tmp_path: Path) -> None:
    flow = {"ph": "s", "id": 41, "bp": "e", "pid": 1, "tid": 1, "ts": 1000, "cat": "ac2g", "name": "launch"}
    other = {"ph": "i", "pid": 1, "tid": 1, "ts": 2000, "name": "mark", "args": {"id": 5}}
    rows = ingest_bytes(tmp_path, trace(flow, other)).rows("other_events")
    assert [args_of(row) for row in rows] == [{"id": 41, "bp": "e"}, {"id": 5}]


def test_flow_ids_are_kept(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(event("tool", "arrow", ph="s", id=987_654)))
    assert "987654" in str(lab.one("other_events")["args"])


def test_kernel_category_on_another_phase_is_no_kernel(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(FIRST, kernel("arrow") | {"ph": "s"}, kernel("name") | {"ph": "M"}))
    assert (lab.kernels, len(lab.rows("other_events"))) == (["first"], 2)
