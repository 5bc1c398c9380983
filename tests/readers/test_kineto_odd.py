"""Irregular events between regular ones: each is repaired by itself, and no other event is touched."""

import json
from pathlib import Path

import pytest

from tests.readers.small import Lab, ingest_bytes

GOOD = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}'
OP = '"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1'


def ingested(folder: Path, *events: str) -> Lab:
    text = f'{{"traceEvents": [{f", {GOOD}, ".join(("", *events, ""))[2:-2]}]}}'
    lab = ingest_bytes(folder, text)
    assert len(lab.kernels) == len(events) + 1
    return lab


@pytest.mark.parametrize(
    ("event", "args", "codes"),
    [
        (f'{{"zz": 1, {OP}, "args": {{"a": nan, "b": 2}}}}', {"b": 2, "zz": 1}, {"value_not_finite"}),
        (
            f'{{{OP}, "args": {{"a": inf, "b": [{{"x": 1}}, {{"name": 1}}]}}}}',
            {"b": [{"x": 1}, {"name": 1}]},
            {"value_not_finite"},
        ),
        (f'{{{OP}, "args": {{"a": -Infinity, "b": "x: nan y,inf"}}}}', {"b": "x: nan y,inf"}, {"value_not_finite"}),
        (f'{{{OP}, "args": {{"a": 1, "a": 2,}}}}', {"a": 2}, {"duplicate_key"}),
        (f'{{{OP}, "args": {{"\\ud800": 1, "\\ud801": 2}}}}', {"?": 2}, {"duplicate_key"}),
        (f'{{{OP}, "args": {{"\\ud800": 1, "?": 2}}}}', {"?": 2}, {"duplicate_key"}),
        (f'{{{OP}, "\\ud800": 1, "\\ud801": 2, "args": {{"a": 1}}}}', {"a": 1, "?": 2}, {"duplicate_key"}),
        (f'{{{OP}, "x\\u001f": 2, "args": {{"x\\u001F": 1}}}}', {"x\x1f": 1}, set()),
        (f'{{{OP}, "args": [1, {{"ph": "X"}}]}}', {"args": [1, {"ph": "X"}]}, {"arguments_no_object"}),
    ],
)
def test_an_irregular_event_is_a_row_with_its_values(tmp_path: Path, event: str, args: dict, codes: set[str]) -> None:
    lab = ingested(tmp_path, event, event)
    assert lab.counts == (5, 5, 0)
    assert [json.loads(str(row["args"])) for row in lab.rows("ops")] == [args, args]
    assert lab.diagnostics() == codes


def test_an_event_that_is_nested_too_deeply_is_reported(tmp_path: Path) -> None:
    lab = ingested(tmp_path, f'{{{OP}, "args": {{"a": 1, "a": 2, "b": {"[" * 9_999}{"]" * 9_999}}}}}')
    assert lab.counts == (3, 2, 1)
    assert lab.diagnostics() == {"event_lost"}


@pytest.mark.parametrize("key", ["ts", "dur"])
def test_a_time_that_rounds_to_beyond_64_bits_costs_that_time_only(tmp_path: Path, key: str) -> None:
    edge = {"ts": 1, "dur": 1} | {key: "edge"}
    event = json.dumps({"ph": "X", "cat": "cpu_op", "name": "a"} | edge).replace('"edge"', "-9223372036854775.8076")
    lab = ingested(tmp_path, event)
    column = {"ts": "start_ns", "dur": "dur_ns"}[key]
    assert lab.one("ops")[column] is None
    assert "time_unreadable" in lab.diagnostics()


def test_a_process_beyond_64_bits_costs_no_event(tmp_path: Path) -> None:
    lab = ingested(tmp_path, "{" + OP.replace('"pid": 1', '"pid": 9223372036854775808') + "}")
    assert lab.one("ops")["pid"] is None
