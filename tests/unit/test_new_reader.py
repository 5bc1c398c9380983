"""A new reader is one package and one entry in the list; what it writes beyond the schema is an error that helps."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from tracelab.ingest.pipeline import FileResult, ingest
from tracelab.readers import base
from tracelab.readers.base import Probe, ReaderEntry, ReadResult
from tracelab.store.writer import Sink

ROWS = pa.table({"start_ns": [5], "dur_ns": [7], "name": ["gemm"]})


@pytest.fixture
def ingest_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, pa.Table], FileResult]:
    def ingest_one(table: str, rows: pa.Table) -> FileResult:
        reader = ModuleType("tracelab.readers.example")

        def read(path: Path, open_sink: Callable[[int], Sink], **_: object) -> ReadResult:
            sink = open_sink(0)
            sink.put(table, rows)
            sink.close()
            return ReadResult({"complete": True, "events_read": 1, "events_kept": 1, "events_skipped": 0})

        reader.__dict__.update(
            VERSION="example-1",
            DESCRIPTION="an example",
            sniff=lambda head: head.startswith(b"EXAMPLE"),
            probe_file=lambda path: Probe("example"),
            time_span_ns=lambda path: None,
            read=read,
        )
        monkeypatch.setitem(sys.modules, "tracelab.readers.example", reader)
        monkeypatch.setattr(base, "READERS", (*base.READERS, ReaderEntry("example")))
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
