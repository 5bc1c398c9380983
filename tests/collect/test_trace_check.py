"""Traces are looked through for whether they are JSON, and for what is in them."""

import json
from pathlib import Path

import pytest

from tracelab.collect.profiling import trace_check
from tracelab.collect.profiling.trace_check import check_trace

EVENTS = [{"ph": "X", "cat": "kernel", "name": 'a "b"'}, {"ph": "X", "cat": "cpu_op", "args": {"x": [1, {"y": "]}"}]}}]


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.json"
    path.write_text(text, "utf-8")
    return path


def test_events_are_counted_by_category(tmp_path: Path) -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": [*EVENTS, EVENTS[0]], "traceName": "x", "n": 12})
    seen = check_trace(written(tmp_path, text))
    assert (seen.problem, dict(seen.categories), seen.kernels) == (None, {"kernel": 2, "cpu_op": 1}, 2)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64])
def test_a_trace_is_the_same_in_whatever_pieces_it_is_read(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_check, "_CHUNK", piece)
    text = json.dumps({"n": 1234567, "traceEvents": EVENTS, "last": -1.5e3}, indent=1)
    seen = check_trace(written(tmp_path, text))
    assert (seen.problem, seen.categories.total()) == (None, 2)


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [{"name": "a "b""}]}',
        '{"traceEvents": [{"name": "a"}',
        '{"traceEvents": [{"name": "a"}], "metadata": NaN}',
        '{"traceEvents": []} {"again": 1}',
        '{"traceEvents": [{"name": "a\x01"}]}',
        "",
    ],
)
def test_what_is_no_json_is_reported_as_none(tmp_path: Path, text: str) -> None:
    assert check_trace(written(tmp_path, text)).problem is not None


def test_events_before_the_damage_are_counted(tmp_path: Path) -> None:
    seen = check_trace(written(tmp_path, '{"traceEvents": [{"cat": "kernel"}, {"cat": "kernel"}, {"cat" oops'))
    assert (seen.kernels, seen.problem is None) == (2, False)


@pytest.mark.parametrize("text", ["{}", '{"traceEvents": []}', '{"traceEvents": null}'])
def test_a_trace_without_events_is_json(tmp_path: Path, text: str) -> None:
    seen = check_trace(written(tmp_path, text))
    assert (seen.problem, seen.categories.total()) == (None, 0)


def test_copies_and_fills_are_work_of_a_gpu(tmp_path: Path) -> None:
    categories = ["gpu_memcpy", "gpu_memcpy", "gpu_memset", "cuda_runtime"]
    text = json.dumps({"traceEvents": [{"ph": "X", "cat": name, "name": "x"} for name in categories]})
    seen = check_trace(written(tmp_path, text))
    assert (seen.kernels, seen.copies) == (0, 3)
