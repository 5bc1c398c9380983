"""A new reader is one package and one entry in the list; what it writes beyond the schema is an error that helps."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from tests.traces import write_trace
from tracelab.ingest.pipeline import FileResult, ingest
from tracelab.readers import base
from tracelab.readers.base import Probe, ReaderEntry, ReadResult
from tracelab.store.writer import Sink

ROWS = pa.table({"start_ns": [5], "dur_ns": [7], "name": ["gemm"]})


def write_rows(open_sink: Callable[[int], Sink], table: str, rows: pa.Table) -> ReadResult:
    sink = open_sink(0)
    sink.put(table, rows)
    sink.close()
    return ReadResult({"complete": True, "events_read": 1, "events_kept": 1, "events_skipped": 0})


def add_reader(monkeypatch: pytest.MonkeyPatch, table: str, rows: pa.Table) -> ModuleType:
    """Add a reader that writes these rows of each file that begins with EXAMPLE."""
    reader = ModuleType("tracelab.readers.example")
    reader.__dict__.update(
        VERSION="example-1",
        DESCRIPTION="an example",
        sniff=lambda head: head.startswith(b"EXAMPLE"),
        probe_file=lambda path: Probe("example"),
        time_span_ns=lambda path: None,
        read=lambda path, open_sink, **_: write_rows(open_sink, table, rows),
    )
    monkeypatch.setitem(sys.modules, "tracelab.readers.example", reader)
    monkeypatch.setattr(base, "READERS", (*base.READERS, ReaderEntry("example")))
    return reader


@pytest.fixture
def ingest_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, pa.Table], FileResult]:
    def ingest_one(table: str, rows: pa.Table) -> FileResult:
        add_reader(monkeypatch, table, rows)
        (tmp_path / "trace.example").write_bytes(b"EXAMPLE")
        (result,) = ingest([tmp_path / "trace.example"], tmp_path / "lab").files
        return result

    return ingest_one


def test_a_reader_is_found_by_its_entry_in_the_list(ingest_rows: Callable[[str, pa.Table], FileResult]) -> None:
    result = ingest_rows("kernels", ROWS)
    assert (result.status, result.format, result.rows) == ("stored", "example", {"kernels": 1})


@pytest.mark.parametrize(
    ("table", "rows", "problem"),
    [
        ("kernel", ROWS, r"table 'kernel' is not in the schema; there are .*kernels"),
        (
            "kernels",
            ROWS.append_column("colour", [["red"]]),
            r"column kernels\.colour is not in the schema; add it to ",
        ),
        (
            "kernels",
            ROWS.set_column(1, "dur_ns", [["7 ns"]]),
            r"column kernels\.dur_ns has type string where schema.py ",
        ),
    ],
)
def test_rows_that_do_not_fit_the_schema_name_reader_table_and_column(
    ingest_rows: Callable[[str, pa.Table], FileResult], table: str, rows: pa.Table, problem: str
) -> None:
    result = ingest_rows(table, rows)
    assert result.status == "failed"
    assert re.search(problem, result.message)
    assert "trace.example: reader 'example-1' is wrong: " in result.message


def test_the_traceback_of_such_an_error_is_printed_on_request(
    ingest_rows: Callable[[str, pa.Table], FileResult],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRACELAB_TRACEBACK", "1")
    ingest_rows("kernel", ROWS)
    assert "sink.put(table, rows)" in capsys.readouterr().err


def crash(*_: object, **__: object) -> None:
    raise KeyError("dur")


CRASH = (
    "reader 'example-1' failed (tracelab.readers.example raised KeyError: 'dur'); please report this file; "
    "TRACELAB_TRACEBACK=1 prints the traceback"
)


@pytest.mark.parametrize("function", ["sniff", "probe_file", "read"])
def test_a_reader_that_crashes_costs_its_own_file_and_names_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    setattr(add_reader(monkeypatch, "kernels", ROWS), function, crash)
    (tmp_path / "a.example").write_bytes(b"EXAMPLE")
    write_trace(tmp_path / "rank0.json", kernels=3, rank=0)
    results = {each.path.name: each for each in ingest([tmp_path], tmp_path / "lab").files}
    assert results["rank0.json"].status == "stored"
    assert results["a.example"].status == "failed"
    assert results["a.example"].message == f"{tmp_path}/a.example: {CRASH}"


@pytest.mark.parametrize("function", ["time_span_ns", "read_many"])
def test_files_are_stored_whose_reader_crashes_beside_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    reader = add_reader(monkeypatch, "kernels", ROWS)
    calls: list[str] = []
    setattr(reader, function, lambda *_, **__: (calls.append(function), crash()))
    reader.__dict__["probe_file"] = lambda path: Probe("example", rank=int(path.stem), world_size=8)
    for rank in range(8):
        (tmp_path / f"{rank}.example").write_text(f"EXAMPLE {rank}")
    assert {each.status for each in ingest([tmp_path], tmp_path / "lab").files} == {"stored"}
    assert calls
